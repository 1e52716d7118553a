//! The default fallback order.

use rustorch_core::{Device, DeviceKind};

/// The default fallback order of the devices that were found: by the [rank](rustorch_core::KindInfo::fallback_rank) of their
/// kinds, the CPU last. Of the kinds of one [group](rustorch_core::KindInfo::group), which reach the same hardware, only the
/// first is in it; of several devices of one kind, lower indices come first.
///
/// So: CUDA, OpenCL, CPU where there is an NVIDIA GPU; Metal, OpenCL, CPU on Apple's systems; else Vulkan (or, where there is
/// none, Direct3D 12), OpenCL, CPU. Devices outside the order are used where somebody names them.
///
/// ```
/// use rustorch_core::Device;
/// use rustorch_runtime::fallback_order;
///
/// let found = [Device::opencl(0), Device::vulkan(1), Device::vulkan(0), Device::dx12(0)];
/// assert_eq!(
///     fallback_order(&found),
///     [Device::vulkan(0), Device::vulkan(1), Device::opencl(0), Device::CPU]
/// );
/// ```
pub fn fallback_order(found: &[Device]) -> Vec<Device> {
    let mut order: Vec<Device> = found.iter().copied().filter(|device| !device.is_cpu()).collect();
    order.sort_by_key(|&device| (device.kind().info().fallback_rank, device));
    order.dedup();
    let kinds: Vec<DeviceKind> = order.iter().map(|device| device.kind()).collect();
    order.retain(|device| !kinds.iter().any(|&other| supersedes(other, device.kind())));
    order.push(Device::CPU);
    order
}

/// Whether a kind that is here keeps another one out of the fallback order.
pub(crate) fn supersedes(here: DeviceKind, other: DeviceKind) -> bool {
    let (first, second) = (here.info(), other.info());
    first.group.is_some()
        && first.group == second.group
        && (first.fallback_rank, here) < (second.fallback_rank, other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustorch_core::KindInfo;

    #[test]
    fn interfaces_to_the_same_gpus_stand_in_for_each_other() {
        let opencl = Device::opencl(0);
        let all = [
            Device::CPU,
            opencl,
            Device::dx12(0),
            Device::vulkan(1),
            Device::vulkan(0),
            Device::cuda(1),
            Device::cuda(0),
        ];
        assert_eq!(fallback_order(&all), [Device::cuda(0), Device::cuda(1), opencl, Device::CPU]);
        assert_eq!(fallback_order(&all[..5]), [Device::vulkan(0), Device::vulkan(1), opencl, Device::CPU]);
        assert_eq!(fallback_order(&all[..3]), [Device::dx12(0), opencl, Device::CPU]);
        let apple = [opencl, Device::metal(0)];
        assert_eq!(fallback_order(&apple), [Device::metal(0), opencl, Device::CPU]);
        assert_eq!(fallback_order(&[]), [Device::CPU]);
    }

    #[test]
    fn registered_kinds_have_the_place_of_their_rank() {
        let [early, late] = [("fallback-early", 5), ("fallback-late", 60)].map(|(name, fallback_rank)| {
            Device::new(
                DeviceKind::register(KindInfo { fallback_rank, ..KindInfo::new(name) }).expect("a new name"),
                0,
            )
        });
        let order = fallback_order(&[late, Device::opencl(0), early]);
        assert_eq!(order, [early, Device::opencl(0), late, Device::CPU]);
    }
}

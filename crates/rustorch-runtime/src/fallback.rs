//! The default fallback order.

use rustorch_core::{Device, DeviceKind};

/// The default fallback order of the devices that were found: by the [rank](rustorch_core::KindInfo::fallback_rank) of their
/// kinds, the CPU last. Of the kinds of one [group](rustorch_core::KindInfo::group), which reach the same hardware, only the
/// first is in it; of several devices of one kind, lower indices come first.
///
/// So: CUDA, OpenCL, CPU where there is an NVIDIA GPU; Core ML, Metal, OpenCL, CPU on Apple's systems; else Vulkan (or, where there is
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

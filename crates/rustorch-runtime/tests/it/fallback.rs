//! The default fallback order.

use rustorch_core::{Device, DeviceKind, KindInfo};
use rustorch_runtime::fallback_order;

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

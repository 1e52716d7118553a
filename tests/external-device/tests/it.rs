//! What the workspace does with a device that it knows nothing of.

use rustorch_core::{Decline, Device, DeviceType, Verdict};
use rustorch_runtime::{HybridExecutor, registry};
use rustorch_tensor::{DType, Placement, Tensor, set_device, with_device, with_placement};

#[test]
fn a_registered_device_is_one_like_any_other() {
    assert!("dummy".parse::<Device>().is_err());
    let kind = external_device::register().unwrap();
    let dummy = Device::new(kind, 0);

    // Names: parsed, printed, listed, resolved as `-b dummy:1` is.
    assert_eq!(("dummy".parse::<Device>().unwrap(), dummy.to_string()), (dummy, "dummy:0".to_owned()));
    assert!(DeviceType::names().contains(&"dummy"));
    let target = registry::target("dummy:1".parse().unwrap(), None).unwrap();
    assert_eq!(target.device, Device::new(kind, 1));
    let error = registry::target("dummy:2".parse().unwrap(), None).unwrap_err().to_string();
    assert!(error.contains("dummy:2") && error.contains("dummy:1"), "{error}");

    // Tensors: moved there, computed there, printed from there.
    let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]).unwrap();
    let there = x.to_device("dummy:0").unwrap();
    assert_eq!(there.device(), dummy);
    let sum = there.add(&there).unwrap();
    assert_eq!((sum.device(), sum.to_vec::<f32>().unwrap()), (dummy, vec![2.0, 4.0, 6.0, 8.0]));
    assert_eq!(with_device("dummy", || Tensor::zeros([2], DType::F32).unwrap().device()).unwrap(), dummy);
    set_device("dummy:1").unwrap();
    assert_eq!(Tensor::ones([3], DType::F32).unwrap().device(), Device::new(kind, 1));
    set_device(Device::CPU).unwrap();

    // Fallback: what it declines the CPU computes, from its memory where it is, and the result returns.
    let (product, explanation) = HybridExecutor::current().explain(|| there.matmul(&there));
    assert_eq!(product.unwrap().device(), dummy);
    let record = &explanation.records()[0];
    assert_eq!((record.device, record.returned_to), (Some(Device::CPU), Some(dummy)));
    assert_eq!(record.moved_bytes, 16, "the result; arguments are read in place");
    assert_eq!(record.considered[0], (dummy, Verdict::Declined(Decline::Op("matmul"))));
    assert!(explanation.to_string().contains("dummy:0"), "{explanation}");

    // Placement: first by its rank.
    let placed = |placement| with_placement(placement, || x.add(&x).unwrap().device()).unwrap();
    assert_eq!(placed(Placement::FirstSupported), dummy);
    assert_eq!(placed(Placement::Require(dummy)), dummy);
    assert_eq!(placed(Placement::Resident), Device::CPU);
    assert_eq!(HybridExecutor::current().fallback_order().unwrap()[..2], [dummy, Device::new(kind, 1)]);
}

//! Devices by name, without an executor in hand.

use rustorch::core::DeviceKind;
use rustorch::devices::{DiscoveredDevice, discover};
use rustorch::{
    DType, Device, DeviceGuard, Placement, PlacementGuard, Tensor, default_device, manual_seed, set_device,
    with_device, with_placement,
};
use rustorch_testkit::{Requirement, in_child, skip};

/// A device of this machine beside the CPU; none, with a message, where there is none.
fn device() -> Option<Device> {
    let found = discover().into_iter().find_map(|found| match found {
        DiscoveredDevice::Present(backend) => Some(backend.device()).filter(|device| !device.is_cpu()),
        DiscoveredDevice::Absent { .. } => None,
    });
    if found.is_none() {
        skip(Requirement::Vulkan, "there is no device but the CPU");
    }
    found
}

#[test]
fn every_kind_is_there_or_has_a_reason() {
    let found = discover();
    for kind in DeviceKind::all() {
        let of_kind = |found: &DiscoveredDevice| match found {
            DiscoveredDevice::Present(backend) => backend.device().kind() == kind,
            DiscoveredDevice::Absent { kind: absent, reason } => *absent == kind && !reason.is_empty(),
        };
        assert!(found.iter().any(of_kind), "{kind}");
    }
}

#[test]
fn a_tensor_works_on_any_thread() {
    let Some(device) = device() else { return };
    let x = Tensor::arange(0, 1000, 1).unwrap().to_dtype(DType::F32).unwrap();
    let there = x.to_device(device.to_string().as_str()).unwrap();
    let want = x.add(&x).unwrap().to_vec::<f32>().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let sum = there.add(&there).unwrap();
                assert_eq!(sum.device(), device);
                assert_eq!(sum.to_vec::<f32>().unwrap(), want);
                assert_eq!(there.zeros_like().unwrap().device(), device);
                assert_eq!(there.clamp(1.0, 5.0).unwrap().device(), device);
            });
        }
    });
    assert_eq!(there.to_device("cpu").unwrap().to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
}

/// Every way to make a tensor that takes no device.
fn made() -> Vec<(&'static str, Tensor)> {
    manual_seed(1);
    let f32 = DType::F32;
    vec![
        ("new", Tensor::new([1.0f32, 2.0]).unwrap()),
        ("scalar", Tensor::scalar(1.5).unwrap()),
        ("from_slice", Tensor::from_slice(&[1i64, 2], [2]).unwrap()),
        ("from_vec", Tensor::from_vec(vec![1u8, 2], [2]).unwrap()),
        ("from_bytes", Tensor::from_bytes(&[0; 8], f32, [2]).unwrap()),
        ("zeros", Tensor::zeros([2], f32).unwrap()),
        ("ones", Tensor::ones([2], f32).unwrap()),
        ("full", Tensor::full([2], 3.0, f32).unwrap()),
        ("arange", Tensor::arange(0, 5, 1).unwrap()),
        ("linspace", Tensor::linspace(0.0, 1.0, 5, f32).unwrap()),
        ("eye", Tensor::eye(2, 2, f32).unwrap()),
        ("rand", Tensor::rand([2], f32).unwrap()),
        ("randn", Tensor::randn([2], f32).unwrap()),
        ("randint", Tensor::randint(0, 5, [2], DType::I64).unwrap()),
        ("bernoulli", Tensor::bernoulli(0.5, [2], f32).unwrap()),
        ("randperm", Tensor::randperm(4).unwrap()),
    ]
}

#[test]
fn a_device_is_chosen_for_every_constructor() {
    in_child(
        "devices::a_device_is_chosen_for_every_constructor",
        |_| {},
        || {
            let Some(device) = device() else { return };
            let on_cpu = made();
            assert!(on_cpu.iter().all(|(_, x)| x.device() == Device::CPU));
            let check = |how: &str| {
                for ((name, there), (_, here)) in made().into_iter().zip(&on_cpu) {
                    assert_eq!(there.device(), device, "{name} by {how}");
                    if !name.starts_with("rand") && name != "bernoulli" {
                        assert_eq!(there.to_bytes().unwrap(), here.to_bytes().unwrap(), "{name} by {how}");
                    }
                }
            };
            with_device(device, || check("with_device")).unwrap();
            {
                let _guard = DeviceGuard::new(device).unwrap();
                check("a guard");
                std::thread::scope(|scope| {
                    scope.spawn(|| assert_eq!(default_device(), Device::CPU)).join().unwrap()
                });
            }
            set_device(device).unwrap();
            std::thread::scope(|scope| scope.spawn(|| check("set_device")).join().unwrap());
            assert!(with_device("cpu", || made().iter().all(|(_, x)| x.device().is_cpu())).unwrap());
            assert_eq!(Tensor::zeros([2], (DType::F32, Device::CPU)).unwrap().device(), Device::CPU);
            // What stands beside a tensor stays there.
            let x = &on_cpu[0].1;
            assert_eq!(x.ones_like().unwrap().device(), Device::CPU);
            assert_eq!(x.add(1.0).unwrap().device(), Device::CPU);
        },
    );
}

#[test]
fn policies_place_what_is_on_the_cpu() {
    let Some(device) = device() else { return };
    let x = Tensor::ones([64], DType::F32).unwrap();
    let ran = || x.exp().unwrap().device();
    assert_eq!(ran(), Device::CPU);
    assert_eq!(with_placement(Placement::Prefer(device), ran).unwrap(), device);
    let guard = PlacementGuard::new(Placement::Require(device)).unwrap();
    assert_eq!(ran(), device);
    drop(guard);
    assert_eq!(ran(), Device::CPU);
}

#[test]
fn names_that_mean_nothing_here_are_errors_that_say_why() {
    let x = Tensor::ones([1], DType::F32).unwrap();
    for (name, says) in
        [("toaster", "names no device"), ("cuda:77", "cuda:77"), ("vulkan:200", "there is cpu")]
    {
        let error = x.to_device(name).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

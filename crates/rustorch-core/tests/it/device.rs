//! Devices and their kinds by name.

use rustorch_core::{Device, DeviceKind, DeviceType, KindInfo};

#[test]
fn names_round_trip() {
    for name in DeviceType::names() {
        let parsed: DeviceType = name.parse().unwrap();
        let again: DeviceType = parsed.to_string().parse().unwrap();
        assert_eq!(parsed, again);
    }
    assert_eq!("CUDA:3".parse::<Device>().unwrap(), Device::cuda(3));
    for bad in ["", "gpu", "cuda:", "cuda:x", "cuda:300", "cpu:1"] {
        assert!(bad.parse::<DeviceType>().is_err(), "{bad}");
    }
    assert!(size_of::<Device>() <= 8);
}

#[test]
fn constants_are_at_their_places() {
    let kinds = [
        (DeviceKind::CPU, "cpu"),
        (DeviceKind::CUDA, "cuda"),
        (DeviceKind::METAL, "metal"),
        (DeviceKind::VULKAN, "vulkan"),
        (DeviceKind::DX12, "dx12"),
        (DeviceKind::OPENCL, "opencl"),
        (DeviceKind::COREML, "coreml"),
    ];
    let registered = |kind: &DeviceKind| kind.name().starts_with("tests-");
    assert_eq!(kinds.len(), DeviceKind::all().filter(|kind| !registered(kind)).count());
    for (kind, name) in kinds {
        assert_eq!(kind.name(), name);
        assert_eq!(DeviceKind::from_name(name), Some(kind));
    }
}

#[test]
fn a_registered_kind_has_its_name_everywhere() {
    assert!("tests-own:2".parse::<Device>().is_err());
    let info = KindInfo { fallback_rank: 3, ..KindInfo::new("tests-own") };
    let kind = DeviceKind::register(info).unwrap();
    assert_eq!(DeviceKind::register(info).unwrap(), kind);
    assert_eq!("tests-own:2".parse::<Device>().unwrap(), Device::new(kind, 2));
    assert_eq!(Device::new(kind, 2).to_string(), "tests-own:2");
    assert!(DeviceType::names().contains(&"tests-own"));
    let error = "gpu".parse::<Device>().unwrap_err().to_string();
    assert!(error.contains("tests-own"), "{error}");
    let error = DeviceKind::register(KindInfo::new("tests-own")).unwrap_err().to_string();
    assert!(error.contains("there is another `tests-own`"), "{error}");
    for name in ["auto", "hybrid", "hybrid-f32", "hybrid_f32", "cuda", "", "A", "a:b", "a,b", "1"] {
        assert!(DeviceKind::register(KindInfo::new(name)).is_err(), "{name}");
    }
    let last = KindInfo { fallback_rank: u8::MAX, ..KindInfo::new("tests-last") };
    assert!(DeviceKind::register(last).is_err());
}

#[test]
fn threads_that_register_at_once_agree() {
    let kinds: Vec<DeviceKind> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| DeviceKind::register(KindInfo::new("tests-race")).unwrap()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(kinds.iter().all(|&kind| kind == kinds[0] && kind.name() == "tests-race"));
}

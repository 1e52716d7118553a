//! The suite for devices on every adapter.

#![allow(clippy::unwrap_used, reason = "an adapter that does not open fails the test")]

use crate::common::plain::Plain;
use crate::common::swiftshader;
use rustorch_core::Backend;
use rustorch_cpu::CpuBackend;
use rustorch_kernels::{Driver, Engine, SubgroupUse};
use rustorch_testkit::Requirement;
use rustorch_testkit::suite::{Device, Missing, Rig, Variant};
use std::sync::Arc;

struct Adapters;

impl Rig for Adapters {
    const WEIGHTS: &'static [Variant] = &[Variant::Subgroups, Variant::NoSubgroups];
    const REGRESSIONS: &'static [Variant] = &[Variant::Default, Variant::No64Bit];
    const LONG_LINES: &'static [Variant] = &[Variant::Subgroups, Variant::NoSubgroups, Variant::No64Bit];
    const FUZZ: &'static [(Variant, usize)] = &[(Variant::Default, 60), (Variant::No64Bit, 20)];
    const SHARE: usize = 5;

    fn open(variant: Variant) -> Vec<Result<Device, Missing>> {
        let adapters = match rustorch_wgpu::adapters() {
            Ok(adapters) => adapters,
            Err(none) => return vec![Err((Requirement::Vulkan, none.to_string()))],
        };
        let open = |adapter: rustorch_wgpu::Adapter| {
            let driver = adapter.open().unwrap();
            let stated = driver.hardware().subgroups;
            let with = |subgroups| {
                let engine = Engine::with(adapter.open().unwrap(), subgroups).unwrap();
                let expected = stated.filter(|_| subgroups == SubgroupUse::On);
                assert_eq!(engine.hardware().subgroups, expected, "{} deals out of order", adapter.name());
                Arc::new(engine) as Arc<dyn Backend>
            };
            let without_subgroups = matches!(variant, Variant::Default | Variant::NoSubgroups);
            let ordered = without_subgroups && driver.hardware().software;
            let backend: Arc<dyn Backend> = match variant {
                Variant::Default => Arc::new(Engine::new(driver).unwrap()),
                Variant::No64Bit => Arc::new(Engine::with(Plain::new(driver), SubgroupUse::On).unwrap()),
                _ if stated.is_none() => {
                    return Err((Requirement::Feature, format!("{} has no subgroups", adapter.name())));
                }
                Variant::Subgroups => with(SubgroupUse::On),
                Variant::NoSubgroups => with(SubgroupUse::Off),
            };
            Ok(Device { name: format!("{} ({variant:?})", adapter.name()), backend, ordered })
        };
        adapters.into_iter().map(open).collect()
    }

    fn reference() -> Arc<dyn Backend> {
        Arc::new(CpuBackend::new(1))
    }
}

rustorch_testkit::device_suite!(Adapters);

/// A device that has neither 64-bit arithmetic nor fused products, and takes its time to compile.
#[test]
fn this_on_swiftshader() {
    let tests = [
        "suite::conformance::even_cases_conform",
        "suite::conformance::odd_cases_conform",
        "suite::conformance::weights_conform",
        "suite::conformance::regressions_stay_fixed",
    ];
    swiftshader::run(&[&tests[..], &["--exact"]].concat());
}

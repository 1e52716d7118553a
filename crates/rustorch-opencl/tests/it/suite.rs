//! The suite for devices on every OpenCL device. PoCL takes about a second for a kernel: random cases are few, and several in a row
//! share their kernels.

#![allow(clippy::unwrap_used, reason = "a device that does not open fails the test")]
#![allow(clippy::print_stdout, reason = "what a child says is the test's output")]

use rustorch_core::{Backend, DType};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::{Engine, SubgroupUse};
use rustorch_testkit::conformance::Case;
use rustorch_testkit::suite::{Device, Missing, Rig, Variant};
use rustorch_testkit::{Requirement, in_child};
use std::sync::Arc;

struct Devices;

impl Rig for Devices {
    const WEIGHTS: &'static [Variant] = &[Variant::Default, Variant::Subgroups];
    const LONG_LINES: &'static [Variant] = &[Variant::Subgroups];
    const FUZZ: &'static [(Variant, usize)] = &[(Variant::Default, 16)];
    const SHARE: usize = 24;
    const BURST: usize = 8;

    fn open(variant: Variant) -> Vec<Result<Device, Missing>> {
        let found = rustorch_opencl::discover();
        if found.devices.is_empty() {
            return vec![Err((Requirement::OpenCl, found.missing.join("; ")))];
        }
        let open = |candidate: &rustorch_opencl::Candidate| {
            let (driver, hardware) = (candidate.open().unwrap(), candidate.hardware());
            let engine = match variant {
                Variant::Default => Engine::new(driver).unwrap(),
                Variant::Subgroups if hardware.subgroups.is_none() => {
                    let reason = "has no subgroups, or not the shuffles that kernels need";
                    return Err((Requirement::Intel, format!("{} {reason}", hardware.name)));
                }
                Variant::Subgroups => {
                    let engine = Engine::with(driver, SubgroupUse::On).unwrap();
                    assert_eq!(
                        engine.hardware().subgroups,
                        hardware.subgroups,
                        "{} deals out of order",
                        hardware.name
                    );
                    engine
                }
                other => unreachable!("{other:?} is not among this rig's variants"),
            };
            let ordered = engine.hardware().keeps_order();
            Ok(Device {
                name: format!("{} ({variant:?})", hardware.name),
                backend: Arc::new(engine),
                ordered,
            })
        };
        found.devices.iter().map(open).collect()
    }

    fn reference() -> Arc<dyn Backend> {
        Arc::new(CpuBackend::new(1))
    }

    /// PoCL compiles one kernel at a time in a process.
    fn run(name: &str, body: fn()) {
        if let Some(said) = in_child(name, |_| {}, body) {
            println!("{said}");
        }
    }

    /// How data lies and how short floats are read are matters of the source before translation, which Vulkan tries.
    fn samples(case: &Case) -> bool {
        let own = |dtype: DType| dtype.is_quant() || !matches!(dtype, DType::F16 | DType::BF16);
        case.args.iter().all(|x| own(x.dtype) && (x.dtype.is_quant() || x.layout.is_contiguous()))
    }
}

rustorch_testkit::device_suite!(Devices);

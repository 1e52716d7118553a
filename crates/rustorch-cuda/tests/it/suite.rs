//! The suite for devices on the GPUs of this machine and on the emulated one, which has a part of it unless
//! `RUSTORCH_CONFORMANCE=all`.

#![allow(clippy::unwrap_used, reason = "a GPU that does not open fails the test")]

use crate::common::fakes::{emulates, everywhere};
use rustorch_core::Backend;
use rustorch_cpu::CpuBackend;
use rustorch_kernels::{Engine, Subgroups};
use rustorch_testkit::Requirement;
use rustorch_testkit::conformance::Extent;
use rustorch_testkit::suite::{Device, Missing, Rig, Variant};
use std::sync::Arc;

struct Gpus;

impl Rig for Gpus {
    const FUZZ: &'static [(Variant, usize)] = &[(Variant::Default, 16)];
    const SHARE: usize = 24;
    /// What an emulated kernel costs is that it has to be compiled.
    const BURST: usize = 8;

    fn open(_variant: Variant) -> Vec<Result<Device, Missing>> {
        let found = rustorch_cuda::discover();
        if found.devices.is_empty() {
            return vec![Err((Requirement::Cuda, found.missing.join("; ")))];
        }
        let open = |candidate: &rustorch_cuda::Candidate| {
            let name = candidate.hardware().name.clone();
            let engine = Engine::new(candidate.open().unwrap()).unwrap();
            assert_eq!(engine.hardware().subgroups, Some(Subgroups { least: 32, most: 32 }), "{name}");
            Ok(Device { name, backend: Arc::new(engine), ordered: false })
        };
        found.devices.iter().map(open).collect()
    }

    fn reference() -> Arc<dyn Backend> {
        Arc::new(CpuBackend::new(1))
    }

    fn extent() -> Extent {
        if emulates() { Extent::Sample } else { Extent::All }
    }

    fn run(name: &str, body: fn()) {
        everywhere(name, body);
    }
}

rustorch_testkit::device_suite!(Gpus);

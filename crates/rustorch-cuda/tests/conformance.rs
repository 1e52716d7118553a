//! Every operation that a GPU takes gives the processor's result.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; skipped ones say so")]

use rustorch_core::Backend;
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::conformance::{self, Case, Extent};

fn check(cases: &dyn Fn() -> Vec<Case>, least: usize) {
    let extent = Extent::from_env(Extent::All);
    let found = rustorch_cuda::discover();
    if found.devices.is_empty() {
        return println!("skipped: {}", found.missing.join("; "));
    }
    let cpu = CpuBackend::new(1);
    for candidate in found.devices {
        let engine = Engine::new(candidate.open().unwrap()).unwrap();
        println!("{}: {:?}", candidate.hardware().name, engine.hardware().arithmetic);
        let report = conformance::check_cases(extent.of(cases()), &engine, &cpu);
        println!("{extent:?}: {report}");
        assert!(report.failures.is_empty(), "{}: {} failures", engine.device(), report.failures.len());
        assert!(extent != Extent::All || report.agreed > least, "{report}");
    }
}

#[test]
fn every_device_conforms() {
    check(&conformance::cases, 1000);
}

#[test]
fn weights_give_the_same_bits() {
    check(&conformance::weight_cases, 70);
}

#[test]
fn what_was_found_stays_right() {
    let found = rustorch_cuda::discover();
    if found.devices.is_empty() {
        return println!("skipped: {}", found.missing.join("; "));
    }
    let cpu = CpuBackend::new(1);
    for candidate in found.devices {
        let engine = Engine::new(candidate.open().unwrap()).unwrap();
        let report = conformance::check_cases(conformance::found_cases(), &engine, &cpu);
        println!("{report}");
        assert!(report.failures.is_empty(), "{}: {} failures", engine.device(), report.failures.len());
        assert!(report.agreed > report.declined, "{report}");
    }
}

//! Every operation that a device takes gives the processor's result.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "these are tests; skipped ones say so")]

use rustorch_core::Backend;
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::conformance::{self, Case};

fn check(cases: &dyn Fn() -> Vec<Case>, least: usize) {
    let found = rustorch_opencl::discover();
    if found.devices.is_empty() {
        return eprintln!("skipped: {}", found.missing.join("; "));
    }
    let cpu = CpuBackend::new(1);
    for candidate in found.devices {
        let engine = Engine::new(candidate.open().unwrap()).unwrap();
        eprintln!("{}: {:?}", candidate.hardware().name, engine.hardware().arithmetic);
        // To look at one operation alone.
        let only = std::env::var("CONFORMANCE_OF").ok();
        let wanted = |case: &Case| only.as_deref().is_none_or(|name| case.op.name() == name);
        let report = conformance::check_cases(cases().into_iter().filter(wanted), &engine, &cpu);
        eprintln!("{report}");
        assert!(report.failures.is_empty(), "{}: {} failures", engine.device(), report.failures.len());
        assert!(only.is_some() || report.agreed > least, "{report}");
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

//! Kernels with subgroups give the processor's results on devices that have some, with every size of theirs.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "these are tests; skipped ones say so")]

use rustorch_cpu::CpuBackend;
use rustorch_kernels::{Engine, SubgroupUse};
use rustorch_testkit::conformance::{self, Case, Extent};

/// The least number of cases that agree is for devices that have 64-bit floats or not.
fn check(cases: &dyn Fn() -> Vec<Case>, least: usize) {
    let found = rustorch_opencl::discover();
    if found.devices.is_empty() {
        return eprintln!("skipped: {}", found.missing.join("; "));
    }
    let cpu = CpuBackend::new(1);
    for candidate in found.devices {
        let name = &candidate.hardware().name;
        let Some(subgroups) = candidate.hardware().subgroups else {
            eprintln!("skipped: {name} has no subgroups, or not the exchanges that kernels need");
            continue;
        };
        let engine = Engine::with(candidate.open().unwrap(), SubgroupUse::On).unwrap();
        assert_eq!(engine.hardware().subgroups, Some(subgroups), "{name} deals out of order");
        let report = conformance::check_cases(cases(), &engine, &cpu);
        eprintln!("{name} {subgroups:?}: {report}");
        assert!(report.failures.is_empty(), "{name}: {} failures", report.failures.len());
        assert!(report.agreed >= least, "{report}");
    }
}

#[test]
fn long_lines_conform() {
    check(&conformance::long_cases, 150);
}

#[test]
fn weights_give_the_same_bits() {
    check(&|| Extent::Sample.of(conformance::weight_cases()), 15);
}

//! Every operation that a GPU takes gives the processor's result: on the GPUs of this machine, and on the emulated one, which has
//! a part of the suite unless `RUSTORCH_CONFORMANCE=all`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; skipped ones say so")]

mod common;

use common::{emulates, everywhere};
use rustorch_core::Backend;
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::conformance::{self, Case, Extent};

fn check(cases: &dyn Fn() -> Vec<Case>, [all, sample]: [usize; 2]) {
    let extent = Extent::from_env(if emulates() { Extent::Sample } else { Extent::All });
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
        let least = match extent {
            Extent::All => all,
            Extent::Sample => sample,
            Extent::Of(_) => 0,
        };
        assert!(report.agreed >= least, "{report}");
    }
}

#[test]
fn every_device_conforms() {
    everywhere("every_device_conforms", || check(&conformance::cases, [1000, 100]));
}

#[test]
fn weights_give_the_same_bits() {
    everywhere("weights_give_the_same_bits", || check(&conformance::weight_cases, [70, 15]));
}

/// Cases that were once wrong somewhere.
fn found() {
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

#[test]
fn what_was_found_stays_right() {
    everywhere("what_was_found_stays_right", found);
}

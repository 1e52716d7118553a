//! Every operation that a device takes gives the processor's result.
//!
//! PoCL takes about a second for a kernel: only a part of the suite runs unless `RUSTORCH_CONFORMANCE=all`.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "these are tests; skipped ones say so")]

use rustorch_core::Backend;
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::conformance::{self, Case, Extent};

fn check(cases: &dyn Fn() -> Vec<Case>, [all, sample]: [usize; 2]) {
    let extent = Extent::from_env(Extent::Sample);
    let found = rustorch_opencl::discover();
    if found.devices.is_empty() {
        return eprintln!("skipped: {}", found.missing.join("; "));
    }
    let cpu = CpuBackend::new(1);
    for candidate in found.devices {
        let engine = Engine::new(candidate.open().unwrap()).unwrap();
        eprintln!("{}: {:?}", candidate.hardware().name, engine.hardware().arithmetic);
        // How data lies is a matter of the text before translation, which Vulkan tries.
        let plain = |case: &Case| {
            extent != Extent::Sample
                || case.args.iter().all(|x| x.dtype.is_quant() || x.layout.is_contiguous())
        };
        let cases = extent.of(cases()).into_iter().filter(plain);
        let report = conformance::check_cases(cases, &engine, &cpu);
        eprintln!("{extent:?}: {report}");
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
    check(&conformance::cases, [1000, 100]);
}

#[test]
fn weights_give_the_same_bits() {
    check(&conformance::weight_cases, [70, 15]);
}

#[test]
fn what_was_found_stays_right() {
    let found = rustorch_opencl::discover();
    if found.devices.is_empty() {
        return eprintln!("skipped: {}", found.missing.join("; "));
    }
    let cpu = CpuBackend::new(1);
    for candidate in found.devices {
        let engine = Engine::new(candidate.open().unwrap()).unwrap();
        let report = conformance::check_cases(conformance::found_cases(), &engine, &cpu);
        eprintln!("{report}");
        assert!(report.failures.is_empty(), "{}: {} failures", engine.device(), report.failures.len());
        assert!(report.agreed > report.declined, "{report}");
    }
}

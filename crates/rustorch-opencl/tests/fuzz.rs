//! Random cases on every device, which must give the processor's results and leave everything else alone: see
//! `rustorch_testkit::conformance::Fuzz` for the environment variables that choose them.
//!
//! PoCL takes about a second for a kernel: without such a variable, there are 20 seconds for cases of which several in a row
//! share their kernels.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "these are tests; skipped ones say so")]

use rustorch_core::Backend;
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::conformance::Fuzz;
use std::time::Duration;

#[test]
fn devices_give_the_processors_results() {
    let found = rustorch_opencl::discover();
    if found.devices.is_empty() {
        return eprintln!("skipped: {}", found.missing.join("; "));
    }
    let cpu = CpuBackend::new(1);
    for candidate in found.devices {
        let engine = Engine::new(candidate.open().unwrap()).unwrap();
        let fuzz = Fuzz::from_env(400, Duration::from_secs(20)).burst(8);
        let found = fuzz.run(&engine, &cpu);
        eprintln!("{}: {found}", candidate.hardware().name);
        assert!(found.failures.is_empty(), "{}: {} failures", engine.device(), found.failed);
        assert!(fuzz.only.is_some() || fuzz.of.is_some() || found.agreed() > 20, "{found}");
    }
}

//! Random cases on every NVIDIA GPU, which must give the processor's results and leave everything else alone: see
//! `rustorch_testkit::conformance::Fuzz` for the environment variables that choose them. The emulated GPU has 15 seconds.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; skipped ones say so")]

mod common;

use common::{emulates, everywhere};
use rustorch_core::Backend;
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::conformance::Fuzz;
use std::time::Duration;

#[test]
fn gpus_give_the_processors_results() {
    everywhere("gpus_give_the_processors_results", random);
}

fn random() {
    let found = rustorch_cuda::discover();
    if found.devices.is_empty() {
        return println!("skipped: {}", found.missing.join("; "));
    }
    let cpu = CpuBackend::new(1);
    for candidate in found.devices {
        let engine = Engine::new(candidate.open().unwrap()).unwrap();
        // What an emulated kernel costs is that it has to be compiled.
        let (seconds, burst, least) = if emulates() { (15, 8, 20) } else { (120, 4, 100) };
        let fuzz = Fuzz::from_env(2000, Duration::from_secs(seconds)).burst(burst);
        let found = fuzz.run(&engine, &cpu);
        println!("{}: {found}", candidate.hardware().name);
        assert!(found.failures.is_empty(), "{}: {} failures", engine.device(), found.failed);
        assert!(fuzz.only.is_some() || fuzz.of.is_some() || found.agreed() > least, "{found}");
    }
}

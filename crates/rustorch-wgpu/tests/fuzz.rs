//! Random cases on every adapter, which must give the processor's results and leave everything else alone: see
//! `rustorch_testkit::conformance::Fuzz` for the environment variables that choose them.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

#[path = "common/plain.rs"]
mod plain;

use rustorch_core::Backend;
use rustorch_cpu::CpuBackend;
use rustorch_kernels::{Driver, Engine};
use rustorch_testkit::conformance::Fuzz;
use std::time::Duration;

fn check<D: Driver>(open: impl Fn(&rustorch_wgpu::Adapter) -> D, cases: usize) {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return eprintln!("skipped: {none}"),
    };
    let cpu = CpuBackend::new(1);
    for adapter in adapters {
        let engine = Engine::new(open(&adapter)).unwrap();
        let fuzz = Fuzz::from_env(cases, Duration::from_secs(20)).burst(3);
        let found = fuzz.run(&engine, &cpu);
        eprintln!("{}: {found}", adapter.name());
        assert!(found.failures.is_empty(), "{}: {} failures", engine.device(), found.failed);
        assert!(fuzz.only.is_some() || fuzz.of.is_some() || found.agreed() > 20, "{found}");
    }
}

#[test]
fn adapters_give_the_processors_results() {
    check(|adapter| adapter.open().unwrap(), 1000);
}

#[test]
fn so_they_do_without_64_bit_arithmetic() {
    check(|adapter| plain::Plain::new(adapter.open().unwrap()), 300);
}

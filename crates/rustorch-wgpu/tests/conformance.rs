//! Every operation that a device takes gives the processor's result.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use rustorch_core::Backend;
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::conformance::{self, Case};

fn check(cases: &dyn Fn() -> Vec<Case>, least: usize) {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return eprintln!("skipped: {none}"),
    };
    let cpu = CpuBackend::new(1);
    for adapter in adapters {
        let engine = Engine::new(adapter.open().unwrap()).unwrap();
        eprintln!("{}: {:?}", adapter.name(), engine.hardware().arithmetic);
        // To look at some operations alone, named with commas between them.
        let only = std::env::var("CONFORMANCE_OF").ok();
        let wanted = |case: &Case| {
            only.as_deref().is_none_or(|names| names.split(',').any(|name| case.op.name() == name))
        };
        let report = conformance::check_cases(cases().into_iter().filter(wanted), &engine, &cpu);
        eprintln!("{report}");
        assert!(report.failures.is_empty(), "{}: {} failures", engine.device(), report.failures.len());
        assert!(only.is_some() || report.agreed > least, "{report}");
    }
}

#[test]
fn every_adapter_conforms() {
    check(&conformance::cases, 1000);
}

#[test]
fn weights_give_the_same_bits() {
    check(&conformance::weight_cases, 70);
}

//! Warps of older GPUs, beside the [suite](crate::suite).
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; skipped ones say so")]

use crate::common::fakes::emulated;
use rustorch_core::{DType, MatMul, Op, QuantType};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::{Engine, Subgroups};
use rustorch_testkit::conformance::{self, Case};
use rustorch_testkit::{Requirement, skip};

fn check(cases: &dyn Fn() -> Vec<Case>, least: usize) {
    let found = rustorch_cuda::discover();
    if found.devices.is_empty() {
        return skip(Requirement::Cuda, found.missing.join("; "));
    }
    let cpu = CpuBackend::new(1);
    for candidate in found.devices {
        let hardware = candidate.hardware();
        let engine = Engine::new(candidate.open().unwrap()).unwrap();
        assert_eq!(engine.hardware().subgroups, Some(Subgroups { least: 32, most: 32 }), "{}", hardware.name);
        let report = conformance::check_cases(cases(), &engine, &cpu);
        println!("{}, {}: {report}", hardware.name, hardware.driver);
        assert!(report.failures.is_empty(), "{}: {} failures", hardware.name, report.failures.len());
        assert!(report.agreed >= least, "{report}");
    }
}

/// Before compute capability 8.0, warps have no instructions for sums of integers.
#[test]
fn long_lines_of_integers_conform_on_older_gpus() {
    emulated("subgroups::long_lines_of_integers_conform_on_older_gpus", &[("FAKE_CAPABILITY", "75")], || {
        let integers = || {
            let whole = |case: &Case| matches!(case.args[0].dtype, DType::I32 | DType::U32);
            conformance::long_cases().into_iter().filter(whole).collect()
        };
        check(&integers, 20);
    });
}

/// Products of small matrices, which are one instruction on tensor cores, give the same by shuffles.
#[test]
fn matrix_products_by_shuffles_conform() {
    emulated("subgroups::matrix_products_by_shuffles_conform", &[("FAKE_ARCHITECTURE", "75")], || {
        // Scales for each 32 values, and for each 16.
        let types = [QuantType::Q4_K, QuantType::Q6_K].map(DType::Quant);
        let many = |case: &Case| {
            let free = matches!(case.op, Op::MatMul(MatMul { batch_invariant: false, .. }));
            free && types.contains(&case.args[1].dtype) && case.args[0].layout.dims()[0] > 64
        };
        let cases: Vec<Case> = conformance::weight_cases().into_iter().filter(many).collect();
        // What was compiled for another architecture is not to be found in a cache.
        let engine = Engine::new(rustorch_cuda::discover().devices[0].open_with(None).unwrap()).unwrap();
        assert!(engine.hardware().tensor_cores);
        let report = conformance::check_reordered_cases(cases, &engine, &CpuBackend::new(1));
        assert!(report.failures.is_empty(), "{report}");
        assert_eq!(report.agreed, 2, "{report}");
    });
}

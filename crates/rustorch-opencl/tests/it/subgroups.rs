//! Kernels with subgroups give the CPU's results with every subgroup size of a device, beside the [suite](crate::suite).
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "these are tests; skipped ones say so")]

use crate::common::one_size::OneSize;
use rustorch_core::{DType, QuantType};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::{Driver, Engine, KernelSource, SubgroupUse, Subgroups};
use rustorch_opencl::{Candidate, OpenCl};
use rustorch_testkit::conformance::{self, Case, Extent};
use rustorch_testkit::{Requirement, skip};

/// Whether a driver lets a kernel ask for a size of subgroups.
fn can_ask(driver: &OpenCl) -> bool {
    let source = "
    #ifndef cl_intel_required_subgroup_size
    #error no kernel chooses
    #endif
    __kernel void run(__global uint* y) { y[0] = 0; }";
    let text = KernelSource {
        label: "ask",
        source,
        entry: "run",
        workgroup: [1; 3],
        buffers: 1,
        parameters: 0,
        checked: false,
    };
    // SAFETY: the source is what its description says, or is refused.
    unsafe { driver.compile(&text) }.is_ok()
}

/// Cases with one size of subgroups after the other, each of which takes as many kernels again.
fn check_sizes(candidate: &Candidate, stated: Subgroups, cases: &dyn Fn() -> Vec<Case>, least: usize) {
    let (name, cpu) = (&candidate.hardware().name, CpuBackend::new(1));
    let sizes = (0..32).map(|bit| 1 << bit).filter(|size| (stated.least..=stated.most).contains(size));
    for size in sizes {
        let driver = candidate.open().unwrap();
        if !can_ask(&driver) {
            return skip(Requirement::Intel, format!("{name} chooses the size of subgroups itself"));
        }
        // The engine looks whether subgroups have this size.
        let engine = Engine::with(OneSize::new(driver, size), SubgroupUse::On).unwrap();
        let one = Subgroups { least: size, most: size };
        assert_eq!(engine.hardware().subgroups, Some(one), "{name} gives other sizes than it is asked for");
        let report = conformance::check_cases(cases(), &engine, &cpu);
        eprintln!("{name}, subgroups of {size}: {report}");
        assert!(report.failures.is_empty(), "{name}: {} failures with {size}", report.failures.len());
        assert!(report.agreed >= least, "{report}");
    }
}

/// Cases of each way in which a workgroup reduces what its threads have: a number, a number that is exchanged by
/// halves, a structure, a scan, several times in a kernel; and products by all threads and by each eight neighbours.
fn is_of_a_way(case: &Case) -> bool {
    let first = case.args[0].dtype;
    let short = case.args.iter().all(|x| x.layout.numel() <= 200);
    match case.op.name() {
        "sum" | "cumsum" => short && [DType::F32, DType::I64].contains(&first),
        "argmax" | "softmax" => short && first == DType::F32,
        "matmul" => case.args[1].dtype == DType::Quant(QuantType::Q8_0),
        _ => false,
    }
}

#[test]
fn every_size_conforms() {
    let cases = || {
        let mut all = conformance::long_cases();
        all.extend(conformance::weight_cases());
        match Extent::from_env(Extent::Sample) {
            Extent::Sample => all.into_iter().filter(is_of_a_way).collect(),
            extent => extent.of(all),
        }
    };
    let found = rustorch_opencl::discover();
    if found.devices.is_empty() {
        return skip(Requirement::OpenCl, found.missing.join("; "));
    }
    for candidate in found.devices {
        match candidate.hardware().subgroups {
            Some(stated) => check_sizes(&candidate, stated, &cases, 12),
            None => skip(Requirement::Intel, format!("{} has no subgroups", candidate.hardware().name)),
        }
    }
}

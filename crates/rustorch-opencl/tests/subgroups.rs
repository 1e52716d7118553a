//! Kernels with subgroups give the processor's results on devices that have some, with every size of theirs.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "these are tests; skipped ones say so")]

mod common;

use common::one_size::OneSize;
use rustorch_core::{DType, QuantType};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::{Driver, Engine, SubgroupUse, Subgroups, Text};
use rustorch_opencl::{Candidate, OpenCl};
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

/// Whether a driver lets a kernel ask for a size of subgroups.
fn can_ask(driver: &OpenCl) -> bool {
    let source = "
    #ifndef cl_intel_required_subgroup_size
    #error no kernel chooses
    #endif
    __kernel void run(__global uint* y) { y[0] = 0; }";
    let text = Text { label: "ask", source, entry: "run", workgroup: [1; 3], buffers: 1, parameters: 0 };
    driver.compile(&text).is_ok()
}

/// Cases with one size of subgroups after the other, each of which takes as many kernels again.
fn check_sizes(candidate: &Candidate, stated: Subgroups, cases: &dyn Fn() -> Vec<Case>, least: usize) {
    let (name, cpu) = (&candidate.hardware().name, CpuBackend::new(1));
    let sizes = (0..32).map(|bit| 1 << bit).filter(|size| (stated.least..=stated.most).contains(size));
    for size in sizes {
        let driver = candidate.open().unwrap();
        if !can_ask(&driver) {
            return eprintln!("skipped: {name} chooses the size of subgroups itself");
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

/// Cases of each way in which a workgroup puts together what its threads have: a number, a number that is exchanged by
/// halves, a structure, a scan, several times in a kernel; and products by all threads and by each eight neighbours.
fn is_of_a_way(case: &Case) -> bool {
    let first = case.args[0].dtype;
    let short = case.args.iter().all(|x| x.layout.elements() <= 200);
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
    for candidate in rustorch_opencl::discover().devices {
        match candidate.hardware().subgroups {
            Some(stated) => check_sizes(&candidate, stated, &cases, 12),
            None => eprintln!("skipped: {} has no subgroups", candidate.hardware().name),
        }
    }
}

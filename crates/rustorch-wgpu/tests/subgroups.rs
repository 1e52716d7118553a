//! Kernels with subgroups give the processor's results, whatever the size of subgroups, and so do those without.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

#[path = "common/plain.rs"]
mod plain;
#[path = "common/swiftshader.rs"]
mod swiftshader;

use rustorch_core::{Backend, DType};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::{Driver, Engine, SubgroupUse, Subgroups};
use rustorch_testkit::conformance::{self, Case, Extent};
use rustorch_wgpu::{Adapter, WgpuDriver};

/// The adapters that have subgroups, with these; says what is skipped.
fn adapters() -> Vec<(Adapter, Subgroups)> {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => {
            eprintln!("skipped: {none}");
            return Vec::new();
        }
    };
    let stated = |adapter: Adapter| {
        let subgroups = open(&adapter).hardware().subgroups;
        if subgroups.is_none() {
            eprintln!("skipped: {} has no subgroups", adapter.name());
        }
        subgroups.map(|subgroups| (adapter, subgroups))
    };
    adapters.into_iter().filter_map(stated).collect()
}

fn open(adapter: &Adapter) -> WgpuDriver {
    adapter.open().unwrap()
}

/// With and without subgroups, and a device without 64-bit arithmetic.
fn check(cases: &dyn Fn() -> Vec<Case>, least: usize) {
    let cpu = CpuBackend::new(1);
    for (adapter, subgroups) in adapters() {
        let with = Engine::with(open(&adapter), SubgroupUse::On).unwrap();
        let without = Engine::with(open(&adapter), SubgroupUse::Off).unwrap();
        let plain = Engine::with(plain::Plain::new(open(&adapter)), SubgroupUse::On).unwrap();
        assert_eq!(with.hardware().subgroups, Some(subgroups), "{} deals out of order", adapter.name());
        assert_eq!(without.hardware().subgroups, None);
        for engine in [&with as &dyn Backend, &without, &plain] {
            let report = conformance::check_cases(cases(), engine, &cpu);
            eprintln!("{} {subgroups:?}: {report}", adapter.name());
            assert!(report.failures.is_empty(), "{}: {} failures", adapter.name(), report.failures.len());
            assert!(report.agreed >= least, "{report}");
        }
    }
}

#[test]
fn long_lines_conform() {
    check(&conformance::long_cases, 150);
}

#[test]
fn weights_give_the_same_bits() {
    check(&|| Extent::from_env(Extent::Sample).of(conformance::weight_cases()), 0);
}

/// What also runs where compiling is slow.
#[test]
fn floats_conform() {
    let cpu = CpuBackend::new(1);
    for (adapter, subgroups) in adapters() {
        let engine = Engine::with(open(&adapter), SubgroupUse::On).unwrap();
        assert_eq!(engine.hardware().subgroups, Some(subgroups), "{} deals out of order", adapter.name());
        // Of each way: a number, a structure, several numbers, a scan, twice in a kernel.
        let ways = [
            "sum",
            "prod",
            "amax",
            "argmax",
            "var",
            "logsumexp",
            "cumsum",
            "softmax",
            "log_softmax",
            "layer_norm",
            "rms_norm",
            "add_rms_norm",
            "group_norm",
        ];
        let short = |case: &Case| {
            ways.contains(&case.op.name())
                && case.args.iter().all(|x| x.dtype == DType::F32 && x.layout.elements() <= 600)
        };
        let cases = conformance::long_cases().into_iter().filter(short);
        let report = conformance::check_cases(cases, &engine, &cpu);
        eprintln!("{} {subgroups:?}: {report}", adapter.name());
        assert!(report.failures.is_empty() && report.agreed >= 30, "{}: {report}", adapter.name());
    }
}

/// A processor in disguise uses none unless it is told to; other devices do.
#[test]
fn subgroups_are_for_hardware() {
    for (adapter, subgroups) in adapters() {
        let engine = Engine::with(open(&adapter), SubgroupUse::Auto).unwrap();
        let expected = (!adapter.is_software()).then_some(subgroups);
        assert_eq!(engine.hardware().subgroups, expected, "{}", adapter.name());
    }
}

/// Its subgroups have 4 invocations.
#[test]
fn some_of_this_on_swiftshader() {
    swiftshader::run(&["floats_conform", "--exact"]);
}

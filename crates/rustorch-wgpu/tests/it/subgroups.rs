//! The use of subgroups, beside the [suite](crate::suite).

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use crate::common::swiftshader;
use rustorch_core::DType;
use rustorch_cpu::CpuBackend;
use rustorch_kernels::{Driver, Engine, SubgroupUse, Subgroups};
use rustorch_testkit::conformance::{self, Case};
use rustorch_testkit::{Requirement, skip};
use rustorch_wgpu::{Adapter, WgpuDriver};

/// The adapters that have subgroups, with these; says what is skipped.
fn adapters() -> Vec<(Adapter, Subgroups)> {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => {
            skip(Requirement::Vulkan, none);
            return Vec::new();
        }
    };
    let stated = |adapter: Adapter| {
        let subgroups = open(&adapter).hardware().subgroups;
        if subgroups.is_none() {
            skip(Requirement::Feature, format!("{} has no subgroups", adapter.name()));
        }
        subgroups.map(|subgroups| (adapter, subgroups))
    };
    adapters.into_iter().filter_map(stated).collect()
}

fn open(adapter: &Adapter) -> WgpuDriver {
    adapter.open().unwrap()
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
                && case.args.iter().all(|x| x.dtype == DType::F32 && x.layout.numel() <= 600)
        };
        let cases = conformance::long_cases().into_iter().filter(short);
        let report = conformance::check_cases(cases, &engine, &cpu);
        eprintln!("{} {subgroups:?}: {report}", adapter.name());
        assert!(report.failures.is_empty() && report.agreed >= 30, "{}: {report}", adapter.name());
    }
}

/// A software renderer uses none unless it is told to; other devices do.
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
    swiftshader::run(&["subgroups::floats_conform", "--exact"]);
}

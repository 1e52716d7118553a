//! Conformance of devices that report fewer or other features than they have; the rest is in [`suite`](crate::suite).

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use crate::common::plain;
use rustorch_core::{Backend, DType, MatMul, Op};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::conformance::{self, Case, Extent};
use rustorch_testkit::{Requirement, skip};

/// One shape is enough, and the points at which functions of complex numbers are hard: what differs is the arithmetic.
#[test]
fn devices_without_64_bit_arithmetic_conform() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    let cpu = CpuBackend::new(1);
    for adapter in adapters {
        let engine = Engine::new(plain::Plain::new(adapter.open().unwrap())).unwrap();
        let extent = Extent::from_env(Extent::Sample);
        let simple = |case: &Case| {
            let plain = |dims: &[usize], dtype| dims == [7] || dims.len() == 1 && dtype == DType::C64;
            case.args.iter().all(|arg| arg.layout.is_contiguous() && plain(arg.layout.dims(), arg.dtype))
        };
        let cases = extent.of(conformance::cases()).into_iter().filter(simple).collect();
        let cases = conformance::one_in(Extent::share(3), cases);
        let report = conformance::check_cases(cases, &engine, &cpu);
        eprintln!("{report}");
        assert!(report.failures.is_empty(), "{}: {} failures", engine.device(), report.failures.len());
        let least = match extent {
            Extent::All => 1000,
            Extent::Sample => 50,
            Extent::Of(_) => 0,
        };
        assert!(report.agreed >= least, "{report}");
    }
}

/// On hardware, other kernels multiply quantized weights than on software devices.
#[test]
fn weights_conform_as_on_hardware() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    let cpu = CpuBackend::new(1);
    for adapter in adapters {
        let engine = Engine::new(plain::Plain::gpu(adapter.open().unwrap())).unwrap();
        let row =
            |case: &Case| case.op == Op::MatMul(MatMul::default()) && case.args[0].layout.dims()[0] == 1;
        let cases = conformance::weight_cases().into_iter().filter(row);
        let report = conformance::check_cases(cases, &engine, &cpu);
        eprintln!("{report}");
        assert!(report.failures.is_empty(), "{}: {} failures", engine.device(), report.failures.len());
        assert!(report.agreed >= 13, "{report}");
    }
}

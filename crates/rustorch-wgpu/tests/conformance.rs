//! Every operation that a device takes gives the processor's result. A part of the suite runs unless
//! `RUSTORCH_CONFORMANCE=all`.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

#[path = "common/plain.rs"]
mod plain;
#[path = "common/swiftshader.rs"]
mod swiftshader;

use rustorch_core::{Backend, DType, MatMul, Op};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::conformance::{self, Case, Extent};

fn check(cases: &dyn Fn() -> Vec<Case>, [all, sample]: [usize; 2]) {
    let extent = Extent::from_env(Extent::Sample);
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return eprintln!("skipped: {none}"),
    };
    let cpu = CpuBackend::new(1);
    for adapter in adapters {
        let engine = Engine::new(adapter.open().unwrap()).unwrap();
        eprintln!("{}: {:?}", adapter.name(), engine.hardware().arithmetic);
        let report = conformance::check_cases(extent.of(cases()), &engine, &cpu);
        eprintln!("{extent:?}: {report}");
        assert!(report.failures.is_empty(), "{}: {} failures", engine.device(), report.failures.len());
        let least = match extent {
            Extent::All => all,
            Extent::Sample => sample,
            Extent::Of(_) => 0,
        };
        assert!(report.agreed >= least, "{report}");
    }
}

#[test]
fn every_adapter_conforms() {
    check(&conformance::cases, [1000, 100]);
}

/// One shape is enough, and the points at which functions of complex numbers are hard: what differs is the arithmetic.
#[test]
fn devices_without_64_bit_arithmetic_conform() {
    let Ok(adapters) = rustorch_wgpu::adapters() else { return eprintln!("skipped: no device") };
    let cpu = CpuBackend::new(1);
    for adapter in adapters {
        let engine = Engine::new(plain::Plain::new(adapter.open().unwrap())).unwrap();
        let extent = Extent::from_env(Extent::Sample);
        let simple = |case: &Case| {
            let plain = |dims: &[usize], dtype| dims == [7] || dims.len() == 1 && dtype == DType::C64;
            case.args.iter().all(|arg| arg.layout.is_contiguous() && plain(arg.layout.dims(), arg.dtype))
        };
        let cases = extent.of(conformance::cases()).into_iter().filter(simple);
        let report = conformance::check_cases(cases, &engine, &cpu);
        eprintln!("{report}");
        assert!(report.failures.is_empty(), "{}: {} failures", engine.device(), report.failures.len());
        let least = match extent {
            Extent::All => 1000,
            Extent::Sample => 150,
            Extent::Of(_) => 0,
        };
        assert!(report.agreed >= least, "{report}");
    }
}

#[test]
fn weights_give_the_same_bits() {
    check(&conformance::weight_cases, [70, 15]);
}

/// On hardware, several threads share a row of the weight where there is one row of activations.
#[test]
fn weights_give_the_same_bits_as_on_hardware() {
    let Ok(adapters) = rustorch_wgpu::adapters() else { return eprintln!("skipped: no device") };
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

/// Cases that were once wrong, also without 64-bit arithmetic.
#[test]
fn what_was_found_stays_right() {
    let Ok(adapters) = rustorch_wgpu::adapters() else { return eprintln!("skipped: no device") };
    let cpu = CpuBackend::new(1);
    for adapter in adapters {
        let whole = Engine::new(adapter.open().unwrap()).unwrap();
        let plain = Engine::new(plain::Plain::new(adapter.open().unwrap())).unwrap();
        for engine in [&whole as &dyn Backend, &plain] {
            let report = conformance::check_cases(conformance::found_cases(), engine, &cpu);
            eprintln!("{report}");
            assert!(report.failures.is_empty(), "{}: {} failures", engine.device(), report.failures.len());
            assert!(report.agreed > report.declined, "{report}");
        }
    }
}

/// A device that has neither 64-bit arithmetic nor fused products, and takes its time to compile.
#[test]
fn this_on_swiftshader() {
    let tests = ["every_adapter_conforms", "weights_give_the_same_bits", "what_was_found_stays_right"];
    swiftshader::run(&[&tests[..], &["--exact"]].concat());
}

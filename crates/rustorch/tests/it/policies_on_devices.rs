//! Placement policies on real devices, each as its documentation says.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use crate::common::executor;
use rustorch::core::{C128, DType, Device, OpType, Verdict};
use rustorch::runtime::{HybridExecutor, OpTable, Placement};
use rustorch::{Error, Tensor};

/// Runs `f` under a policy: the device that ran the one operation, or the error.
fn ran(
    executor: &HybridExecutor,
    placement: Placement,
    f: impl FnOnce() -> Result<Tensor, Error>,
) -> Result<Device, String> {
    let executor = executor.with_policy(placement).unwrap();
    let (result, explanation) = executor.explain(f);
    result.map_err(|error| error.to_string())?;
    Ok(explanation.records().last().unwrap().device.unwrap())
}

fn on_each(test: impl Fn(Device, &HybridExecutor)) {
    for name in ["vulkan", "opencl"] {
        if let Some((device, executor)) = executor(name) {
            executor.scope(|| test(device, &executor));
        }
    }
}

fn numbers(n: usize) -> Tensor {
    Tensor::ones([n], DType::F32).unwrap()
}

#[test]
fn a_size_divides_the_work() {
    on_each(|device, executor| {
        let (small, large) = (numbers(100), numbers(1 << 18));
        let placement = || Placement::GpuThreshold(1 << 20);
        assert_eq!(ran(executor, placement(), || small.add(&small)), Ok(Device::CPU));
        assert_eq!(ran(executor, placement(), || large.add(&large)), Ok(device));
    });
}

#[test]
fn a_table_divides_the_operations() {
    on_each(|device, executor| {
        let x = Tensor::ones([8, 8], DType::F32).unwrap();
        let table = || {
            Placement::ByOp(
                OpTable::new().class(OpType::LinearAlgebra, device).class(OpType::Elementwise, Device::CPU),
            )
        };
        assert_eq!(ran(executor, table(), || x.matmul(&x)), Ok(device));
        assert_eq!(ran(executor, table(), || x.mul(&x)), Ok(Device::CPU));
        // What the table does not name goes by the fallback order.
        assert_eq!(ran(executor, table(), || x.softmax(-1)), Ok(device));
    });
}

#[test]
fn a_required_device_is_used_or_the_error_says_why_not() {
    on_each(|device, executor| {
        let x = numbers(3);
        // Powers of c128 are nowhere but on the CPU.
        let y = Tensor::from_slice(&[C128::new(1.0, 2.0), C128::I], [2]).unwrap();
        for placement in [Placement::Require(device), Placement::GpuOnly] {
            assert_eq!(ran(executor, placement.clone(), || x.add(&x)), Ok(device));
            let error = ran(executor, placement, || y.pow(&y)).unwrap_err();
            assert!(error.contains("pow") && error.contains(&device.to_string()), "{error}");
        }
        assert_eq!(ran(executor, Placement::Prefer(device), || y.pow(&y)), Ok(Device::CPU));
        assert_eq!(ran(executor, Placement::FirstSupported, || x.add(&x)), Ok(device));
        assert_eq!(ran(executor, Placement::CpuOnly, || x.to_device(device)?.add(&x)), Ok(Device::CPU));
    });
}

/// Whole classes that devices lack, and single operations: the CPU computes, the result comes home.
#[test]
fn whatever_a_device_lacks_runs_elsewhere() {
    let f64s = Tensor::from_slice(&[0.5f64, -0.25, 0.125], [3]).unwrap();
    let c64s = f64s.to_dtype(DType::C64).unwrap();
    let c128s = f64s.to_dtype(DType::C128).unwrap();
    type Function = fn(&Tensor) -> Result<Tensor, Error>;
    let wanted: [(&str, &Tensor, Function); 4] = [
        ("exp", &f64s, Tensor::exp),
        ("sin", &c64s, Tensor::sin),
        ("pow", &c128s, |x| x.pow(x)),
        ("sort", &f64s, |x| Ok(x.sort(0, true)?.0)),
    ];
    on_each(|device, executor| {
        for (name, x, f) in wanted {
            let want = f(x).unwrap();
            let there = x.to_device(device).unwrap();
            let (got, explanation) = executor.explain(|| f(&there));
            let got = got.unwrap();
            assert_eq!(got.device(), device, "{name}");
            let back = got.to_device(Device::CPU).unwrap();
            assert_eq!(format!("{back}"), format!("{want}"), "{name}");
            let record = explanation.records().iter().find(|r| r.op.name() == name).unwrap();
            println!("{device}: {name} ran on {:?}: {:?}", record.device, record.considered);
            if record.device == Some(Device::CPU) {
                assert_eq!(record.returned_to, Some(device));
                assert!(
                    matches!(record.considered[0], (d, Verdict::Declined(_)) if d == device),
                    "{explanation}"
                );
            }
        }
    });
}

//! Training while a device fails: the bits of the run without.

use rustorch_core::{Decline, Device};
use rustorch_cpu::CpuBackend;
use rustorch_runtime::{HybridExecutor, Placement};
use rustorch_tensor::{DType, Generator, Result, Tensor, TensorSpec, autograd, capture};
use rustorch_testkit::{Act, FakeDevice, Point, Rule};
use std::sync::Arc;

/// Steps of gradient descent on a network of two layers, run eagerly or as a captured program: the bytes of its weights.
fn train(steps: usize, is_captured: bool) -> Result<Vec<Vec<u8>>> {
    let generator = Generator::new(1);
    let (x, y) = (generator.randn([8, 5], DType::F32)?, generator.randn([8, 2], DType::F32)?);
    let weights = [
        generator.randn([6, 5], DType::F32)?,
        Tensor::zeros([6], DType::F32)?,
        generator.randn([2, 6], DType::F32)?,
        Tensor::zeros([2], DType::F32)?,
    ];
    for weight in &weights {
        weight.requires_grad_(true)?;
    }
    let [w, b, v, c] = &weights;
    let step = |x: &Tensor, y: &Tensor| -> Result<()> {
        let hidden = x.linear(w, Some(b))?.tanh()?;
        let loss = hidden.linear(v, Some(c))?.sub(y)?.square()?.mean_all()?;
        loss.backward()?;
        for weight in &weights {
            let grad = weight.grad().expect("each weight takes part");
            autograd::no_grad(|| weight.sub_(&grad.mul(0.05)?))?;
            weight.zero_grad();
        }
        Ok(())
    };
    if is_captured {
        let specs = [TensorSpec::from(&x), TensorSpec::from(&y)];
        let program = capture(&specs, |args| step(&args[0], &args[1]).map(|()| vec![]))?;
        (0..steps).try_for_each(|_| program.run(&[&x, &y]).map(drop))?;
    } else {
        (0..steps).try_for_each(|_| step(&x, &y))?;
    }
    weights.iter().map(Tensor::to_bytes).collect()
}

/// A device that runs the CPU's kernels, and an executor that asks it first.
fn device() -> Result<(Arc<FakeDevice>, HybridExecutor)> {
    let cpu = Arc::new(CpuBackend::new(1));
    let fake = Arc::new(FakeDevice::new(Device::cuda(0), cpu));
    let executor = HybridExecutor::builder()
        .threads(1)
        .backend(Arc::clone(&fake) as _)
        .placement(Placement::FirstSupported)
        .build()?
        .with_number_check(true);
    Ok((fake, executor))
}

#[test]
fn faults_anywhere_change_no_bit() -> Result<()> {
    try_faults(false)
}

#[test]
fn faults_anywhere_in_captured_programs_change_no_bit() -> Result<()> {
    try_faults(true)
}

fn try_faults(is_captured: bool) -> Result<()> {
    let eager = |steps| train(steps, false);
    let train = |steps| train(steps, is_captured);
    let faults = [
        (Point::Supports, Act::Decline(Decline::DType(DType::F32))),
        (Point::Run, Act::Fail),
        (Point::Run, Act::RunOut),
        (Point::Run, Act::Lose),
        (Point::Run, Act::Nan),
    ];
    // At each operation of a step, its backward pass included, and at some of twenty.
    for (steps, every) in [(1, 1), (20, 149)] {
        let expected = eager(steps)?;
        let (fake, executor) = device()?;
        assert_eq!(executor.scope(|| train(steps))?, expected);
        let operations = fake.calls().len();
        assert!(operations > 15 * steps, "the device ran {operations} operations");
        for (at, (point, act)) in
            (0..operations).step_by(every).flat_map(|at| faults.iter().map(move |fault| (at, fault)))
        {
            let (fake, executor) = device()?;
            fake.script(Rule::at(*point).after(at).times(1).act(act.clone()));
            match executor.scope(|| train(steps)) {
                Ok(weights) => assert!(weights == expected, "{act:?} at operation {at}"),
                // A device that is gone has taken along what it alone held, which is an error that says so.
                Err(error) => {
                    let message = error.to_string();
                    assert!(*act == Act::Lose && message.contains("is lost"), "{act:?} at {at}: {message}");
                }
            }
        }
    }
    Ok(())
}

//! Captures a training step of a small network, prints the graph of its passes, and trains with it beside the same step run eagerly:
//! `cargo run --release -p rustorch --example capture_mlp`.
#![allow(clippy::print_stdout, reason = "it is what the example is for")]

use rustorch::nn::{Layer, Linear, Module, Sequential, seq};
use rustorch::optim::{Adam, AdamOptions};
use rustorch::{DType, Pass, Program, Result, Tensor, TensorSpec, capture, capture_with, manual_seed};
use std::time::Instant;

const STEPS: usize = 2000;

/// The loss of a batch; the gradients are the parameters'.
fn pass(model: &Sequential, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    model.zero_grad();
    let loss = model.forward(x)?.sub(y)?.square()?.mean_all()?;
    loss.backward()?;
    Ok(loss.detach())
}

/// Trains a network, by steps that are run eagerly or as a program; the last loss.
fn train(x: &Tensor, y: &Tensor, is_captured: bool) -> Result<f64> {
    manual_seed(0);
    let model =
        seq![Linear::new(2, 32)?, Tensor::tanh, Linear::new(32, 32)?, Tensor::tanh, Linear::new(32, 1)?];
    let optimizer = Adam::new(&model, AdamOptions { lr: 3e-3, ..Default::default() })?;
    let specs = [TensorSpec::from(x), TensorSpec::from(y)];
    let step = |batch: &[Tensor]| {
        let loss = pass(&model, &batch[0], &batch[1])?;
        optimizer.step()?;
        Ok(vec![loss])
    };
    let program = is_captured.then(|| capture(&specs, step)).transpose()?;
    let batch = [x.clone(), y.clone()];
    let (start, mut loss) = (Instant::now(), f64::NAN);
    for _ in 0..STEPS {
        let last = match &program {
            Some(program) => program.run(&[x, y])?,
            None => step(&batch)?,
        };
        loss = last[0].item()?.to_f64();
    }
    println!("{STEPS} steps took {:.0} µs each", 1e6 * start.elapsed().as_secs_f64() / STEPS as f64);
    Ok(loss)
}

fn main() -> Result<()> {
    // The product of two numbers.
    let x = Tensor::rand([16, 2], DType::F32)?;
    let y = x.select(1, 0)?.mul(&x.select(1, 1)?)?.unsqueeze(1)?;

    let model = seq![Linear::new(2, 3)?, Tensor::tanh, Linear::new(3, 1)?];
    let graph = |passes: &[Pass]| {
        let specs = [TensorSpec::from(&x), TensorSpec::from(&y)];
        capture_with(passes, &specs, |batch| Ok(vec![pass(&model, &batch[0], &batch[1])?]))
    };
    let (recorded, simplified) = (graph(&[])?, graph(Pass::ALL)?);
    let count = |program: &Program| program.graph().nodes.len();
    println!(
        "A smaller network, in {} operations of {} that were recorded:",
        count(&simplified),
        count(&recorded)
    );
    println!("{}", simplified.graph());

    print!("eager: ");
    let eager = train(&x, &y, false)?;
    print!("captured: ");
    let captured = train(&x, &y, true)?;
    println!("losses: {eager:e} and {captured:e}");
    assert!(eager == captured, "a program gives the bits of eager execution");
    Ok(())
}

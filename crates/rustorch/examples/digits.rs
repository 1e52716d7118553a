//! Trains a multilayer perceptron and a convolutional network on handwritten digits: `cargo run --release -p rustorch --example digits`.
#![allow(clippy::print_stdout, reason = "it is what the example is for")]

mod progress;

use progress::Progress;
use rustorch::nn::data::TensorDataset;
use rustorch::nn::{
    BatchNorm2d, Conv2d, Conv2dOptions, Dropout, Flatten, Layer, Linear, MaxPool2d, Module, Sequential,
};
use rustorch::optim::schedule::{CosineAnnealingLR, Scheduler};
use rustorch::optim::{AdamW, AdamWOptions};
use rustorch::{DType, Generator, Result, Tensor, autograd::no_grad, files::load_npz, manual_seed};
use std::time::Instant;

const BATCH: usize = 32;

/// `[n, 1, 8, 8]` to logits.
fn mlp() -> Result<Sequential> {
    let hidden = Sequential::new().push(Flatten::default()).push(Linear::new(64, 128)?).push(Tensor::relu);
    Ok(hidden.push(Linear::new(128, 10)?))
}

/// `[n, 1, 8, 8]` to logits.
fn cnn() -> Result<Sequential> {
    let conv = |from, to| Conv2d::with(from, to, 3, Conv2dOptions::default().padding(1));
    let first = Sequential::new().push(conv(1, 16)?).push(BatchNorm2d::new(16)?).push(Tensor::relu);
    let second = first.push(conv(16, 32)?).push(BatchNorm2d::new(32)?).push(Tensor::relu);
    let features = second.push(MaxPool2d::new(2)).push(Flatten::default()).push(Dropout::new(0.3)?);
    Ok(features.push(Linear::new(512, 10)?))
}

/// Trains a model; the share of the test set that it gets right.
fn train(model: &Sequential, epochs: u64, data: &TensorDataset<2>, test: &TensorDataset<2>) -> Result<f32> {
    let optimizer = AdamW::new(model, AdamWOptions { lr: 3e-3, ..Default::default() })?;
    let steps = epochs * data.len().div_ceil(BATCH) as u64;
    let scheduler = Scheduler::new(CosineAnnealingLR::new(steps, 0.0)?, &optimizer)?;
    let progress = Progress::new(steps);
    for epoch in 0..epochs {
        let mut sum = 0.0;
        for batch in data.shuffled(BATCH, 0, epoch)? {
            let [x, y] = batch?;
            optimizer.zero_grad();
            let loss = model.forward(&x)?.cross_entropy(&y, &Default::default())?;
            loss.backward()?;
            optimizer.step()?;
            scheduler.step(&optimizer)?;
            sum += progress.step(&loss)? * y.numel() as f64;
        }
        if epoch % 10 == 9 {
            progress.tell(&format!("epoch {}: loss {:.4}", epoch + 1, sum / data.len() as f64));
        }
    }
    model.eval();
    let [x, y] = test.tensors();
    let right = no_grad(|| model.forward(x)?.argmax(-1, false)?.eq(y))?.to_dtype(DType::F32)?.mean_all()?;
    Ok(right.to_vec::<f32>()?[0])
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    manual_seed(0);
    let file = load_npz(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits.npz"))?;
    let images = file["images"].to_dtype(DType::F32)?.reshape([-1, 1, 8, 8])?.div(16.0)?;
    let labels = file["labels"].to_dtype(DType::I64)?;
    let order = Generator::new(1).randperm(1797)?;
    let digits = TensorDataset::new([images.index_select(0, &order)?, labels.index_select(0, &order)?])?;
    let (data, test) = digits.split_at(1437)?;
    for (name, model, epochs) in [("MLP", mlp()?, 30), ("CNN", cnn()?, 20)] {
        println!("{name}, {} parameters", model.num_parameters());
        let began = Instant::now();
        let right = train(&model, epochs, &data, &test)?;
        println!("test accuracy: {:.2} % after {:.1} s", 100.0 * right, began.elapsed().as_secs_f64());
    }
    Ok(())
}

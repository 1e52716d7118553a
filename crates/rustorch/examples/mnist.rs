//! Trains LeNet on MNIST, three times from other seeds: `cargo run --release -p rustorch --example mnist -- --data DIR`, with a folder that has
//! MNIST's four files (`train-images-idx3-ubyte.gz` and so on, compressed or not).
//!
//! LeCun et al.: *Gradient-Based Learning Applied to Document Recognition*, 1998.
#![allow(clippy::print_stdout, reason = "it is what the example is for")]

mod progress;

use progress::Progress;
use rustorch::nn::data::TensorDataset;
use rustorch::nn::{Conv2d, Conv2dOptions, Flatten, Layer, Linear, MaxPool2d, Module, Sequential};
use rustorch::optim::schedule::{CosineAnnealingLR, Scheduler};
use rustorch::optim::{SGD, SGDOptions};
use rustorch::{DType, Result, Tensor, autograd::no_grad, files::load_idx, manual_seed};
use std::path::Path;

const EPOCHS: u64 = 12;
const BATCH: usize = 64;

fn lenet() -> Result<Sequential> {
    let convolutions = Sequential::new()
        .push(Conv2d::with(1, 6, 5, Conv2dOptions::default().padding(2))?)
        .push(Tensor::relu)
        .push(MaxPool2d::new(2))
        .push(Conv2d::new(6, 16, 5)?)
        .push(Tensor::relu)
        .push(MaxPool2d::new(2));
    let classifier = convolutions.push(Flatten::default()).push(Linear::new(400, 120)?).push(Tensor::relu);
    Ok(classifier.push(Linear::new(120, 84)?).push(Tensor::relu).push(Linear::new(84, 10)?))
}

/// Images with mean 0 and variance 1, and their labels.
fn load(folder: &Path, part: &str) -> std::result::Result<TensorDataset<2>, Box<dyn std::error::Error>> {
    let file = |name: &str| {
        let compressed = folder.join(format!("{part}-{name}-ubyte.gz"));
        load_idx(if compressed.exists() { compressed } else { folder.join(format!("{part}-{name}-ubyte")) })
    };
    let images = file("images-idx3")?.to_dtype(DType::F32)?.unsqueeze(1)?;
    let images = ((images / 255.0) - 0.1307) / 0.3081;
    Ok(TensorDataset::new([images, file("labels-idx1")?.to_dtype(DType::I64)?])?)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, flag, folder] = arguments.as_slice() else { return Err("usage: mnist --data DIR".into()) };
    if flag != "--data" {
        return Err(format!("`{flag}` is unknown; usage: mnist --data DIR").into());
    }
    let (train, test) = (load(Path::new(folder), "train")?, load(Path::new(folder), "t10k")?);
    println!("{} digits to train on, {} to test on", train.len(), test.len());
    let mut sum = 0.0;
    for seed in 0..3 {
        manual_seed(seed);
        let model = lenet()?;
        let optimizer = SGD::new(&model, SGDOptions { lr: 0.03, momentum: 0.9, ..Default::default() })?;
        let steps = EPOCHS * train.len().div_ceil(BATCH) as u64;
        let scheduler = Scheduler::new(CosineAnnealingLR::new(steps, 0.0)?, &optimizer)?;
        let progress = Progress::new(steps);
        for epoch in 0..EPOCHS {
            for batch in train.shuffled(BATCH, seed, epoch)? {
                let [x, y] = batch?;
                optimizer.zero_grad();
                let loss = model.forward(&x)?.cross_entropy(&y, &Default::default())?;
                loss.backward()?;
                optimizer.step()?;
                scheduler.step(&optimizer)?;
                progress.step(&loss)?;
            }
        }
        drop(progress);
        model.eval();
        let mut right = 0.0;
        for batch in test.batches(500) {
            let [x, y] = batch?;
            let guess = no_grad(|| model.forward(&x)?.argmax(-1, false)?.eq(&y))?;
            right += guess.to_dtype(DType::F32)?.sum_all()?.to_vec::<f32>()?[0];
        }
        let accuracy = 100.0 * right / test.len() as f32;
        println!("seed {seed}: {accuracy:.1} % right after {EPOCHS} epochs");
        sum += accuracy;
    }
    println!("mean: {:.2} %", sum / 3.0);
    Ok(())
}

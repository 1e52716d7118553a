//! Trains a multilayer perceptron on handwritten digits: `cargo run --release -p rustorch --example digits`.
#![allow(clippy::print_stdout, reason = "it is what the example is for")]

use rustorch::nn::{Layer, Linear, Sequential, data::TensorDataset};
use rustorch::optim::{AdamW, AdamWOptions};
use rustorch::{DType, Generator, Tensor, autograd::no_grad, files::load_npz, manual_seed};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    manual_seed(0);
    let file = load_npz(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits.npz"))?;
    let images = file["images"].to_dtype(DType::F32)?.reshape([-1, 64])?.div(16.0)?;
    let labels = file["labels"].to_dtype(DType::I64)?;
    let order = Generator::new(1).randperm(1797)?;
    let digits = TensorDataset::new([images.index_select(0, &order)?, labels.index_select(0, &order)?])?;
    let (data, test) = digits.split_at(1437)?;

    let model = Sequential::new().push(Linear::new(64, 128)?).push(Tensor::relu).push(Linear::new(128, 10)?);
    let mut optimizer = AdamW::new(&model, AdamWOptions { lr: 3e-3, ..Default::default() })?;
    for epoch in 0..30 {
        let mut sum = 0.0;
        for batch in data.shuffled(32, 0, epoch)? {
            let [x, y] = batch?;
            optimizer.zero_grad();
            let loss = model.forward(&x)?.cross_entropy(&y, &Default::default())?;
            loss.backward()?;
            optimizer.step()?;
            sum += f64::from(loss.to_vec::<f32>()?[0]) * y.numel() as f64;
        }
        if epoch % 10 == 9 {
            println!("epoch {}: loss {:.4}", epoch + 1, sum / data.len() as f64);
        }
    }
    let [x, y] = test.tensors();
    let right = no_grad(|| model.forward(x)?.argmax(-1, false)?.eq(y))?.to_dtype(DType::F32)?.mean_all()?;
    println!("test accuracy: {:.1} %", 100.0 * right.to_vec::<f32>()?[0]);
    Ok(())
}

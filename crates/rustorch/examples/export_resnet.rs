//! Writes a ResNet-18 with random weights as a Core ML package, and tells how long it took.
//!
//! ```text
//! cargo run --release -p rustorch --example export_resnet -- resnet.mlpackage
//! ```

#![allow(clippy::print_stdout, reason = "an example tells what it does")]

use rustorch::files::save_mlpackage;
use rustorch::{
    ConvOptions, DType, Generator, MaxPoolOptions, Result, Tensor, TensorSpec, capture, coreml::PackageInfo,
};
use std::time::Instant;

/// A convolution without a bias, and a batch norm in evaluation.
struct ConvNorm {
    weight: Tensor,
    zeros: Tensor,
    ones: Tensor,
    options: ConvOptions,
}

impl ConvNorm {
    fn new(g: &Generator, before: usize, after: usize, kernel: usize, stride: usize) -> Result<ConvNorm> {
        let deviation = (2.0 / (before * kernel * kernel) as f64).sqrt();
        Ok(ConvNorm {
            weight: g.normal(0.0, deviation, [after, before, kernel, kernel], DType::F32)?,
            zeros: Tensor::zeros([after], DType::F32)?,
            ones: Tensor::ones([after], DType::F32)?,
            options: ConvOptions::new().stride(stride).padding(kernel / 2),
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (zeros, ones) = (&self.zeros, &self.ones);
        let y = x.conv2d(&self.weight, None, &self.options)?;
        y.batch_norm(Some((zeros, ones)), Some(ones), Some(zeros), false, 0.1, 1e-5)
    }
}

/// Two convolutions, and what is added to their result where its shape is another one.
struct Block {
    first: ConvNorm,
    second: ConvNorm,
    shortcut: Option<ConvNorm>,
}

impl Block {
    fn new(g: &Generator, before: usize, after: usize, stride: usize) -> Result<Block> {
        let is_other = before != after || stride != 1;
        Ok(Block {
            first: ConvNorm::new(g, before, after, 3, stride)?,
            second: ConvNorm::new(g, after, after, 3, 1)?,
            shortcut: is_other.then(|| ConvNorm::new(g, before, after, 1, stride)).transpose()?,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.second.forward(&self.first.forward(x)?.relu()?)?;
        match &self.shortcut {
            Some(shortcut) => y.add(&shortcut.forward(x)?)?.relu(),
            None => y.add(x)?.relu(),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name the package that is to be written: resnet.mlpackage")?;
    let g = Generator::new(1);
    let stem = ConvNorm::new(&g, 3, 64, 7, 2)?;
    let mut blocks = Vec::new();
    let mut before = 64;
    for (after, stride) in [(64, 1), (128, 2), (256, 2), (512, 2)] {
        blocks.push(Block::new(&g, before, after, stride)?);
        blocks.push(Block::new(&g, after, after, 1)?);
        before = after;
    }
    let (head, bias) = (g.normal(0.0, 0.02, [1000, 512], DType::F32)?, Tensor::zeros([1000], DType::F32)?);

    let started = Instant::now();
    let image = TensorSpec::new([1, 3, 224, 224], DType::F32)?;
    let program = capture(&[image], |x| {
        let pooling = MaxPoolOptions::new().stride(2).padding(1);
        let mut x = stem.forward(&x[0])?.relu()?.max_pool2d(3, &pooling)?;
        for block in &blocks {
            x = block.forward(&x)?;
        }
        Ok(vec![x.mean([-2, -1], false)?.linear(&head, Some(&bias))?])
    })?;
    let captured = started.elapsed();
    let started = Instant::now();
    save_mlpackage(&path, &program)?;
    let written = started.elapsed();

    let info = PackageInfo::read(&path)?;
    let operations: usize = info.functions.iter().flat_map(|function| function.operations.values()).sum();
    println!("{path}: {operations} operations, {} MB of weights", info.weight_bytes / 1_000_000);
    println!(
        "captured in {:.0} ms, emitted and written in {:.0} ms",
        captured.as_secs_f64() * 1e3,
        written.as_secs_f64() * 1e3
    );
    Ok(())
}

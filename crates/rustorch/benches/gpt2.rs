//! Training steps of GPT-2 (124 M parameters) on one device: 8 × 1,024 random tokens, AdamW, matrices and attention in BF16
//! (`autocast`): what `benches/peers/torch_training.py --device cuda` runs beside PyTorch.
//!
//! `cargo bench -p rustorch --bench gpt2 -- --device cuda [--batch 8] [--steps 10] [--f32] [--profile]` prints the median of
//! milliseconds per step, tokens per second, the most memory that tensors had on the device; with `--profile`, the operations of
//! one step as well. Radford et al.: *Language Models are Unsupervised Multitask Learners*, 2019.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use rustorch::amp::autocast;
use rustorch::core::{Device, DeviceType};
use rustorch::nn::{Embedding, Layer, LayerNorm, Linear, Module};
use rustorch::optim::{AdamW, AdamWOptions};
use rustorch::runtime::HybridExecutor;
use rustorch::{DType, Generator, Result, Tensor};
use std::time::Instant;

const LAYERS: usize = 12;
const HEADS: usize = 12;
const WIDTH: usize = 768;
const CONTEXT: usize = 1024;
const VOCABULARY: usize = 50_257;

#[derive(Module)]
struct Block {
    ln_1: LayerNorm,
    c_attn: Linear,
    attn_proj: Linear,
    ln_2: LayerNorm,
    c_fc: Linear,
    mlp_proj: Linear,
}

impl Block {
    fn new() -> Result<Block> {
        Ok(Block {
            ln_1: LayerNorm::new([WIDTH], 1e-5, DType::F32)?,
            c_attn: Linear::new(WIDTH, 3 * WIDTH)?,
            attn_proj: Linear::new(WIDTH, WIDTH)?,
            ln_2: LayerNorm::new([WIDTH], 1e-5, DType::F32)?,
            c_fc: Linear::new(WIDTH, 4 * WIDTH)?,
            mlp_proj: Linear::new(4 * WIDTH, WIDTH)?,
        })
    }
}

impl Layer for Block {
    /// `[batch, tokens, WIDTH]`, of the same shape.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, length) = (x.dims()[0], x.dims()[1]);
        let qkv = self.c_attn.forward(&self.ln_1.forward(x)?)?;
        let head = |i| -> Result<Tensor> {
            let part = qkv.narrow(-1, i * WIDTH, WIDTH)?;
            part.reshape([batch, length, HEADS, WIDTH / HEADS])?.transpose(1, 2)
        };
        let y = Tensor::scaled_dot_product_attention(&head(0)?, &head(1)?, &head(2)?, None, true, None)?;
        let x = x + &self.attn_proj.forward(&y.transpose(1, 2)?.reshape([batch, length, WIDTH])?)?;
        let y = self.c_fc.forward(&self.ln_2.forward(&x)?)?.gelu_tanh()?;
        Ok(&x + &self.mlp_proj.forward(&y)?)
    }
}

#[derive(Module)]
struct Gpt2 {
    wte: Embedding,
    wpe: Embedding,
    h: Vec<Block>,
    ln_f: LayerNorm,
}

impl Gpt2 {
    fn new() -> Result<Gpt2> {
        Ok(Gpt2 {
            wte: Embedding::new(VOCABULARY, WIDTH, DType::F32)?,
            wpe: Embedding::new(CONTEXT, WIDTH, DType::F32)?,
            h: (0..LAYERS).map(|_| Block::new()).collect::<Result<_>>()?,
            ln_f: LayerNorm::new([WIDTH], 1e-5, DType::F32)?,
        })
    }

    /// The loss of tokens `[batch, n]` and, of each, the next one `[batch · n]`.
    fn loss(&self, x: &Tensor, places: &Tensor, y: &Tensor) -> Result<Tensor> {
        let mut hidden = self.wte.forward(x)? + self.wpe.forward(places)?;
        for block in &self.h {
            hidden = block.forward(&hidden)?;
        }
        let logits = self.ln_f.forward(&hidden)?.linear(&self.wte.weight.tensor(), None)?;
        logits.reshape([x.numel(), VOCABULARY])?.cross_entropy(y, &Default::default())
    }
}

struct Arguments {
    device: Device,
    batch: usize,
    steps: usize,
    bf16: bool,
    profile: bool,
}

fn arguments() -> std::result::Result<Arguments, Box<dyn std::error::Error>> {
    let mut arguments = Arguments { device: Device::CPU, batch: 8, steps: 10, bf16: true, profile: false };
    let mut rest = std::env::args().skip(1);
    while let Some(flag) = rest.next() {
        let mut value = || rest.next().ok_or(format!("`{flag}` takes a value"));
        match flag.as_str() {
            "--device" => match value()?.parse()? {
                DeviceType::Only(device) => arguments.device = device,
                other => return Err(format!("{other} is not one device").into()),
            },
            "--batch" => arguments.batch = value()?.parse()?,
            "--steps" => arguments.steps = value()?.parse()?,
            "--f32" => arguments.bf16 = false,
            "--profile" => arguments.profile = true,
            // What `cargo bench` gives.
            "--bench" => {}
            _ => return Err(format!("`{flag}` is unknown").into()),
        }
    }
    Ok(arguments)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let Arguments { device, batch, steps, bf16, profile } = arguments()?;
    let model = Gpt2::new()?;
    model.to_device(device)?;
    let optimizer = AdamW::new(&model, AdamWOptions { lr: 1e-4, ..Default::default() })?;
    let tokens = Generator::new(1).randint(0, VOCABULARY as i64, [batch, CONTEXT + 1], DType::I64)?;
    let x = tokens.narrow(1, 0, CONTEXT)?.copy()?.to_device(device)?;
    let y = tokens.narrow(1, 1, CONTEXT)?.copy()?.reshape([batch * CONTEXT])?.to_device(device)?;
    let places = Tensor::arange(0, CONTEXT as i64, 1)?.to_device(device)?;
    let executor = HybridExecutor::current();
    let step = || -> Result<Tensor> {
        optimizer.zero_grad();
        let loss = match bf16 {
            true => autocast(DType::BF16, || model.loss(&x, &places, &y))??,
            false => model.loss(&x, &places, &y)?,
        };
        loss.backward()?;
        optimizer.step()?;
        executor.synchronize(device)?;
        Ok(loss)
    };
    let first = step()?.item()?;
    step()?;
    let mut times: Vec<f64> = Vec::new();
    let mut last = first;
    for _ in 0..steps {
        let began = Instant::now();
        let loss = step()?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        last = loss.item()?;
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let peak = executor.memory().stats(device).map_or(0, |stats| stats.peak);
    println!(
        "{device}: {median:.2} ms per step, {:.0} tokens/s, {:.0} MiB, loss {first:?} to {last:?}",
        (batch * CONTEXT) as f64 / median * 1e3,
        peak as f64 / 2f64.powi(20)
    );
    if profile {
        let (result, profile) = executor.profile(step);
        result?;
        println!("{profile}");
    }
    Ok(())
}

//! Trains a GPT on the characters of a text, as nanoGPT's recipe for CPUs does, and writes in its manner:
//! `cargo run --release -p rustorch --example char_gpt -- --data tinyshakespeare.txt`.
//!
//! With `--bf16`, matrices and attention are computed in BF16 (`autocast`); `--steps N` ends it after so many; `--seed N` begins with
//! other numbers.
//!
//! 4 layers of 4 heads and width 128 over 64 characters, batches of 12, 2,000 steps of AdamW with warm-up and a cosine.
//! Karpathy: *nanoGPT*, 2022; its validation loss on Tiny Shakespeare is 1.88.
#![allow(clippy::print_stdout, reason = "it is what the example is for")]

mod progress;

use progress::Progress;
use rustorch::amp::autocast;
use rustorch::nn::{Embedding, Layer, LayerNorm, Linear, LinearOptions, Module, Parameter, init};
use rustorch::optim::schedule::{CosineAnnealingLR, LinearLR, Scheduler, SequentialLR};
use rustorch::optim::{AdamW, AdamWOptions, clip_grad_norm_};
use rustorch::{DType, Generator, Result, Tensor, autograd::no_grad, manual_seed};
use std::time::Instant;

const LAYERS: usize = 4;
const HEADS: usize = 4;
const WIDTH: usize = 128;
const CONTEXT: usize = 64;
const BATCH: usize = 12;
const STEPS: u64 = 2000;

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
        let options = LinearOptions::default().bias(false);
        let linear = |from, to, std: f64| -> Result<Linear> {
            let linear = Linear::with(from, to, options)?;
            no_grad(|| linear.weight.tensor().copy_(&init::normal([to, from], 0.0, std, DType::F32)?))?;
            Ok(linear)
        };
        // Those that add to the stream are smaller, by the number of additions.
        let small = 0.02 / (2.0 * LAYERS as f64).sqrt();
        Ok(Block {
            ln_1: LayerNorm::new([WIDTH], 1e-5, DType::F32)?,
            c_attn: linear(WIDTH, 3 * WIDTH, 0.02)?,
            attn_proj: linear(WIDTH, WIDTH, small)?,
            ln_2: LayerNorm::new([WIDTH], 1e-5, DType::F32)?,
            c_fc: linear(WIDTH, 4 * WIDTH, 0.02)?,
            mlp_proj: linear(4 * WIDTH, WIDTH, small)?,
        })
    }
}

impl Layer for Block {
    /// `[batch, characters, WIDTH]`, of the same shape.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, length) = (x.dims()[0], x.dims()[1]);
        let qkv = self.c_attn.forward(&self.ln_1.forward(x)?)?;
        let head = |i| -> Result<Tensor> {
            let part = qkv.narrow(-1, i * WIDTH, WIDTH)?;
            part.reshape([batch, length, HEADS, WIDTH / HEADS])?.transpose(1, 2)
        };
        let y = Tensor::scaled_dot_product_attention(&head(0)?, &head(1)?, &head(2)?, None, true, None)?;
        let x = x + &self.attn_proj.forward(&y.transpose(1, 2)?.reshape([batch, length, WIDTH])?)?;
        let y = self.c_fc.forward(&self.ln_2.forward(&x)?)?.gelu()?;
        Ok(&x + &self.mlp_proj.forward(&y)?)
    }
}

#[derive(Module)]
struct Gpt {
    wte: Embedding,
    wpe: Embedding,
    h: Vec<Block>,
    ln_f: LayerNorm,
}

impl Gpt {
    fn new(characters: usize) -> Result<Gpt> {
        let embedding = |rows| -> Result<Embedding> {
            let embedding = Embedding::new(rows, WIDTH, DType::F32)?;
            no_grad(|| embedding.weight.tensor().mul_(0.02))?;
            Ok(embedding)
        };
        let h = (0..LAYERS).map(|_| Block::new()).collect::<Result<_>>()?;
        Ok(Gpt {
            wte: embedding(characters)?,
            wpe: embedding(CONTEXT)?,
            h,
            ln_f: LayerNorm::new([WIDTH], 1e-5, DType::F32)?,
        })
    }
}

impl Layer for Gpt {
    /// Characters `[batch, n]` to logits `[batch, n, characters]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let places = Tensor::arange(0, x.dims()[1] as i64, 1)?;
        let mut y = self.wte.forward(x)? + self.wpe.forward(&places)?;
        for block in &self.h {
            y = block.forward(&y)?;
        }
        // The embedding is the last matrix, too.
        self.ln_f.forward(&y)?.linear(&self.wte.weight.tensor(), None)
    }
}

/// Random stretches of the text, and each one character on.
fn batch(text: &Tensor, rows: usize, random: &Generator) -> Result<(Tensor, Tensor)> {
    let starts = random.randint(0, (text.numel() - CONTEXT - 1) as i64, [rows, 1], DType::I64)?;
    let places = (starts + Tensor::arange(0, CONTEXT as i64, 1)?).reshape([-1])?;
    let at = |places: &Tensor| text.index_select(0, places)?.reshape([rows, CONTEXT]);
    Ok((at(&places)?, at(&places.add(1)?)?))
}

fn loss(model: &Gpt, (x, y): &(Tensor, Tensor)) -> Result<Tensor> {
    let logits = model.forward(x)?;
    let classes = logits.dims()[2];
    logits.reshape([x.numel(), classes])?.cross_entropy(&y.reshape([-1])?, &Default::default())
}

/// The loss on all of a text.
fn evaluate(model: &Gpt, text: &Tensor) -> Result<f64> {
    let rows = (text.numel() - 1) / CONTEXT;
    let (mut sum, mut seen) = (0.0, 0);
    for start in (0..rows).step_by(64) {
        let n = 64.min(rows - start);
        let at = |shift| text.narrow(0, start * CONTEXT + shift, n * CONTEXT)?.reshape([n, CONTEXT]);
        sum += f64::from(no_grad(|| loss(model, &(at(0)?, at(1)?)))?.to_vec::<f32>()?[0]) * n as f64;
        seen += n;
    }
    Ok(sum / seen as f64)
}

struct Arguments {
    path: String,
    bf16: bool,
    steps: u64,
    seed: u64,
}

fn arguments() -> std::result::Result<Arguments, Box<dyn std::error::Error>> {
    const USAGE: &str = "usage: char_gpt --data FILE [--bf16] [--steps N] [--seed N]";
    let (mut path, mut bf16, mut steps, mut seed) = (None, false, STEPS, 1337);
    let mut rest = std::env::args().skip(1);
    while let Some(flag) = rest.next() {
        match flag.as_str() {
            "--data" => path = rest.next(),
            "--bf16" => bf16 = true,
            "--steps" => steps = rest.next().ok_or(USAGE)?.parse()?,
            "--seed" => seed = rest.next().ok_or(USAGE)?.parse()?,
            _ => return Err(format!("`{flag}` is unknown; {USAGE}").into()),
        }
    }
    Ok(Arguments { path: path.ok_or(USAGE)?, bf16, steps, seed })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let Arguments { path, bf16, steps, seed } = arguments()?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let mut characters: Vec<char> = text.chars().collect();
    characters.sort_unstable();
    characters.dedup();
    let ids: Vec<i64> =
        text.chars().filter_map(|c| characters.binary_search(&c).ok()).map(|i| i as i64).collect();
    let train = ids.len() * 9 / 10;
    if ids.len() - train <= CONTEXT {
        return Err(format!(
            "{path}: the text has {} characters, it takes {} at least",
            ids.len(),
            10 * (CONTEXT + 1)
        )
        .into());
    }
    let (train, validation) = (
        Tensor::from_slice(&ids[..train], [train])?,
        Tensor::from_slice(&ids[train..], [ids.len() - train])?,
    );

    manual_seed(seed);
    let random = Generator::new(seed);
    let model = Gpt::new(characters.len())?;
    println!("{} parameters, {} characters of {} kinds", model.num_parameters(), ids.len(), characters.len());
    let decay = |parameter: &Parameter| if parameter.tensor().ndim() > 1 { 0.1 } else { 0.0 };
    let (decayed, others): (Vec<_>, Vec<_>) =
        model.named_parameters().into_iter().partition(|(_, parameter)| decay(parameter) > 0.0);
    let options =
        |weight_decay| AdamWOptions { lr: 1e-3, betas: (0.9, 0.99), weight_decay, ..Default::default() };
    let optimizer = AdamW::with_groups(vec![(decayed, options(0.1)), (others, options(0.0))])?;
    let schedule = SequentialLR::new(LinearLR::new(0.01, 1.0, 100)?)
        .then(100, CosineAnnealingLR::new(STEPS - 100, 1e-4)?)?;
    let scheduler = Scheduler::new(schedule, &optimizer)?;

    // Without the time of validation.
    let mut seconds = 0.0;
    let progress = Progress::new(steps);
    for step in 1..=steps {
        let began = Instant::now();
        optimizer.zero_grad();
        let batch = batch(&train, BATCH, &random)?;
        let loss = match bf16 {
            true => autocast(DType::BF16, || loss(&model, &batch))??,
            false => loss(&model, &batch)?,
        };
        loss.backward()?;
        clip_grad_norm_(&model, 1.0, 2.0)?;
        optimizer.step()?;
        scheduler.step(&optimizer)?;
        let loss = progress.step(&loss)?;
        seconds += began.elapsed().as_secs_f64();
        if step % 250 == 0 || step == steps {
            let held_out = evaluate(&model, &validation)?;
            progress.tell(&format!("step {step}: loss {loss:.3}, validation {held_out:.3}, {seconds:.0} s"));
        }
    }
    drop(progress);

    let mut written: Vec<i64> = vec![0; 1];
    while written.len() < 400 {
        let last = &written[written.len().saturating_sub(CONTEXT)..];
        let x = Tensor::from_slice(last, [1, last.len()])?;
        let logits = no_grad(|| model.forward(&x))?;
        let last = logits.select(1, -1)?.softmax(-1)?.reshape([-1])?;
        // The first character whose share of the sum exceeds a random number.
        let share = last.cumsum(0)?.to_vec::<f32>()?;
        let draw = random.rand([1], DType::F32)?.to_vec::<f32>()?[0];
        written.push(share.iter().position(|&share| share > draw).unwrap_or(share.len() - 1) as i64);
    }
    println!("{}", written.iter().map(|&i| characters[i as usize]).collect::<String>());
    Ok(())
}

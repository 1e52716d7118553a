//! Steps of trainings, and the passes that they are made of: what `benches/peers/torch_training.py` runs beside PyTorch.
//!
//! With `--peak CASE` the program takes ten steps of one case and prints by how many bytes these raised the most memory that it ever had.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "a benchmark prints and ends where it fails")]

use criterion::Criterion;
use rustorch_nn::functional::grid_sample;
use rustorch_nn::optim::{Adam, AdamOptions, AdamW, AdamWOptions, Optimizer, Rule, SGD, SGDOptions};
use rustorch_nn::{
    Conv2d, Conv2dOptions, Embedding, Flatten, LSTM, Layer, LayerNorm, Linear, LinearOptions, MaxPool2d,
    Module, Parameter, Sequential,
};
use rustorch_tensor::{DType, Generator, Result, Tensor, TensorSpec, capture};
use std::hint::black_box;

/// A step of a training, or a pass, that can be run again and again.
type Case = Box<dyn FnMut() -> Result<()>>;

/// A case's name, and how it is made.
type Named = (&'static str, fn() -> Result<Case>);

/// The cases, each made when it is run.
const CASES: &[Named] = &[
    ("embedding/50257x768", || {
        let (table, x) = (Embedding::new(50_257, 768, DType::F32)?, classes(50_257, &[2048])?);
        let grad = normal(&[2048, 768])?;
        Ok(Box::new(move || {
            table.forward(&x)?.backward_with(Some(&grad), &Default::default())?;
            table.zero_grad();
            Ok(())
        }))
    }),
    ("lstm/64x32x256", || {
        let (lstm, x) = (LSTM::new(256, 256)?, normal(&[64, 32, 256])?);
        x.requires_grad_(true)?;
        let grad = normal(&[64, 32, 256])?;
        Ok(Box::new(move || {
            lstm.forward(&x, None)?.0.backward_with(Some(&grad), &Default::default())?;
            lstm.zero_grad();
            x.zero_grad();
            Ok(())
        }))
    }),
    ("adam_step/10M", || ten_million(|parameters| Adam::new(parameters, Default::default()))),
    ("sgd_step/10M", || ten_million(|parameters| SGD::new(parameters, Default::default()))),
    ("mlp/adam", || mlp(|model| Adam::new(model, Default::default()))),
    ("mlp/sgd", || mlp(|model| SGD::new(model, Default::default()))),
    // The same steps with forward and backward passes captured: what a graph saves.
    ("mlp_4x64/adam", || small_mlp(classifier_step)),
    ("mlp_4x64/adam/captured", || small_mlp(captured_step)),
    ("gpt/adamw/captured", || gpt(captured_step)),
    ("lenet/sgd", || {
        let convolutions = Sequential::new()
            .push(Conv2d::with(1, 6, 5, Conv2dOptions::default().padding(2))?)
            .push(Tensor::relu)
            .push(MaxPool2d::new(2))
            .push(Conv2d::new(6, 16, 5)?)
            .push(Tensor::relu)
            .push(MaxPool2d::new(2));
        let classifier =
            convolutions.push(Flatten::default()).push(Linear::new(400, 120)?).push(Tensor::relu);
        let model = classifier.push(Linear::new(120, 84)?).push(Tensor::relu).push(Linear::new(84, 10)?);
        let options = SGDOptions { lr: 0.03, momentum: 0.9, ..Default::default() };
        classifier_step(SGD::new(&model, options)?, model, normal(&[64, 1, 28, 28])?, classes(10, &[64])?)
    }),
    ("gpt/adamw", || gpt(classifier_step)),
    ("scatter_add_rows/2048x768", || {
        let (x, source) = (normal(&[2048, 768])?, normal(&[2048, 768])?);
        let index = classes(2048, &[2048, 1])?.expand([2048, 768])?;
        repeat(move || x.scatter_add(0, &index, &source))
    }),
    ("grid_sample/8x32x64x64", || {
        let (x, grid) = sampled()?;
        repeat(move || grid_sample(&x, &grid, Default::default()))
    }),
    ("grid_sample/8x32x64x64/backward", || {
        let (x, grid) = sampled()?;
        x.requires_grad_(true)?;
        grid.requires_grad_(true)?;
        let grad = normal(&[8, 32, 64, 64])?;
        Ok(Box::new(move || {
            let y = grid_sample(&x, &grid, Default::default())?;
            y.backward_with(Some(&grad), &Default::default())?;
            x.zero_grad();
            grid.zero_grad();
            Ok(())
        }))
    }),
    ("transpose_copy/4096x4096", || {
        let x = normal(&[4096, 4096])?;
        repeat(move || x.transpose(0, 1)?.copy())
    }),
    ("permute_heads/16x128x8x64", || {
        let x = normal(&[16, 128, 8, 64])?;
        repeat(move || x.transpose(1, 2)?.copy())
    }),
    ("weight_gradient/2048x256x1024", || {
        let (x, grad) = (normal(&[2048, 256])?, normal(&[2048, 1024])?);
        repeat(move || grad.transpose(0, 1)?.matmul(&x))
    }),
    ("matmul/2048", || {
        let (a, b) = (normal(&[2048, 2048])?, normal(&[2048, 2048])?);
        repeat(move || a.matmul(&b))
    }),
];

fn normal(shape: &[usize]) -> Result<Tensor> {
    Generator::new(0).randn(shape, DType::F32)
}

/// Integers from 0 to less than a number, other ones for each shape.
fn classes(count: i64, shape: &[usize]) -> Result<Tensor> {
    Generator::new(shape.len() as u64).randint(0, count, shape, DType::I64)
}

/// An image and a grid of points, of which some are outside.
fn sampled() -> Result<(Tensor, Tensor)> {
    Ok((normal(&[8, 32, 64, 64])?, normal(&[8, 64, 64, 2])?.mul(0.5)?))
}

fn repeat(f: impl Fn() -> Result<Tensor> + 'static) -> Result<Case> {
    Ok(Box::new(move || f().map(|y| drop(black_box(y)))))
}

/// Steps over ten parameters of a million numbers, whose gradients stay.
fn ten_million<R: Rule + 'static>(
    optimizer: impl Fn(Vec<(String, Parameter)>) -> Result<Optimizer<R>>,
) -> Result<Case> {
    let parameters: Vec<Parameter> =
        (0..10).map(|_| Parameter::new(normal(&[1000, 1000])?)).collect::<Result<_>>()?;
    for parameter in &parameters {
        parameter.tensor().set_grad(Some(&normal(&[1000, 1000])?))?;
    }
    let named = parameters.iter().enumerate().map(|(i, parameter)| (i.to_string(), parameter.clone()));
    let optimizer = optimizer(named.collect())?;
    Ok(Box::new(move || {
        black_box(&parameters);
        optimizer.step()
    }))
}

/// Steps of a network for MNIST's digits.
fn mlp<R: Rule + 'static>(optimizer: impl Fn(&Sequential) -> Result<Optimizer<R>>) -> Result<Case> {
    let model = Sequential::new().push(Linear::new(784, 512)?).push(Tensor::relu);
    let model = model.push(Linear::new(512, 256)?).push(Tensor::relu).push(Linear::new(256, 10)?);
    classifier_step(optimizer(&model)?, model, normal(&[128, 784])?, classes(10, &[128])?)
}

fn classifier_step<R: Rule + 'static>(
    optimizer: Optimizer<R>,
    model: impl Layer + 'static,
    x: Tensor,
    y: Tensor,
) -> Result<Case> {
    Ok(Box::new(move || {
        optimizer.zero_grad();
        model.forward(&x)?.cross_entropy(&y, &Default::default())?.backward()?;
        optimizer.step()
    }))
}

/// As [`classifier_step`], as a captured program.
fn captured_step<R: Rule + 'static>(
    optimizer: Optimizer<R>,
    model: impl Layer + 'static,
    x: Tensor,
    y: Tensor,
) -> Result<Case> {
    let program = capture(&[TensorSpec::from(&x), TensorSpec::from(&y)], |args| {
        optimizer.zero_grad();
        let loss = model.forward(&args[0])?.cross_entropy(&args[1], &Default::default())?;
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss.detach()])
    })?;
    Ok(Box::new(move || {
        black_box((&model, &optimizer));
        program.run(&[&x, &y]).map(drop)
    }))
}

/// How a step is made of an optimizer, a model, a batch and its classes.
type MakeStep<R, M> = fn(Optimizer<R>, M, Tensor, Tensor) -> Result<Case>;

/// Steps of a network so small that what is around the kernels counts.
fn small_mlp(step: MakeStep<AdamOptions, Sequential>) -> Result<Case> {
    let mut model = Sequential::new();
    for _ in 0..4 {
        model = model.push(Linear::new(64, 64)?).push(Tensor::relu);
    }
    step(Adam::new(&model, Default::default())?, model, normal(&[1, 64])?, classes(64, &[1])?)
}

fn gpt(step: MakeStep<AdamWOptions, Gpt>) -> Result<Case> {
    let model = Gpt::new()?;
    let (x, y) = (classes(VOCABULARY as i64, &[16, 128])?, classes(VOCABULARY as i64, &[2048])?);
    step(AdamW::new(&model, Default::default())?, model, x, y)
}

const LAYERS: usize = 4;
const HEADS: usize = 4;
const WIDTH: usize = 256;
const CONTEXT: usize = 128;
const VOCABULARY: usize = 256;

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
        let linear = |from, to| Linear::with(from, to, LinearOptions::default().bias(false));
        Ok(Block {
            ln_1: LayerNorm::new([WIDTH], 1e-5, DType::F32)?,
            c_attn: linear(WIDTH, 3 * WIDTH)?,
            attn_proj: linear(WIDTH, WIDTH)?,
            ln_2: LayerNorm::new([WIDTH], 1e-5, DType::F32)?,
            c_fc: linear(WIDTH, 4 * WIDTH)?,
            mlp_proj: linear(4 * WIDTH, WIDTH)?,
        })
    }
}

impl Layer for Block {
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

/// A GPT whose embedding is the last matrix, too.
#[derive(Module)]
struct Gpt {
    wte: Embedding,
    wpe: Embedding,
    h: Vec<Block>,
    ln_f: LayerNorm,
}

impl Gpt {
    fn new() -> Result<Gpt> {
        Ok(Gpt {
            wte: Embedding::new(VOCABULARY, WIDTH, DType::F32)?,
            wpe: Embedding::new(CONTEXT, WIDTH, DType::F32)?,
            h: (0..LAYERS).map(|_| Block::new()).collect::<Result<_>>()?,
            ln_f: LayerNorm::new([WIDTH], 1e-5, DType::F32)?,
        })
    }
}

impl Layer for Gpt {
    /// Characters `[batch, n]` to logits `[batch · n, VOCABULARY]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let places = Tensor::arange(0, x.dims()[1] as i64, 1)?;
        let mut y = self.wte.forward(x)? + self.wpe.forward(&places)?;
        for block in &self.h {
            y = block.forward(&y)?;
        }
        self.ln_f.forward(&y)?.linear(&self.wte.weight.tensor(), None)?.reshape([x.numel(), VOCABULARY])
    }
}

/// The most memory that the process ever had, in bytes, as Linux tells it.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--peak") {
        let name = arguments.get(at + 1).expect("`--peak` is followed by a case");
        let (_, make) = CASES.iter().find(|(case, _)| case == name).expect("there is such a case");
        let mut step = make().expect("the case can be made");
        let before = peak().expect("Linux tells the peak");
        (0..10).for_each(|_| step().expect("the step runs"));
        println!("{}", peak().expect("Linux tells the peak") - before);
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    for (name, make) in CASES {
        let mut made = None;
        criterion.bench_function(name, |b| {
            let step = made.get_or_insert_with(|| make().expect("the case can be made"));
            b.iter(|| step().expect("the step runs"));
        });
    }
    criterion.final_summary();
}

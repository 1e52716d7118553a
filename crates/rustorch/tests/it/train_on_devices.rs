//! Small models train on devices: every operation of a step runs there, and the losses are the CPU's.

use crate::common::{apart, executor};
use rustorch::core::Device;
use rustorch::nn::{
    Conv2d, Embedding, Flatten, LSTM, Layer, LayerNorm, Linear, MaxPool2d, Module, Sequential,
    TransformerEncoderLayer, TransformerLayerOptions,
};
use rustorch::optim::{AdamW, AdamWOptions, clip_grad_norm_};
use rustorch::{DType, Generator, Result, Tensor, TensorSpec, capture};
use rustorch_testkit::conformance::Extent;
use std::collections::BTreeSet;

/// A model, and data for it: its argument and the classes.
type Case = (Box<dyn Layer>, Tensor, Tensor);

fn mlp() -> Result<Case> {
    let model = Sequential::new().push(Linear::new(12, 32)?).push(Tensor::tanh).push(Linear::new(32, 3)?);
    Ok((Box::new(model), Generator::new(1).randn([16, 12], DType::F32)?, classes(16)?))
}

fn cnn() -> Result<Case> {
    let convolution =
        Sequential::new().push(Conv2d::new(1, 4, 3)?).push(Tensor::relu).push(MaxPool2d::new(2));
    let model = convolution.push(Flatten::default()).push(Linear::new(36, 3)?);
    Ok((Box::new(model), Generator::new(2).randn([8, 1, 8, 8], DType::F32)?, classes(8)?))
}

#[derive(Module)]
struct Gpt {
    embedding: Embedding,
    block: TransformerEncoderLayer,
    norm: LayerNorm,
    head: Linear,
}

impl Layer for Gpt {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.block.forward(&self.embedding.forward(x)?)?;
        self.head.forward(&self.norm.forward(&y)?)?.reshape([x.numel(), 3])
    }
}

fn gpt() -> Result<Case> {
    let options = TransformerLayerOptions::default().dim_feedforward(32).dropout(0.0).batch_first(true);
    let model = Gpt {
        embedding: Embedding::new(11, 16, DType::F32)?,
        block: TransformerEncoderLayer::with(16, 2, options)?,
        norm: LayerNorm::new([16], 1e-5, DType::F32)?,
        head: Linear::new(16, 3)?,
    };
    Ok((Box::new(model), Generator::new(3).randint(0, 11, [4, 6], DType::I64)?, classes(24)?))
}

#[derive(Module)]
struct Recurrent {
    lstm: LSTM,
    head: Linear,
}

impl Layer for Recurrent {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (_, (last, _)) = self.lstm.forward(x, None)?;
        self.head.forward(&last.select(0, 0)?)
    }
}

fn lstm() -> Result<Case> {
    let model = Recurrent { lstm: LSTM::new(5, 8)?, head: Linear::new(8, 3)? };
    Ok((Box::new(model), Generator::new(4).randn([7, 4, 5], DType::F32)?, classes(4)?))
}

fn classes(n: i64) -> Result<Tensor> {
    let all: Vec<i64> = (0..n).map(|i| i % 3).collect();
    Tensor::from_slice(&all, [all.len()])
}

/// A model and its data on a device.
fn on(device: Device, (model, x, y): Case) -> Result<Case> {
    // The trait object has no generic methods.
    for (_, parameter) in model.named_parameters() {
        parameter.replace(&parameter.tensor().detach().to_device(device)?, |grad| grad.to_device(device))?;
    }
    Ok((model, x.to_device(device)?, y.to_device(device)?))
}

/// The losses of ten steps, that are run eagerly or as a captured program.
fn losses((model, x, y): &Case, is_captured: bool) -> Result<Vec<Tensor>> {
    let optimizer = AdamW::new(&**model, AdamWOptions { lr: 0.01, ..Default::default() })?;
    let step = |x: &Tensor, y: &Tensor| -> Result<Tensor> {
        model.named_parameters().iter().for_each(|(_, parameter)| parameter.tensor().zero_grad());
        let loss = model.forward(x)?.cross_entropy(y, &Default::default())?;
        loss.backward()?;
        clip_grad_norm_(&**model, 1.0, 2.0)?;
        optimizer.step()?;
        Ok(loss.detach())
    };
    let specs = [TensorSpec::from(x), TensorSpec::from(y)];
    let program =
        is_captured.then(|| capture(&specs, |args| Ok(vec![step(&args[0], &args[1])?]))).transpose()?;
    let mut losses = Vec::new();
    for _ in 0..10 {
        losses.push(match &program {
            Some(program) => program.run(&[x, y])?.remove(0),
            None => step(x, y)?,
        });
    }
    Ok(losses)
}

fn numbers(losses: &[Tensor]) -> Vec<f32> {
    losses.iter().map(|loss| loss.to_vec::<f32>().unwrap()[0]).collect()
}

/// How a model is made.
type Make = fn() -> Result<Case>;

const MODELS: [(&str, Make); 4] = [("cnn", cnn), ("mlp", mlp), ("gpt", gpt), ("lstm", lstm)];

/// The first `count` models, or with `RUSTORCH_CONFORMANCE=all` all, learn on a device what they learn on the CPU.
fn train_on(name: &str, count: usize) {
    let Some((device, executor)) = executor(name) else { return };
    let count = if Extent::from_env(Extent::Sample) == Extent::Sample { count } else { MODELS.len() };
    for (model, make) in MODELS.into_iter().take(count) {
        let case = make().unwrap();
        let twins = [false, true].map(|is_captured| {
            let twin = make().unwrap();
            twin.0.load_state_dict(&case.0.state_dict()).unwrap();
            (is_captured, twin)
        });
        let expected = numbers(&losses(&case, false).unwrap());
        assert!(expected[9] < expected[0], "{model}: {expected:?}");
        for (is_captured, twin) in twins {
            let (found, elsewhere) = executor.scope(|| {
                let case = on(device, twin).unwrap();
                let (found, explanation) = executor.explain(|| losses(&case, is_captured));
                let records = explanation.records().iter();
                let elsewhere = records.filter(|record| record.device == Some(Device::CPU));
                // The factor of clipping, which eager execution computes in Rust.
                let scalars =
                    ["fill", "isfinite", "assert", "add", "div", "minimum", "cast", "fused_pointwise"];
                let elsewhere =
                    elsewhere.filter(|record| !(is_captured && scalars.contains(&&*record.op.to_string())));
                let ops = elsewhere.map(|record| record.op.to_string()).collect::<BTreeSet<_>>();
                (numbers(&found.unwrap()), ops)
            });
            let what = format!("{model} on {device}, captured: {is_captured}");
            for (a, b) in found.iter().zip(&expected) {
                assert!((a - b).abs() <= 1e-4 * b.abs(), "{what}: {found:?} for {expected:?}");
            }
            assert!(elsewhere.is_empty(), "{what}: on the CPU ran {elsewhere:?}");
        }
    }
}

#[test]
fn models_train_on_vulkan() {
    train_on("vulkan", MODELS.len());
}

#[test]
fn models_train_on_opencl() {
    // Its compiler takes a second for a kernel.
    apart("train_on_devices::models_train_on_opencl", || train_on("opencl", 1));
}

#[test]
#[cfg(target_os = "linux")]
fn models_train_on_an_emulated_gpu() {
    let name = "train_on_devices::models_train_on_an_emulated_gpu";
    crate::common::fakes::emulated(name, &[], || train_on("cuda", MODELS.len()));
}

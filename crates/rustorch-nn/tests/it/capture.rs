//! Captured training: forward and backward passes as one graph, the optimizer's step after each run.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::is_alone;
use rustorch_nn::optim::{AdamW, AdamWOptions, clip_grad_norm_};
use rustorch_nn::{
    BatchNorm2d, Conv2d, CrossEntropyLoss, Dropout, Embedding, Flatten, GELU, Layer, LayerNorm, Linear,
    Module, ReLU, Sequential, TransformerEncoderLayer, TransformerLayerOptions, seq,
};
use rustorch_tensor::{DType, Program, Result, Tensor, TensorSpec, capture, compile, manual_seed};

fn bits(x: &Tensor) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// The loss of a batch, and the gradients of the parameters.
fn pass(model: &Sequential, x: &Tensor, classes: &Tensor) -> Result<Tensor> {
    model.zero_grad();
    let loss = CrossEntropyLoss::default().forward(&model.forward(x)?, classes)?;
    loss.backward()?;
    Ok(loss.detach())
}

/// 20 steps, eagerly and by a captured pass: equal losses, parameters and buffers, to the bit.
fn trains_alike(make: impl Fn() -> Sequential, batch: impl Fn(usize) -> (Tensor, Tensor)) -> Program {
    let options = AdamWOptions { lr: 1e-2, ..Default::default() };
    let train = |captured: bool| {
        manual_seed(1);
        let model = make();
        let mut optimizer = AdamW::new(&model, options).unwrap();
        let program = captured.then(|| {
            let (x, y) = batch(0);
            let specs = [TensorSpec::from(&x), TensorSpec::from(&y)];
            capture(&specs, |args| Ok(vec![pass(&model, &args[0], &args[1])?])).unwrap()
        });
        manual_seed(2);
        let mut losses = Vec::new();
        for i in 0..20 {
            let (x, y) = batch(i);
            let loss = match &program {
                Some(program) => program.run(&[&x, &y]).unwrap().remove(0),
                None => pass(&model, &x, &y).unwrap(),
            };
            losses.push(bits(&loss));
            clip_grad_norm_(&model, 1.0, 2.0).unwrap();
            optimizer.step().unwrap();
        }
        let state: Vec<(String, Vec<u8>)> =
            model.state_dict().iter().map(|(name, x)| (name.to_owned(), x.to_bytes().unwrap())).collect();
        (losses, state, program)
    };
    let ((eager, eager_state, _), (losses, state, program)) = (train(false), train(true));
    assert_eq!(losses, eager);
    assert_eq!(state, eager_state);
    program.unwrap()
}

fn numbers(dims: &[usize], seed: usize) -> Tensor {
    let n: usize = dims.iter().product();
    Tensor::from_vec((0..n).map(|i| ((i * 7 + seed * 13) % 29) as f32 / 29.0 - 0.5).collect::<Vec<_>>(), dims)
        .unwrap()
}

fn classes(n: usize, of: usize, seed: usize) -> Tensor {
    Tensor::from_vec((0..n).map(|i| ((i * 5 + seed) % of) as i64).collect::<Vec<_>>(), [n]).unwrap()
}

#[test]
fn a_multilayer_perceptron_with_dropout_trains_alike() {
    if !is_alone("capture::a_multilayer_perceptron_with_dropout_trains_alike") {
        return;
    }
    let make =
        || seq![Linear::new(16, 32).unwrap(), ReLU, Dropout::new(0.3).unwrap(), Linear::new(32, 5).unwrap()];
    trains_alike(make, |i| (numbers(&[8, 16], i), classes(8, 5, i)));
}

#[test]
fn a_convolutional_network_with_running_statistics_trains_alike() {
    if !is_alone("capture::a_convolutional_network_with_running_statistics_trains_alike") {
        return;
    }
    let make = || {
        seq![
            Conv2d::new(1, 4, 3).unwrap(),
            BatchNorm2d::new(4).unwrap(),
            ReLU,
            Flatten::default(),
            Linear::new(4 * 6 * 6, 3).unwrap(),
        ]
    };
    let program = trains_alike(make, |i| (numbers(&[4, 1, 8, 8], i), classes(4, 3, i)));
    // Mean, variance and count of the batches.
    assert_eq!(program.graph().states.len(), 3);
}

#[test]
fn a_transformer_with_dropout_trains_alike() {
    if !is_alone("capture::a_transformer_with_dropout_trains_alike") {
        return;
    }
    let make = || {
        let options = TransformerLayerOptions::default().batch_first(true).dim_feedforward(32);
        seq![
            Embedding::new(11, 16, DType::F32).unwrap(),
            TransformerEncoderLayer::with(16, 2, options).unwrap(),
            LayerNorm::new([16], 1e-5, DType::F32).unwrap(),
            GELU::default(),
            Flatten::default(),
            Linear::new(16 * 6, 4).unwrap(),
        ]
    };
    let ids = |i: usize| {
        Tensor::from_vec((0..18).map(|j| ((j * 3 + i) % 11) as i64).collect::<Vec<_>>(), [3, 6]).unwrap()
    };
    trains_alike(make, |i| (ids(i), classes(3, 4, i)));
}

#[test]
fn what_counts_in_rust_is_refused_in_a_captured_function() {
    let model = seq![Linear::new(2, 2).unwrap()];
    let mut optimizer = AdamW::new(&model, AdamWOptions::default()).unwrap();
    let spec = TensorSpec::new([1, 2], DType::F32).unwrap();
    let error = capture(&[spec], |x| {
        model.forward(&x[0])?.sum_all()?.backward()?;
        optimizer.step()?;
        Ok(vec![])
    });
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("optimizer.step") && error.contains("after each run"), "{error}");
    assert!(model.parameters().iter().all(|p| p.grad().is_none()));
}

#[test]
fn a_program_knows_how_modules_were_when_it_was_captured() {
    let model = seq![Linear::new(3, 3).unwrap(), Dropout::new(0.5).unwrap()];
    let x = numbers(&[2, 3], 1);
    let program = capture(&[TensorSpec::from(&x)], |x| Ok(vec![model.forward(&x[0])?])).unwrap();
    assert!(program.run(&[&x]).is_ok());
    model.eval();
    let error = program.run(&[&x]).unwrap_err().to_string();
    assert!(error.contains("training mode") && error.contains("capture it again"), "{error}");
    let compiled = compile(|x: &[Tensor]| Ok(vec![model.forward(&x[0])?]));
    let plain = bits(&compiled.run(&[&x]).unwrap()[0]);
    assert_eq!(plain, bits(&model.forward(&x).unwrap()));
    model.train();
    assert_ne!(bits(&compiled.run(&[&x]).unwrap()[0]), plain);
    model.eval();
    assert_eq!(bits(&compiled.run(&[&x]).unwrap()[0]), plain);
    // Both are kept.
    assert_eq!((compiled.counts().captures, compiled.counts().hits), (2, 1));
}

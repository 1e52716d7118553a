//! Networks.

use super::{Case, indices, values};
use rustorch_nn::{
    AdaptiveAvgPool2d, AvgPool2d, BatchNorm2d, Conv2d, Embedding, GroupNorm, Layer, LayerNorm, Linear,
    MaxPool2d, Module, ReLU, TransformerEncoderLayer, seq,
};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{Result, Tensor, TensorOptions, manual_seed};

use std::sync::Mutex;

/// A function of a network in evaluation, captured without gradients.
fn network(name: &str, inputs: &[Tensor], f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Case {
    Case::new(name, inputs, |x| no_grad(|| Ok(vec![f(&x[0])?])))
}

pub(super) fn cases() -> Vec<Case> {
    // The generator is the process's, and tests run side by side.
    static GENERATOR: Mutex<()> = Mutex::new(());
    let _guard = GENERATOR.lock().unwrap();
    manual_seed(7);
    vec![perceptron(), convnet(), transformer()]
}

fn perceptron() -> Case {
    let model = seq![
        Linear::new(6, 32).unwrap(),
        ReLU,
        Linear::new(32, 16).unwrap(),
        ReLU,
        Linear::new(16, 4).unwrap()
    ];
    network("mlp", &[values(&[5, 6], 1)], |x| model.forward(x)?.softmax(-1))
}

fn convnet() -> Case {
    let model = seq![
        Conv2d::new(3, 8, 3).unwrap(),
        BatchNorm2d::new(8).unwrap(),
        ReLU,
        MaxPool2d::new(2),
        Conv2d::new(8, 12, 3).unwrap(),
        GroupNorm::new(3, 12).unwrap(),
        ReLU,
        AvgPool2d::new(2),
        AdaptiveAvgPool2d::new(1)
    ];
    // Statistics of another batch than the one that is compared.
    model.forward(&values(&[4, 3, 18, 18], 9)).unwrap();
    model.eval();
    let head = Linear::new(12, 5).unwrap();
    network("convnet", &[values(&[2, 3, 18, 18], 1)], |x| head.forward(&model.forward(x)?.flatten(1, -1)?))
}

fn transformer() -> Case {
    let embedding = Embedding::new(11, 16, TensorOptions::default()).unwrap();
    let layer = TransformerEncoderLayer::new(16, 4).unwrap();
    let norm = LayerNorm::new([16], 1e-5, TensorOptions::default()).unwrap();
    layer.eval();
    network("transformer", &[indices(&[2, 7], 11, 1)], |x| {
        norm.forward(&layer.forward(&embedding.forward(x)?)?)
    })
}

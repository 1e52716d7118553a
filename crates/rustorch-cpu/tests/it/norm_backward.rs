//! Gradients of layer and RMS norm.

use crate::testing::{Tensor, close, noise, run};
use rustorch_core::{LayerNormBackward, Op, RmsNormBackward};

/// The definition, in `f64`: gradients of the input, the weight and the bias.
fn want(grad: &[f32], x: &[f32], weight: &[f32], eps: f64, centred: bool) -> [Vec<f64>; 3] {
    let len = weight.len();
    let n = len as f64;
    let mut out = [Vec::new(), vec![0.0; len], vec![0.0; len]];
    for (grad, x) in grad.chunks(len).zip(x.chunks(len)) {
        let [grad, x, weight] =
            [grad, x, weight].map(|x| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
        let mean = if centred { x.iter().sum::<f64>() / n } else { 0.0 };
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let factor = 1.0 / (variance + eps).sqrt();
        let hat: Vec<f64> = x.iter().map(|x| (x - mean) * factor).collect();
        let weighted: Vec<f64> = grad.iter().zip(&weight).map(|(g, w)| g * w).collect();
        let level = if centred { weighted.iter().sum::<f64>() / n } else { 0.0 };
        let along = weighted.iter().zip(&hat).map(|(a, b)| a * b).sum::<f64>() / n;
        out[0].extend(weighted.iter().zip(&hat).map(|(g, h)| (g - level - h * along) * factor));
        for j in 0..len {
            out[1][j] += grad[j] * hat[j];
            out[2][j] += grad[j];
        }
    }
    out
}

#[test]
fn gradients_by_the_definition() {
    for (rows, len) in [(1, 1), (3, 5), (67, 33), (5000, 7), (2, 5000)] {
        let [grad, x] = [1, 2].map(|seed| noise(seed, rows * len));
        let weight = noise(3, len);
        let args = [
            &Tensor::new(&[rows, len], &grad),
            &Tensor::new(&[rows, len], &x),
            &Tensor::new(&[len], &weight),
        ];
        let eps = 1e-3;
        let layer = want(&grad, &x, &weight, eps, true);
        let rms = want(&grad, &x, &weight, eps, false);
        for wanted in 1..8 {
            let [x, weight, bias] = [1, 2, 4].map(|bit| wanted & bit != 0);
            let chosen = |all: &[Vec<f64>; 3]| -> Vec<Vec<f64>> {
                all.iter().zip([x, weight, bias]).filter(|(_, w)| *w).map(|(v, _)| v.clone()).collect()
            };
            let op = Op::LayerNormBackward(LayerNormBackward { dims: 1, eps, x, weight, bias });
            for (got, want) in run(&op, &args).unwrap().iter().zip(chosen(&layer)) {
                close(&got.values::<f32>(), &want, 2e-4);
            }
            if bias {
                continue;
            }
            let op = Op::RmsNormBackward(RmsNormBackward { eps, x, weight });
            for (got, want) in run(&op, &args).unwrap().iter().zip(chosen(&rms)) {
                close(&got.values::<f32>(), &want, 2e-4);
            }
        }
    }
}

#[test]
fn no_rows_give_zeros() {
    let empty = Tensor::new(&[0, 3], &[0f32; 0]);
    let op = LayerNormBackward { dims: 1, eps: 1e-5, x: true, weight: true, bias: true };
    let outs = run(&Op::LayerNormBackward(op), &[&empty, &empty]).unwrap();
    assert_eq!(outs[1].values::<f32>(), [0.0; 3]);
    assert_eq!(outs[2].values::<f32>(), [0.0; 3]);
}

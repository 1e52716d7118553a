//! Gradients of batch and group norm.

use crate::testing::{Tensor, close, noise, run};
use rustorch_core::{BatchNorm, BatchNormBackward, GroupNormBackward, Op};

const EPS: f64 = 1e-3;

/// The definition, in `f64`: the gradients of the input, the weight and the bias where `set` says what is normalised together.
fn want(
    [grad, x]: [&[f32]; 2],
    weight: &[f32],
    len: usize,
    sets: usize,
    set: impl Fn(usize) -> usize,
) -> [Vec<f64>; 3] {
    let channel = |i: usize| i / len % weight.len();
    let mean_of = |f: &dyn Fn(usize) -> f64| -> Vec<f64> {
        let (mut sums, mut counts) = (vec![0.0; sets], vec![0.0; sets]);
        (0..x.len()).for_each(|i| {
            sums[set(i)] += f(i);
            counts[set(i)] += 1.0;
        });
        sums.iter().zip(counts).map(|(sum, count)| sum / count).collect()
    };
    let mean = mean_of(&|i| f64::from(x[i]));
    let variance = mean_of(&|i| (f64::from(x[i]) - mean[set(i)]).powi(2));
    let inverse = |i: usize| 1.0 / (variance[set(i)] + EPS).sqrt();
    let hat = |i: usize| (f64::from(x[i]) - mean[set(i)]) * inverse(i);
    let weighted = |i: usize| f64::from(grad[i]) * f64::from(weight[channel(i)]);
    let level = mean_of(&weighted);
    let along = mean_of(&|i| weighted(i) * hat(i));
    let dx = (0..x.len()).map(|i| (weighted(i) - level[set(i)] - hat(i) * along[set(i)]) * inverse(i));
    let mut sums = [vec![0.0; weight.len()], vec![0.0; weight.len()]];
    for i in 0..x.len() {
        sums[0][channel(i)] += f64::from(grad[i]) * hat(i);
        sums[1][channel(i)] += f64::from(grad[i]);
    }
    let [dweight, dbias] = sums;
    [dx.collect(), dweight, dbias]
}

#[test]
fn gradients_by_the_definition() {
    for [batches, channels, len] in [[3, 8, 2100], [7, 6, 5], [301, 150, 1], [2, 4, 1]] {
        let n = batches * channels * len;
        let grad = noise(1, n);
        let x: Vec<f32> = noise(2, n).iter().map(|x| x + 5.0).collect();
        let weight = noise(3, channels);
        let dims = [batches, channels, len];
        let [grad_of, x_of] = [&grad, &x].map(|x| Tensor::new(&dims, x));
        let weight_of = Tensor::new(&[channels], &weight);
        let normalised = run(&Op::BatchNorm(BatchNorm { training: true, eps: EPS }), &[&x_of]).unwrap();
        let batch = want([&grad, &x], &weight, len, channels, |i| i / len % channels);
        let each = channels / 2 * len;
        let group = want([&grad, &x], &weight, len, 2 * batches, |i| i / each);
        for wanted in 1..8 {
            let [x, weight, bias] = [1, 2, 4].map(|bit| wanted & bit != 0);
            let check = |outs: &[Tensor], all: &[Vec<f64>; 3]| {
                let chosen = all.iter().zip([x, weight, bias]).filter(|(_, wanted)| *wanted);
                assert_eq!(outs.len(), chosen.clone().count());
                for (got, (want, _)) in outs.iter().zip(chosen) {
                    close(&got.values::<f32>(), want, 3e-4);
                }
            };
            let op = BatchNormBackward { training: true, eps: EPS, x, weight, bias };
            let args = [&grad_of, &x_of, &normalised[1], &normalised[2], &weight_of];
            check(&run(&Op::BatchNormBackward(op), &args).unwrap(), &batch);
            let op = GroupNormBackward { groups: 2, eps: EPS, x, weight, bias };
            check(&run(&Op::GroupNormBackward(op), &[&grad_of, &x_of, &weight_of]).unwrap(), &group);
        }
    }
}

#[test]
fn given_statistics_are_constants() {
    let grad = Tensor::new(&[1, 2, 2], &[1f32, 2.0, 3.0, 4.0]);
    let x = Tensor::new(&[1, 2, 2], &[3f32, f32::INFINITY, 1.0, 1.0]);
    let (mean, variance) = (Tensor::new(&[2], &[1f32, 0.0]), Tensor::new(&[2], &[4f32, 1.0]));
    let op = BatchNormBackward { training: false, eps: 0.0, x: true, weight: false, bias: true };
    let outs = run(&Op::BatchNormBackward(op), &[&grad, &x, &mean, &variance]).unwrap();
    assert_eq!(outs[0].values::<f32>(), [0.5, 1.0, 3.0, 4.0]);
    assert_eq!(outs[1].values::<f32>(), [3.0, 7.0]);
}

#[test]
fn no_elements_give_zeros() {
    let (empty, ones) = (Tensor::new(&[0, 4, 3], &[0f32; 0]), Tensor::new(&[4], &[1f32; 4]));
    let op = BatchNormBackward { training: true, eps: EPS, x: true, weight: true, bias: true };
    let batch = run(&Op::BatchNormBackward(op), &[&empty, &empty, &ones, &ones]).unwrap();
    let op = GroupNormBackward { groups: 2, eps: EPS, x: true, weight: true, bias: true };
    let group = run(&Op::GroupNormBackward(op), &[&empty, &empty]).unwrap();
    for outs in [batch, group] {
        assert_eq!(outs[1].values::<f32>(), [0.0; 4]);
        assert_eq!(outs[2].values::<f32>(), [0.0; 4]);
    }
}

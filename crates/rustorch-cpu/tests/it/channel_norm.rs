//! Batch and group norm.

use crate::testing::{Tensor, close, noise, run};
use rustorch_core::{BatchNorm, GroupNorm, Op};

/// Samples, channels, elements of a channel: enough for several threads and several blocks.
const SIZES: [usize; 3] = [3, 8, 2100];

fn input() -> (Vec<f32>, Tensor) {
    let values: Vec<f32> = noise(1, SIZES.iter().product()).iter().map(|x| x + 100.0).collect();
    // Channels last.
    let [n, c, len] = SIZES;
    let mut turned = vec![0.0; values.len()];
    for (i, &x) in values.iter().enumerate() {
        let (sample, channel, at) = (i / (c * len), i / len % c, i % len);
        turned[(sample * len + at) * c + channel] = x;
    }
    (values, Tensor::new(&[n, len, c], &turned).with(|l| l.transpose(1, 2).unwrap()))
}

/// Normalises what `set` says belongs together; also gives the means and variances.
fn normalise(values: &[f32], sets: usize, set: impl Fn(usize) -> usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (mut count, mut mean, mut variance) = (vec![0.0; sets], vec![0.0; sets], vec![0.0; sets]);
    for (i, &x) in values.iter().enumerate() {
        count[set(i)] += 1.0;
        mean[set(i)] += f64::from(x);
    }
    mean.iter_mut().zip(&count).for_each(|(m, n)| *m /= n);
    for (i, &x) in values.iter().enumerate() {
        variance[set(i)] += (f64::from(x) - mean[set(i)]).powi(2);
    }
    variance.iter_mut().zip(&count).for_each(|(v, n)| *v /= n);
    let y = values.iter().enumerate().map(|(i, &x)| {
        let s = set(i);
        (f64::from(x) - mean[s]) / (variance[s] + 1e-5).sqrt()
    });
    (y.collect(), mean, variance)
}

#[test]
fn batches_and_groups_are_normalised_like_in_plain_loops() {
    let [_, channels, len] = SIZES;
    let (values, x) = input();
    let (y, mean, variance) = normalise(&values, channels, |i| i / len % channels);
    let outs = run(&Op::BatchNorm(BatchNorm { training: true, eps: 1e-5 }), &[&x]).unwrap();
    close(&outs[0].values::<f32>(), &y, 1e-5);
    close(&outs[1].values::<f32>(), &mean, 1e-7);
    close(&outs[2].values::<f32>(), &variance, 1e-6);
    let eval = Op::BatchNorm(BatchNorm { training: false, eps: 1e-5 });
    let given = run(&eval, &[&x, &outs[1], &outs[2]]).unwrap();
    close(&given[0].values::<f32>(), &y, 1e-4);
    for groups in [1, 4, 8] {
        let each = channels / groups * len;
        let (y, ..) = normalise(&values, 3 * groups, |i| i / each);
        let outs = run(&Op::GroupNorm(GroupNorm { groups, eps: 1e-5 }), &[&x]).unwrap();
        close(&outs[0].values::<f32>(), &y, 1e-5);
    }
}

#[test]
fn rows_are_normalised_down_their_columns() {
    let [n, channels] = [301, 150];
    let values: Vec<f32> = noise(2, n * channels).iter().map(|x| x - 50.0).collect();
    let (y, mean, variance) = normalise(&values, channels, |i| i % channels);
    let norm = Op::BatchNorm(BatchNorm { training: true, eps: 1e-5 });
    let rows = Tensor::new(&[n, channels], &values);
    // The same numbers, of which a sample's lie far apart.
    let mut turned = vec![0.0; values.len()];
    for (i, &x) in values.iter().enumerate() {
        turned[i % channels * n + i / channels] = x;
    }
    let columns = Tensor::new(&[channels, n], &turned).with(|l| l.transpose(0, 1).unwrap());
    for x in [rows, columns] {
        let outs = run(&norm, &[&x]).unwrap();
        close(&outs[0].values::<f32>(), &y, 1e-5);
        close(&outs[1].values::<f32>(), &mean, 1e-7);
        close(&outs[2].values::<f32>(), &variance, 1e-6);
    }
}

#[test]
fn equal_elements_have_no_variance_and_infinite_ones_none_that_is_a_number() {
    let norm = Op::GroupNorm(GroupNorm { groups: 1, eps: 1e-12 });
    let x = Tensor::new(&[1, 1, 70], &[0.1f32; 70]);
    assert!(run(&norm, &[&x]).unwrap()[0].values::<f32>().iter().all(|x| x.abs() < 0.1));
    let mut values = [0.1f32; 70];
    values[3] = f32::INFINITY;
    let y = run(&norm, &[&Tensor::new(&[1, 1, 70], &values)]).unwrap();
    assert!(y[0].values::<f32>().iter().all(|x| x.is_nan()));
}

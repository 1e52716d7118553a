//! Random numbers of distributions whose parameters are tensors. Each element has a stream of its own. Functions are those of `libm`, so that the
//! bits are the same on every system.

use super::strided::{dense, fill_with, unreachable_memory};
use crate::ThreadPool;
use libm::{cos, exp, lgamma, log, log1p, sqrt};
use rustorch_core::{
    Element, Fault, FromScalar, Philox, Sample, SampleKind, Scalar, View, ViewMut, dispatch_dtype,
};
use std::f64::consts::TAU;

/// Elements that make a thread worth its while.
const GRAIN: usize = 1 << 8;

/// Above this the terms of a probability's logarithm lose its digits, and counts are rounded normal numbers.
const LARGE: f64 = 1e12;

pub(super) fn run(
    pool: &ThreadPool,
    sample: &Sample,
    args: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let key = sample.key;
    dispatch_dtype!(out.dtype(), float, T => {
        match (sample.distribution, args) {
            (SampleKind::LogGamma, [concentration]) => each::<T, 1>(pool, [concentration], out, |i, [a]| {
                log_gamma(&mut key.subsequence(i), a)
            }),
            (SampleKind::Poisson, [rate]) => each::<T, 1>(pool, [rate], out, |i, [rate]| {
                poisson(&mut key.subsequence(i), rate)
            }),
            (SampleKind::Binomial, [count, p]) => each::<T, 2>(pool, [count, p], out, |i, [count, p]| {
                binomial(&mut key.subsequence(i), count, p)
            }),
            _ => Err(unreachable_memory()),
        }
    }, _ => Err(unreachable_memory()))
}

/// A function of the position and of an element of each argument, in `f64`.
pub(super) fn each<T: Element + FromScalar + Into<Scalar>, const N: usize>(
    pool: &ThreadPool,
    args: [&View<'_>; N],
    out: &mut ViewMut<'_>,
    f: impl Fn(u64, [f64; N]) -> f64 + Sync,
) -> Result<(), Fault> {
    let mut slices = [const { std::borrow::Cow::Borrowed(&[] as &[T]) }; N];
    for (slice, arg) in slices.iter_mut().zip(args) {
        *slice = dense::<T>(arg)?;
        if slice.len() != out.layout().numel() {
            return Err(unreachable_memory());
        }
    }
    fill_with(pool, out, GRAIN, &|at, out: &mut [T]| {
        for (i, out) in out.iter_mut().enumerate() {
            let values = std::array::from_fn(|arg| slices[arg][at + i].into().to_f64());
            *out = T::from_scalar(Scalar::Float(f((at + i) as u64, values)));
        }
    })
}

/// A number in (0, 1].
fn positive_unit(random: &mut Philox) -> f64 {
    1.0 - random.next_f64()
}

/// A normal number, by Box and Muller's transform.
fn normal(random: &mut Philox) -> f64 {
    let radius = sqrt(-2.0 * log(positive_unit(random)));
    radius * cos(TAU * random.next_f64())
}

fn log_gamma(random: &mut Philox, concentration: f64) -> f64 {
    if concentration.is_nan() || concentration <= 0.0 {
        return f64::NAN;
    }
    if concentration == f64::INFINITY {
        return f64::INFINITY;
    }
    // A draw of concentration a is one of a + 1, times U to the power of 1/a.
    let (a, boost) = match concentration < 1.0 {
        true => (concentration + 1.0, log(positive_unit(random)) / concentration),
        false => (concentration, 0.0),
    };
    let d = a - 1.0 / 3.0;
    let c = 1.0 / (3.0 * sqrt(d));
    loop {
        let x = normal(random);
        let root = 1.0 + c * x;
        if root <= 0.0 {
            continue;
        }
        let v = root * root * root;
        let u = positive_unit(random);
        let square = x * x;
        if u < 1.0 - 0.0331 * square * square || log(u) < 0.5 * square + d * (1.0 - v + log(v)) {
            return log(d) + log(v) + boost;
        }
    }
}

fn poisson(random: &mut Philox, rate: f64) -> f64 {
    if rate.is_nan() || rate < 0.0 {
        return f64::NAN;
    }
    if rate == f64::INFINITY {
        return f64::INFINITY;
    }
    if rate > LARGE {
        return (rate + sqrt(rate) * normal(random)).round();
    }
    if rate < 10.0 {
        // Arrivals within the unit of time, the intervals between which are exponential.
        let least = exp(-rate);
        let (mut count, mut product) = (0.0, positive_unit(random));
        while product > least {
            count += 1.0;
            product *= positive_unit(random);
        }
        return count;
    }
    // Algorithm PTRS.
    let log_rate = log(rate);
    let b = 0.931 + 2.53 * sqrt(rate);
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let squeeze = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let (u, v) = (random.next_f64() - 0.5, positive_unit(random));
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + rate + 0.43).floor();
        if us >= 0.07 && v <= squeeze {
            return k;
        }
        if k < 0.0 || us < 0.013 && v > us {
            continue;
        }
        let accepted = log(v) + log(inverse_alpha) - log(a / (us * us) + b);
        if accepted <= k * log_rate - rate - lgamma(k + 1.0) {
            return k;
        }
    }
}

fn binomial(random: &mut Philox, count: f64, p: f64) -> f64 {
    if count < 0.0 || count != count.trunc() || !count.is_finite() || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p > 0.5 {
        count - binomial_to_half(random, count, 1.0 - p)
    } else {
        binomial_to_half(random, count, p)
    }
}

/// For probabilities up to ½.
fn binomial_to_half(random: &mut Philox, n: f64, p: f64) -> f64 {
    if p == 0.0 || n == 0.0 {
        return 0.0;
    }
    let mean = n * p;
    if mean < 10.0 {
        // Trials up to each success are geometric.
        let log_failure = log1p(-p);
        let (mut successes, mut trials) = (0.0, 0.0);
        loop {
            trials += (log(positive_unit(random)) / log_failure).ceil().max(1.0);
            if trials > n {
                return successes;
            }
            successes += 1.0;
        }
    }
    let deviation = sqrt(mean * (1.0 - p));
    if n > LARGE {
        // The mean is that of a Poisson distribution as long as p is below 10⁻⁶.
        return match deviation > 1e3 {
            true => (mean + deviation * normal(random)).round().clamp(0.0, n),
            false => poisson(random, mean).min(n),
        };
    }
    // Algorithm BTRS.
    let b = 1.15 + 2.53 * deviation;
    let a = -0.0873 + 0.0248 * b + 0.01 * p;
    let squeeze = 0.92 - 4.2 / b;
    let alpha = (2.83 + 5.1 / b) * deviation;
    let log_odds = log(p / (1.0 - p));
    let mode = ((n + 1.0) * p).floor();
    let of_mode = lgamma(mode + 1.0) + lgamma(n - mode + 1.0);
    loop {
        let (u, v) = (random.next_f64() - 0.5, positive_unit(random));
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + mean + 0.5).floor();
        if !(0.0..=n).contains(&k) {
            continue;
        }
        if us >= 0.07 && v <= squeeze {
            return k;
        }
        // The logarithm of the ratio of the probabilities of k and of the mode.
        let ratio = (k - mode) * log_odds + of_mode - lgamma(k + 1.0) - lgamma(n - k + 1.0);
        if log(v * alpha / (a / (us * us) + b)) <= ratio {
            return k;
        }
    }
}

//! The implicit derivative of logarithms of gamma draws: `d log x / d a` at a fixed value of the distribution function P(a, x).

use super::sample::each;
use super::strided::unreachable_memory;
use crate::ThreadPool;
use crate::math::Real;
use rustorch_core::{Fault, View, ViewMut, dispatch_dtype};

pub(super) fn run(pool: &ThreadPool, args: [&View<'_>; 2], out: &mut ViewMut<'_>) -> Result<(), Fault> {
    dispatch_dtype!(out.dtype(), float, T => {
        each::<T, 2>(pool, args, out, |_, [a, log_x]| derivative(a, log_x))
    }, _ => Err(unreachable_memory()))
}

/// From this concentration on the quantiles' expansion is precise to 10⁻¹¹, and series are long.
const LARGE: f64 = 1e4;

fn derivative(a: f64, log_x: f64) -> f64 {
    if log_x.is_nan() || a.is_nan() || a <= 0.0 {
        return f64::NAN;
    }
    let x = libm::exp(log_x);
    if a >= LARGE {
        by_quantiles(a, x) / x
    } else if x <= a + 1.0 {
        by_series(a, x, log_x)
    } else {
        by_fraction(a, x, log_x)
    }
}

/// By P = xᵃ e⁻ˣ / Γ(a + 1) · Σ xⁿ / ((a + 1) ⋯ (a + n)).
fn by_series(a: f64, x: f64, log_x: f64) -> f64 {
    let (mut sum, mut derived) = (1.0, 0.0);
    // A term, and minus its logarithmic derivative with respect to a.
    let (mut term, mut slope, mut divisor) = (1.0, 0.0, a);
    loop {
        divisor += 1.0;
        term *= x / divisor;
        slope += 1.0 / divisor;
        sum += term;
        derived -= term * slope;
        // The terms shrink from the first on where x ≤ a + 1; together those to come are below this one times the quotient.
        if term * slope.max(1.0) * divisor <= 1e-17 * sum * (divisor - x).max(1.0) || divisor > a + 1e5 {
            return (sum * ((a + 1.0).digamma() - log_x) - derived) / a;
        }
    }
}

/// By 1 − P = xᵃ e⁻ˣ / Γ(a) · 1/(x + 1 − a − (1 − a)/(x + 3 − a − 2(2 − a)/(x + 5 − a − ..))), by Lentz's method.
fn by_fraction(a: f64, x: f64, log_x: f64) -> f64 {
    // Each with its derivative with respect to a.
    let mut b = x + 1.0 - a;
    let (mut d, mut d_slope) = (1.0 / b, 1.0 / (b * b));
    let (mut c, mut c_slope) = (f64::INFINITY, 0.0);
    let (mut value, mut log_slope) = (d, d_slope / d);
    for i in 1..100_000 {
        let i = f64::from(i);
        let numerator = -i * (i - a);
        b += 2.0;
        // numerator′ = i and b′ = −1
        let next = numerator * d + b;
        let next_slope = i * d + numerator * d_slope - 1.0;
        c_slope = i / c - numerator * c_slope / (c * c) - 1.0;
        c = b + numerator / c;
        (d, d_slope) = (1.0 / next, -next_slope / (next * next));
        let change = c_slope / c + d_slope / d;
        value *= c * d;
        log_slope += change;
        if (c * d - 1.0).abs() < 1e-16 && change.abs() <= 1e-16 * log_slope.abs() {
            break;
        }
    }
    value * (log_x - a.digamma() + log_slope)
}

/// By Cornish and Fisher's expansion of a quantile in that of the normal distribution, z: `dx / da`.
fn by_quantiles(a: f64, x: f64) -> f64 {
    let root = a.sqrt();
    let terms = |z: f64| {
        let square = z * z;
        [
            z,
            (square - 1.0) / 3.0,
            z * (square - 7.0) / 36.0,
            -((3.0 * square + 7.0) * square - 16.0) / 810.0,
            z * ((9.0 * square + 256.0) * square - 433.0) / 38880.0,
        ]
    };
    let mut z = (x - a) / root;
    for _ in 0..8 {
        let [one, two, three, four, five] = terms(z);
        let at = a + root * one + two + (three + (four + five / root) / root) / root;
        z -= (at - x) / (root + z / 1.5);
    }
    let [one, _, three, four, five] = terms(z);
    1.0 + (0.5 * one + (-0.5 * three - (four + 1.5 * five / root) / root) / a) / root
}

//! The logarithm of the gamma function and its first two derivatives, in `f64`, to a few units in the last place also beside their
//! roots: where terms cancel, they are computed in pairs of `f64`.

use super::pair::Pair;
use std::f64::consts::PI;

/// log|Γ(x)|.
pub(super) fn lgamma(x: f64) -> f64 {
    if x > -2.0 || x.is_nan() {
        // As near to the roots 1 and 2 as elsewhere.
        return if x == f64::NEG_INFINITY { f64::INFINITY } else { libm::lgamma(x) };
    }
    if x == x.trunc() {
        return f64::INFINITY;
    }
    // log π − log|sin πx| − log Γ(1 − x), whose terms are equal at a root between each pair of integers.
    let y = Pair::sum(1.0, -x);
    let (sine, _) = sine_cosine(x);
    let terms = Pair::PI.divided(sine.magnitude()).ln();
    terms.plus(lgamma_of_large(y).negated()).value()
}

/// log Γ of an argument from 1 on.
fn lgamma_of_large(y: Pair) -> Pair {
    let mut product = Pair::ONE;
    let mut z = y;
    while z.high < SHIFTED {
        product = product.times(z);
        z = z.plus(Pair::ONE);
    }
    // Stirling's series.
    let inverse = Pair::ONE.divided(z);
    let square = inverse.times(inverse);
    let mut series = Pair::of(0.0);
    for (k, &(above, below)) in BERNOULLI.iter().enumerate().rev() {
        // B₂ₖ / (2k·(2k − 1))
        let k = 2.0 * (k + 1) as f64;
        let term = Pair::of(above).divided(Pair::of(below * k * (k - 1.0)));
        series = series.times(square).plus(term);
    }
    let half_log_tau = Pair { high: 0.918_938_533_204_672_8, low: -3.878_294_158_067_242e-17 };
    let power = z.plus(Pair::of(-0.5)).times(z.ln()).plus(z.negated());
    power.plus(half_log_tau).plus(series.times(inverse)).plus(product.ln().negated())
}

/// The logarithmic derivative of Γ.
pub(super) fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return (-f64::INFINITY).copysign(-x);
    }
    if x.is_nan() || x == f64::INFINITY {
        return x;
    }
    if x < 0.0 && x == x.trunc() {
        return f64::NAN;
    }
    if x.abs() < 1e-20 {
        return -1.0 / x;
    }
    if x >= SHIFTED {
        let square = 1.0 / (x * x);
        let series = BERNOULLI[..8].iter().enumerate().rev().fold(0.0, |series, (k, (above, below))| {
            series * square + above / (below * 2.0 * (k + 1) as f64)
        });
        return x.ln() - (0.5 / x + series * square);
    }
    if x > 0.0 {
        return digamma_of_positive(Pair::of(x)).value();
    }
    // ψ(1 − x) − π / tan πx
    let (sine, cosine) = sine_cosine(x);
    let cotangent = Pair::PI.times(cosine.divided(sine));
    digamma_of_positive(Pair::sum(1.0, -x)).plus(cotangent.negated()).value()
}

fn digamma_of_positive(x: Pair) -> Pair {
    let mut sum = Pair::of(0.0);
    let mut z = x;
    while z.high < SHIFTED {
        sum = sum.plus(Pair::ONE.divided(z));
        z = z.plus(Pair::ONE);
    }
    let inverse = Pair::ONE.divided(z);
    let square = inverse.times(inverse);
    let mut series = Pair::of(0.0);
    for (k, &(above, below)) in BERNOULLI.iter().enumerate().rev() {
        // B₂ₖ / 2k
        let term = Pair::of(above).divided(Pair::of(below * 2.0 * (k + 1) as f64));
        series = series.times(square).plus(term);
    }
    let halves = inverse.times(Pair::of(0.5));
    z.ln().plus(halves.negated()).plus(series.times(square).negated()).plus(sum.negated())
}

/// The derivative of [`digamma`].
pub(super) fn trigamma(x: f64) -> f64 {
    if x == f64::NEG_INFINITY {
        return f64::NAN;
    }
    if x <= 0.0 && x == x.trunc() {
        return f64::INFINITY;
    }
    if x < 0.0 {
        // π² / sin² πx − ψ′(1 − x)
        let (sine, _) = sine_cosine(x);
        let quotient = PI / sine.value();
        return quotient * quotient - trigamma(1.0 - x);
    }
    let mut terms = [0.0; 10];
    let mut z = x;
    let mut count = 0;
    while z < 10.0 {
        terms[count] = 1.0 / (z * z);
        count += 1;
        z += 1.0;
    }
    let square = 1.0 / (z * z);
    let series =
        BERNOULLI[..11].iter().rev().fold(0.0, |series, (above, below)| series * square + above / below);
    // Small ones first.
    let rest = 1.0 / z + (0.5 * square + series * square / z);
    terms[..count].iter().rev().fold(rest, |sum, term| sum + term)
}

/// From which argument on the asymptotic series are used: their first terms left out are below 2⁻¹¹⁰ there.
const SHIFTED: f64 = 24.0;

/// Bernoulli's numbers B₂, B₄, .., as quotients.
const BERNOULLI: [(f64, f64); 15] = [
    (1.0, 6.0),
    (-1.0, 30.0),
    (1.0, 42.0),
    (-1.0, 30.0),
    (5.0, 66.0),
    (-691.0, 2730.0),
    (7.0, 6.0),
    (-3617.0, 510.0),
    (43867.0, 798.0),
    (-174611.0, 330.0),
    (854513.0, 138.0),
    (-236364091.0, 2730.0),
    (8553103.0, 6.0),
    (-23749461029.0, 870.0),
    (8615841276005.0, 14322.0),
];

/// The sine and the cosine of πx.
fn sine_cosine(x: f64) -> (Pair, Pair) {
    let nearest = x.round();
    // Exact, and at most a half.
    let angle = Pair::PI.times(Pair::of(x - nearest));
    let square = angle.times(angle).negated();
    let series = |mut n: f64| {
        let mut sum = Pair::ONE;
        while n > 1.0 {
            sum = square.times(sum).divided(Pair::of(n * (n - 1.0))).plus(Pair::ONE);
            n -= 2.0;
        }
        sum
    };
    let (sine, cosine) = (angle.times(series(37.0)), series(36.0));
    // By the period of two.
    if nearest % 2.0 == 0.0 { (sine, cosine) } else { (sine.negated(), cosine.negated()) }
}

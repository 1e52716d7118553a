//! The logarithm of the gamma function and its first two derivatives, in `f64`, to a few units in the last place also beside their
//! roots: where terms cancel, they are computed in pairs of `f64`.

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

/// The unevaluated sum of two numbers, of which the second is at most half a unit of the first one's last place: about 106 bits.
///
/// Dekker: *A floating-point technique for extending the available precision*, 1971.
#[derive(Clone, Copy)]
struct Pair {
    high: f64,
    low: f64,
}

impl Pair {
    const ONE: Pair = Pair { high: 1.0, low: 0.0 };
    const PI: Pair = Pair { high: PI, low: 1.224_646_799_147_353_2e-16 };
    const LN_2: Pair = Pair { high: std::f64::consts::LN_2, low: 2.319_046_813_846_299_6e-17 };

    fn of(x: f64) -> Pair {
        Pair { high: x, low: 0.0 }
    }

    fn value(self) -> f64 {
        self.high + self.low
    }

    /// Exact.
    fn sum(a: f64, b: f64) -> Pair {
        let high = a + b;
        let part = high - a;
        Pair { high, low: (a - (high - part)) + (b - part) }
    }

    fn plus(self, other: Pair) -> Pair {
        let (high, low) = (Pair::sum(self.high, other.high), Pair::sum(self.low, other.low));
        let first = Pair::sum(high.high, high.low + low.high);
        Pair::sum(first.high, first.low + low.low)
    }

    fn negated(self) -> Pair {
        Pair { high: -self.high, low: -self.low }
    }

    fn magnitude(self) -> Pair {
        if self.high < 0.0 { self.negated() } else { self }
    }

    fn times(self, other: Pair) -> Pair {
        let high = self.high * other.high;
        let low = self.high.mul_add(other.high, -high);
        Pair::sum(high, low + (self.high * other.low + self.low * other.high))
    }

    fn divided(self, by: Pair) -> Pair {
        let first = self.high / by.high;
        let rest = self.plus(by.times(Pair::of(-first)));
        let second = rest.high / by.high;
        let rest = rest.plus(by.times(Pair::of(-second)));
        let sum = Pair::sum(first, second);
        Pair::sum(sum.high, sum.low + rest.high / by.high)
    }

    /// The natural logarithm of a positive number: `2·artanh((m − 1)/(m + 1))` of its mantissa.
    fn ln(self) -> Pair {
        let (_, exponent) = libm::frexp(self.high);
        let scaled = |exponent: i32| {
            let factor = 2f64.powi(-exponent);
            Pair { high: self.high * factor, low: self.low * factor }
        };
        let mut exponent = exponent;
        if scaled(exponent).high < std::f64::consts::FRAC_1_SQRT_2 {
            exponent -= 1;
        }
        let m = scaled(exponent);
        let ratio = m.plus(Pair::of(-1.0)).divided(m.plus(Pair::ONE));
        let square = ratio.times(ratio);
        let mut series = Pair::of(0.0);
        for n in (1..=43).rev().step_by(2) {
            series = series.times(square).plus(Pair::ONE.divided(Pair::of(f64::from(n))));
        }
        let of_mantissa = ratio.times(series).times(Pair::of(2.0));
        of_mantissa.plus(Pair::LN_2.times(Pair::of(f64::from(exponent))))
    }
}

//! Functions of `f32`, free of branches.
//!
//! The common ones are computed in `f32`; their polynomials are fitted by `tools/fit_math.py`. The rest is computed in
//! `f64` by series that are far more precise than the result, and rounded once. All are within 2 units in the last
//! place, results below the normal range aside.

use super::double;
use crate::simd::Level;
use std::f32::consts;

/// 1.5·2²³: adding it rounds to an integer, which then stands in the low bits.
const ROUNDER: f32 = 12_582_912.0;

/// `c₀·xⁿ + … + cₙ`
#[inline(always)]
fn polynomial<L: Level, const N: usize>(l: L, x: f32, c: [f32; N]) -> f32 {
    let mut p = c[0];
    for c in &c[1..] {
        p = l.fma(p, x, *c);
    }
    p
}

/// eˣ = 2ⁿ·eʳ with |r| ≤ ½ log 2.
#[inline(always)]
pub(super) fn exp<L: Level>(l: L, x: f32) -> f32 {
    let (r, n) = reduce(l, x);
    let p = polynomial(l, r, EXP);
    scale(l.fma(p * r, r, r) + 1.0, n)
}

/// eˣ to 1.96 units in the last place, by the polynomial and the order of operations of Arm's optimized routines
/// (`expf` for vectors), which ggml uses, too.
#[inline(always)]
pub(super) fn quick_exp<L: Level>(l: L, x: f32) -> f32 {
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let shifted = l.fma(x, consts::LOG2_E, ROUNDER);
    let n = shifted - ROUNDER;
    let b = l.fma(n, -1.428_606_8e-6, l.fma(n, -0.693_145_75, x));
    let u = b * b;
    let high = l.fma(0.008_247_39, b, 0.041_899_767);
    let low = l.fma(0.166_683_96, b, 0.499_991_27);
    let j = l.fma(l.fma(high, u, low), u, l.fma(0.999_999_4, b, 1.0));
    scale(j, low_bits(shifted))
}

/// eˣ = 2ⁿ·2ᶠ with |f| ≤ ½, for x up to 88. Below the normal range, where the power 2ⁿ has no exponent, it is 0.
#[inline(always)]
pub(super) fn exp_normal<L: Level>(l: L, x: f32) -> f32 {
    // A NaN fails the test, and stays.
    let x = if x < -88.0 { -88.0 } else { x };
    // The bias of exponents is in the low bits, too.
    let shifted = l.fma(x, consts::LOG2_E, ROUNDER + 127.0);
    let n = shifted - (ROUNDER + 127.0);
    // And what rounding took from log₂ e.
    let f = l.fma(x, 1.925_963e-8, l.fma(x, consts::LOG2_E, -n));
    let p = l.fma(polynomial(l, f, EXP2), f, 1.0);
    p * f32::from_bits(shifted.to_bits() << 23)
}

/// eˣ for |x| up to 87, where 2ⁿ has an exponent.
#[inline(always)]
pub(super) fn exp_within<L: Level>(l: L, x: f32) -> f32 {
    let (r, n) = reduce_within(l, x);
    (l.fma(polynomial(l, r, EXP) * r, r, r) + 1.0) * power(n)
}

/// r and n.
#[inline(always)]
fn reduce<L: Level>(l: L, x: f32) -> (f32, i32) {
    // Beyond these the result is 0 or ∞; a NaN fails both tests. At the lower one, both factors of `scale` are 0: a product that is
    // rounded to 0 takes CPUs a hundred times as long, and e^−∞ is common where scores are masked.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -176.0 { -176.0 } else { x };
    reduce_within(l, x)
}

/// [`reduce`] where 2ⁿ is in or near the range of exponents.
#[inline(always)]
fn reduce_within<L: Level>(l: L, x: f32) -> (f32, i32) {
    let shifted = l.fma(x, consts::LOG2_E, ROUNDER);
    let n = low_bits(shifted);
    let whole = shifted - ROUNDER;
    // log 2 in two parts, the first short, so that its multiples are exact.
    let high = l.fma(whole, -0.693_359_4, x);
    (l.fma(whole, 2.121_944_4e-4, high), n)
}

/// `e`·2ⁿ, in two factors, because n may exceed the exponents at either end.
#[inline(always)]
fn scale(e: f32, n: i32) -> f32 {
    let half = n >> 1;
    e * power(half) * power(n.wrapping_sub(half))
}

/// 2ⁿ
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// The integer to which adding [`ROUNDER`] has rounded.
#[inline(always)]
fn low_bits(shifted: f32) -> i32 {
    (shifted.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32)
}

/// (eʳ − 1 − r)/r²
const EXP: [f32; 5] = [0.0013814599, 0.008368717, 0.04166839, 0.16666521, 0.49999994];

/// (2ᶠ − 1)/f
const EXP2: [f32; 6] = [0.00015353342, 0.0013398901, 0.009618438, 0.055503324, 0.24022648, consts::LN_2];

/// Natural logarithm.
#[inline(always)]
pub(super) fn ln<L: Level>(l: L, x: f32) -> f32 {
    // Numbers below the normal range are scaled into it.
    let small = x < f32::MIN_POSITIVE;
    let scaled = if small { x * 8_388_608.0 } else { x };
    let y = ln_times(l, scaled, if small { -23.0 } else { 0.0 });
    // Zero, negative numbers, infinity, NaN.
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f32::NAN }
}

/// [`ln`] of positive normal numbers.
#[inline(always)]
pub(super) fn ln_normal<L: Level>(l: L, x: f32) -> f32 {
    ln_times(l, x, 0.0)
}

/// The logarithm of x·2ᵐ, of a positive normal x = 2ⁿ·(1 + f) with √½ ≤ 1 + f < √2.
#[inline(always)]
fn ln_times<L: Level>(l: L, x: f32, m: f32) -> f32 {
    // The bits of √½ taken away leave the exponent n in the upper bits.
    let bits = x.to_bits().wrapping_sub(0x3F35_04F3);
    let n = ((bits as i32) >> 23) as f32 + m;
    let f = f32::from_bits((bits & 0x007F_FFFF).wrapping_add(0x3F35_04F3)) - 1.0;
    let square = f * f;
    let p = polynomial(l, f, LN) * f * square;
    let p = l.fma(n, -2.121_944_4e-4, p);
    let p = l.fma(-0.5, square, p);
    l.fma(n, 0.693_359_4, f + p)
}

/// (ln(1 + f) − f + f²/2)/f³
const LN: [f32; 9] = [
    0.06746642,
    -0.11675652,
    0.11888162,
    -0.124055885,
    0.14219552,
    -0.16667996,
    0.20002119,
    -0.2500001,
    0.33333313,
];

/// Sine and cosine of the remainder of x by π/2, and the quadrant.
#[inline(always)]
fn sin_cos<L: Level>(l: L, x: f32) -> (f32, f32, i32) {
    // For |x| up to FAR there are less than 2²⁰ quarters. What is nearest to a half of one may be counted either way.
    let shifted = l.fma(x, consts::FRAC_2_PI, ROUNDER);
    let (n, quadrant) = (shifted - ROUNDER, low_bits(shifted));
    // π/2 in three parts. The first difference is exact: both are multiples of an ulp of π/2, and what is left of them is below 1.
    let r = l.fma(n, -1.570_796_4, x);
    let r = l.fma(n, 4.371_139e-8, r);
    let r = l.fma(n, 1.715_124_5e-15, r);
    let z = r * r;
    let sin = l.fma(polynomial(l, z, SIN) * z, r, r);
    let cos = l.fma(polynomial(l, z, COS) * z, z, l.fma(-0.5, z, 1.0));
    (sin, cos, quadrant)
}

/// (sin r − r)/r³, in r²
const SIN: [f32; 4] = [2.7183025e-06, -0.00019839333, 0.008333329, -0.16666667];
/// (cos r − 1 + r²/2)/r⁴, in r²
const COS: [f32; 4] = [-2.7205667e-07, 2.479946e-05, -0.0013888883, 0.041666668];

/// Sine; for |x| above [`FAR`](super::FAR) use the standard library's.
#[inline(always)]
pub(super) fn sin<L: Level>(l: L, x: f32) -> f32 {
    let (sin, cos, quadrant) = sin_cos(l, x);
    let y = if quadrant & 1 == 0 { sin } else { cos };
    let y = if quadrant & 2 == 0 { y } else { -y };
    // What was taken off, a product with no quarters, would take the sign of a zero along.
    if x == 0.0 { x } else { y }
}

/// Cosine; for |x| above [`FAR`](super::FAR) use the standard library's.
#[inline(always)]
pub(super) fn cos<L: Level>(l: L, x: f32) -> f32 {
    let (sin, cos, quadrant) = sin_cos(l, x);
    let y = if quadrant & 1 == 0 { cos } else { sin };
    if (quadrant + 1) & 2 == 0 { y } else { -y }
}

/// Hyperbolic tangent.
#[inline(always)]
pub(super) fn tanh<L: Level>(l: L, x: f32) -> f32 {
    let t = x.abs();
    let z = x * x;
    let near = l.fma(polynomial(l, z, TANH) * z, x, x);
    // Beyond 10 the result is 1; a NaN fails the test.
    let capped = if t > 10.0 { 10.0 } else { t };
    let far = 1.0 - 2.0 / (exp_within(l, 2.0 * capped) + 1.0);
    // Also of −0, whose product is another zero.
    if t < 0.625 { near.copysign(x) } else { far.copysign(x) }
}

/// (tanh x − x)/x³, in x²
const TANH: [f32; 5] = [-0.0057049915, 0.020639092, -0.053739715, 0.13331442, -0.3333328];

/// The error function.
#[inline(always)]
pub(super) fn erf<L: Level>(l: L, x: f32) -> f32 {
    let t = x.abs();
    let near = l.fma(polynomial(l, x * x, ERF), x, x);
    // Beyond 4 the result is 1; a NaN fails the test.
    let capped = if t > 4.0 { 4.0 } else { t };
    let far = 1.0 - exp_within(l, -polynomial(l, capped, ERFC));
    if t < 0.9375 { near } else { far.copysign(x) }
}

/// erf(x)/x − 1, in x²
const ERF: [f32; 7] =
    [8.296613e-05, -0.00081258075, 0.0051996, -0.026858851, 0.11283686, -0.37612632, 0.12837917];
/// −ln(1 − erf t) for t from 0.93 to 4
const ERFC: [f32; 8] = [
    2.1278682e-05,
    -0.0004365741,
    0.004181237,
    -0.025146069,
    0.108321056,
    0.6333099,
    1.1295332,
    -0.00017845111,
];

/// x·Φ(x). Φ(−|x|) is computed as a power of 2, which keeps its digits where it is small; 1 + erf would lose them.
#[inline(always)]
pub(super) fn gelu<L: Level>(l: L, x: f32) -> f32 {
    // Beyond 5.9 the tail is not computed: the results are x, and zero, whose distance from the function is below 2e-8.
    let t = -x.abs();
    let capped = if t < -5.9 { -5.9 } else { t };
    let exponent = polynomial(l, capped, GELU) * capped;
    // The bias of exponents is in the low bits, less one: half of the tail counts.
    let shifted = exponent + (ROUNDER + 126.0);
    let f = exponent - (shifted - (ROUNDER + 126.0));
    let tail = l.fma(polynomial(l, f, EXP2), f, 1.0) * f32::from_bits(shifted.to_bits() << 23);
    let tail = if t < -5.9 { 0.0 } else { tail };
    // −|x|, but where x is large and positive, so that an infinite one is not multiplied by the tail's zero.
    let factor = if x < capped { x } else { capped };
    l.fma(factor, tail, if x < 0.0 { 0.0 } else { x })
}

/// log₂(1 − erf(−t/√2))/t
const GELU: [f32; 10] = [
    -2.7336839e-08,
    -8.2467784e-07,
    -1.0642277e-05,
    -7.4763106e-05,
    -0.00027432138,
    1.0544979e-05,
    0.006959654,
    0.05245004,
    -0.4592179,
    1.1511046,
];

/// m and a power of 2 of which eˣ·2ᵇ is (1 + m) times as much, where the power is in the range of exponents.
#[inline(always)]
fn exp_less_one<L: Level>(l: L, x: f32, b: i8) -> (f32, f32) {
    // The bias of exponents is in the low bits, too.
    let rounder = ROUNDER + 127.0 + f32::from(b);
    let shifted = l.fma(x, consts::LOG2_E, rounder);
    let whole = shifted - rounder;
    let high = l.fma(whole, -0.693_359_4, x);
    let r = l.fma(whole, 2.121_944_4e-4, high);
    (l.fma(polynomial(l, r, EXP) * r, r, r), f32::from_bits(shifted.to_bits() << 23))
}

/// 2⁻⁶⁴
const SMALL: f32 = f32::from_bits((127 - 64) << 23);

/// (1 + e⁻ˣ)·2⁻⁶⁴, which is in the range of exponents wherever 1/(1 + e⁻ˣ) is not zero.
#[inline(always)]
fn one_plus_exp<L: Level>(l: L, x: f32) -> f32 {
    // Up there e⁻ˣ does not count; a NaN fails both tests. Down there it becomes infinite, by a power that is: a quotient of zero, since
    // CPUs take a hundred times as long for one that is rounded to it. Between −110 and −133 m might be negative beside that power.
    let x = if x > 40.0 { 40.0 } else { x };
    let x = if x < -110.0 { -133.18 } else { x };
    let (m, power) = exp_less_one(l, -x, -64);
    // The smaller term first, so that the sum is rounded by hardly more than once.
    let (low, high) = if power > SMALL { (SMALL, power) } else { (power, SMALL) };
    l.fma(m, power, low) + high
}

/// 1/(1 + e⁻ˣ)
#[inline(always)]
pub(super) fn sigmoid<L: Level>(l: L, x: f32) -> f32 {
    1.0 / one_plus_exp(l, x) * SMALL
}

/// x·sigmoid(x)
#[inline(always)]
pub(super) fn silu<L: Level>(l: L, x: f32) -> f32 {
    let y = x / one_plus_exp(l, x) * SMALL;
    // Where the quotient might overflow.
    if x > 40.0 { x } else { y }
}

macro_rules! through_double {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name<L: Level>(_: L, x: f32) -> f32 {
            double::$name(f64::from(x)) as f32
        }
    )*};
}

through_double! {
    /// eˣ − 1
    expm1;
    /// Binary logarithm.
    log2;
    /// Decimal logarithm.
    log10;
    /// log(1 + x)
    log1p;
    /// Tangent.
    tan;
    /// Inverse sine.
    asin;
    /// Inverse cosine.
    acos;
    /// Inverse tangent.
    atan;
    /// Hyperbolic sine.
    sinh;
    /// Hyperbolic cosine.
    cosh;
    /// Inverse hyperbolic sine.
    asinh;
    /// Inverse hyperbolic cosine.
    acosh;
    /// Inverse hyperbolic tangent.
    atanh;
}

/// aᵇ
#[inline(always)]
pub(super) fn pow<L: Level>(_: L, a: f32, b: f32) -> f32 {
    double::pow(f64::from(a), f64::from(b)) as f32
}

/// The angle of the point (x, y).
#[inline(always)]
pub(super) fn atan2<L: Level>(_: L, y: f32, x: f32) -> f32 {
    double::atan2(f64::from(y), f64::from(x)) as f32
}

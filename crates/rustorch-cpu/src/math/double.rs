//! Series in `f64`, precise to about 10⁻¹⁰, for functions of `f32` that are rounded once at the end. Free of branches,
//! so that loops over them become vector code.

use std::f64::consts;

/// 1.5·2⁵²: adding it rounds to an integer, which then stands in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// `c₀·xⁿ + … + cₙ`
#[inline(always)]
fn polynomial<const N: usize>(x: f64, c: [f64; N]) -> f64 {
    let mut p = c[0];
    for c in &c[1..] {
        p = p * x + c;
    }
    p
}

/// eˣ, with x beyond ±700 taken for ±700: as an `f32`, 0 and ∞.
#[inline(always)]
fn exp(x: f64) -> f64 {
    let x = if x > 700.0 { 700.0 } else { x };
    let x = if x < -700.0 { -700.0 } else { x };
    let shifted = x * consts::LOG2_E + ROUNDER;
    let n = shifted.to_bits().wrapping_sub(ROUNDER.to_bits());
    let r = x - (shifted - ROUNDER) * consts::LN_2;
    let p = polynomial(
        r,
        [
            1.0 / 3_628_800.0,
            1.0 / 362_880.0,
            1.0 / 40_320.0,
            1.0 / 5_040.0,
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
            1.0,
            1.0,
        ],
    );
    p * f64::from_bits(n.wrapping_add(1023) << 52)
}

/// Natural logarithm of a number that is zero, or in the normal range, or not a positive number.
#[inline(always)]
fn ln(x: f64) -> f64 {
    // x = 2ⁿ·m with √½ ≤ m < √2: the bits of √½ taken away leave the exponent in the upper bits.
    const HALF_ROOT: u64 = 0x3FE6_A09E_667F_3BCD;
    let bits = x.to_bits().wrapping_sub(HALF_ROOT);
    // As a float by way of its low bits: there is no vector conversion from 64-bit integers everywhere.
    let n = f64::from_bits((bits >> 52).wrapping_add(1 << 11) & 0xFFF | 0x4330_0000_0000_0000)
        - (4_503_599_627_370_496.0 + 2048.0);
    let m = f64::from_bits((bits & 0x000F_FFFF_FFFF_FFFF).wrapping_add(HALF_ROOT));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let series =
        polynomial(z, [2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0, 2.0]);
    let y = n * consts::LN_2 + s * series;
    let y = if x == f64::INFINITY { x } else { y };
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f64::NAN }
}

#[inline(always)]
pub(super) fn log2(x: f64) -> f64 {
    ln(x) * consts::LOG2_E
}

#[inline(always)]
pub(super) fn log10(x: f64) -> f64 {
    ln(x) * consts::LOG10_E
}

#[inline(always)]
pub(super) fn log1p(x: f64) -> f64 {
    let near = x * polynomial(x, [0.2, -0.25, 1.0 / 3.0, -0.5, 1.0]);
    if x.abs() < 1e-3 { near } else { ln(1.0 + x) }
}

#[inline(always)]
pub(super) fn expm1(x: f64) -> f64 {
    let near = x * polynomial(x, [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0]);
    if x.abs() < 0.02 { near } else { exp(x) - 1.0 }
}

#[inline(always)]
pub(super) fn sinh(x: f64) -> f64 {
    let e = exp(x);
    let z = x * x;
    let near = x * polynomial(z, [1.0 / 5_040.0, 1.0 / 120.0, 1.0 / 6.0, 1.0]);
    if x.abs() < 0.1 { near } else { 0.5 * (e - 1.0 / e) }
}

#[inline(always)]
pub(super) fn cosh(x: f64) -> f64 {
    let e = exp(x);
    0.5 * (e + 1.0 / e)
}

#[inline(always)]
pub(super) fn asinh(x: f64) -> f64 {
    let t = x.abs();
    // At infinity the quotient would be ∞/∞.
    let capped = if t > 1e100 { 1e100 } else { t };
    let y = log1p(t + capped * capped / (1.0 + (1.0 + capped * capped).sqrt()));
    y.copysign(x)
}

#[inline(always)]
pub(super) fn acosh(x: f64) -> f64 {
    let y = ln(x + ((x - 1.0) * (x + 1.0)).sqrt());
    if x >= 1.0 { y } else { f64::NAN }
}

#[inline(always)]
pub(super) fn atanh(x: f64) -> f64 {
    let t = x.abs();
    (0.5 * log1p(2.0 * t / (1.0 - t))).copysign(x)
}

/// The remainder of x by π/2 in [−π/4, π/4], and the number of quarters, of which the low bits count.
#[inline(always)]
pub(super) fn quarter(x: f64) -> (f64, i32) {
    let shifted = x * consts::FRAC_2_PI + ROUNDER;
    let n = shifted - ROUNDER;
    // π/2 in three parts, the first two of 33 bits, so that their multiples are exact.
    let r = x - n * 1.570_796_326_734_125_6;
    let r = r - n * 6.077_100_506_303_966e-11;
    let r = r - n * 2.022_266_248_795_950_6e-21;
    (r, shifted.to_bits() as i32)
}

#[inline(always)]
pub(super) fn tan(x: f64) -> f64 {
    let (r, quadrant) = quarter(x);
    let z = r * r;
    let sin = r * polynomial(
        z,
        [
            1.0 / 6_227_020_800.0,
            -1.0 / 39_916_800.0,
            1.0 / 362_880.0,
            -1.0 / 5_040.0,
            1.0 / 120.0,
            -1.0 / 6.0,
            1.0,
        ],
    );
    let cos = polynomial(
        z,
        [1.0 / 479_001_600.0, -1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0],
    );
    if quadrant & 1 == 0 { sin / cos } else { -cos / sin }
}

#[inline(always)]
pub(super) fn atan(x: f64) -> f64 {
    let t = x.abs();
    let (steep, slanted) = (t > 2.414_213_562_373_095, t > 0.414_213_562_373_095_03);
    let turned = if steep { -1.0 / t } else { (t - 1.0) / (t + 1.0) };
    let r = if slanted { turned } else { t };
    let base = if slanted { consts::FRAC_PI_4 } else { 0.0 };
    let base = if steep { consts::FRAC_PI_2 } else { base };
    let z = r * r;
    let series = polynomial(
        z,
        [
            1.0 / 25.0,
            -1.0 / 23.0,
            1.0 / 21.0,
            -1.0 / 19.0,
            1.0 / 17.0,
            -1.0 / 15.0,
            1.0 / 13.0,
            -1.0 / 11.0,
            1.0 / 9.0,
            -1.0 / 7.0,
            1.0 / 5.0,
            -1.0 / 3.0,
            1.0,
        ],
    );
    (base + r * series).copysign(x)
}

#[inline(always)]
pub(super) fn asin(x: f64) -> f64 {
    atan(x / ((1.0 - x) * (1.0 + x)).sqrt())
}

#[inline(always)]
pub(super) fn acos(x: f64) -> f64 {
    2.0 * atan(((1.0 - x) / (1.0 + x)).sqrt())
}

#[inline(always)]
pub(super) fn atan2(y: f64, x: f64) -> f64 {
    let (a, b) = (y.abs(), x.abs());
    let (low, high) = if a > b { (b, a) } else { (a, b) };
    let ratio = low / high;
    // 0/0 counts as 0, ∞/∞ as 1.
    let ratio = if high == 0.0 { 0.0 } else { ratio };
    let ratio = if low == f64::INFINITY { 1.0 } else { ratio };
    let angle = atan(ratio);
    let angle = if a > b { consts::FRAC_PI_2 - angle } else { angle };
    let angle = if x.is_sign_negative() { consts::PI - angle } else { angle };
    if x.is_nan() | y.is_nan() { f64::NAN } else { angle.copysign(y) }
}

/// By C's rules.
#[inline(always)]
pub(super) fn pow(a: f64, b: f64) -> f64 {
    let t = a.abs();
    let half = 0.5 * b;
    let integer = b.trunc() == b;
    let odd = integer & (half.trunc() != half);
    let y = exp(b * ln(t));
    let y = if (a < 0.0) & !integer & (t != f64::INFINITY) { f64::NAN } else { y };
    let y = if odd { y.copysign(a) } else { y };
    // ±1 to the power of ±∞.
    let y = if (t == 1.0) & (b.abs() == f64::INFINITY) { 1.0 } else { y };
    if (b == 0.0) | (a == 1.0) { 1.0 } else { y }
}

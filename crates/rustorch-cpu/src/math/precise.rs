//! Functions of `f64` within a unit in the last place, free of branches, so that loops over them become vector code. Nothing is fused, so
//! that bits are the same on every instruction set.

use std::f64::consts;

/// 1.5·2⁵²: adding it rounds to an integer, which then stands in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// log 2 in two parts, the first of 32 bits, so that its multiples by exponents are exact.
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];

/// eˣ = 2ⁿ·eʳ with |r| ≤ ½ log 2.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    // Beyond these the result is 0 or ∞; a NaN fails both tests. At the lower one, both factors below are 0: a product that is rounded to 0
    // takes CPUs a hundred times as long, and e^−∞ is common where scores are masked.
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -1418.0 { -1418.0 } else { x };
    let shifted = x * consts::LOG2_E + ROUNDER;
    let whole = shifted - ROUNDER;
    let r = x - whole * LN_2[0] - whole * LN_2[1];
    // (eʳ − 1 − r)/r², in two chains.
    let z = r * r;
    let even = ((((z * (1.0 / 87_178_291_200.0) + 1.0 / 479_001_600.0) * z + 1.0 / 3_628_800.0) * z
        + 1.0 / 40_320.0)
        * z
        + 1.0 / 720.0)
        * z
        + 1.0 / 24.0;
    let even = even * z + 0.5;
    let odd =
        (((z * (1.0 / 6_227_020_800.0) + 1.0 / 39_916_800.0) * z + 1.0 / 362_880.0) * z + 1.0 / 5_040.0) * z
            + 1.0 / 120.0;
    let odd = odd * z + 1.0 / 6.0;
    let e = 1.0 + (r + z * (even + r * odd));
    // 2ⁿ in two factors, because n may exceed the exponents at either end.
    let n = shifted.to_bits().wrapping_sub(ROUNDER.to_bits());
    let half = (whole * 0.5 + ROUNDER).to_bits().wrapping_sub(ROUNDER.to_bits());
    let power = |n: u64| f64::from_bits(n.wrapping_add(1023) << 52);
    e * power(half) * power(n.wrapping_sub(half))
}

/// Natural logarithm: x = 2ⁿ·(1 + f) with √½ ≤ 1 + f < √2, and log(1 + f) = f − f²/2 + s·(f²/2 + R(s²)) with s = f/(2 + f).
///
/// The polynomial R is that of FreeBSD's `e_log.c`.
#[inline(always)]
pub(super) fn ln(x: f64) -> f64 {
    const HALF_ROOT: u64 = 0x3FE6_A09E_667F_3BCD;
    // Numbers below the normal range are scaled into it.
    let small = x < f64::MIN_POSITIVE;
    let scaled = if small { x * 18_014_398_509_481_984.0 } else { x };
    let extra = if small { -54.0 } else { 0.0 };
    // The bits of √½ taken away leave the exponent in the upper bits.
    let bits = scaled.to_bits().wrapping_sub(HALF_ROOT);
    // As a float by way of its low bits: there is no vector conversion from 64-bit integers everywhere.
    let n = f64::from_bits((bits >> 52).wrapping_add(1 << 11) & 0xFFF | 0x4330_0000_0000_0000)
        - (4_503_599_627_370_496.0 + 2048.0)
        + extra;
    let f = f64::from_bits((bits & 0x000F_FFFF_FFFF_FFFF).wrapping_add(HALF_ROOT)) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let odd =
        w * (w * (w * 1.531_383_769_920_937_3e-1 + 2.222_219_843_214_978_4e-1) + 3.999_999_999_940_942e-1);
    let even = z
        * (w * (w * (w * 1.479_819_860_511_658_6e-1 + 1.818_357_216_161_805e-1) + 2.857_142_874_366_239e-1)
            + 6.666_666_666_666_735e-1);
    let square = 0.5 * f * f;
    let y = n * LN_2[0] - ((square - (s * (square + (odd + even)) + n * LN_2[1])) - f);
    let y = if x == f64::INFINITY { x } else { y };
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f64::NAN }
}

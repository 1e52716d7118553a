//! Functions of `f64` within a unit in the last place, free of branches, so that loops over them become vector code. Sums of products are
//! fused where the CPU can: where it cannot, last bits may differ.

use crate::simd::Level;
use std::f64::consts;

/// 1.5·2⁵²: adding it rounds to an integer, which then stands in the low bits.
pub(super) const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// That with the bias of exponents in the low bits, too.
pub(super) const BIASED_ROUNDER: f64 = ROUNDER + 1023.0;
/// log 2 in two parts, the first of 32 bits, so that its multiples by exponents are exact.
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];

/// `c₀·xⁿ + … + cₙ`
#[inline(always)]
pub(super) fn polynomial<L: Level, const N: usize>(l: L, x: f64, c: [f64; N]) -> f64 {
    let mut p = c[0];
    for c in &c[1..] {
        p = l.fma_double(p, x, *c);
    }
    p
}

/// eˣ = 2ⁿ·eʳ with |r| ≤ ½ log 2.
#[inline(always)]
pub(super) fn exp<L: Level>(l: L, x: f64) -> f64 {
    // Beyond these the result is 0 or ∞; a NaN fails both tests. At the lower one, both factors below are 0: a product that is rounded to 0
    // takes CPUs a hundred times as long, and e^−∞ is common where scores are masked.
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -1418.0 { -1418.0 } else { x };
    let (e, shifted) = reduced_exp(l, x);
    // 2ⁿ in two factors, because n may exceed the exponents at either end.
    let n = shifted.to_bits().wrapping_sub(BIASED_ROUNDER.to_bits());
    let whole = shifted - BIASED_ROUNDER;
    let half = (whole * 0.5 + ROUNDER).to_bits().wrapping_sub(ROUNDER.to_bits());
    let power = |n: u64| f64::from_bits(n.wrapping_add(1023) << 52);
    e * power(half) * power(n.wrapping_sub(half))
}

/// eˣ for |x| up to 708, where 2ⁿ has an exponent.
#[inline(always)]
pub(super) fn exp_within<L: Level>(l: L, x: f64) -> f64 {
    let (e, shifted) = reduced_exp(l, x);
    e * f64::from_bits(shifted.to_bits() << 52)
}

/// eʳ, and the sum of n and [`BIASED_ROUNDER`].
#[inline(always)]
fn reduced_exp<L: Level>(l: L, x: f64) -> (f64, f64) {
    let shifted = l.fma_double(x, consts::LOG2_E, BIASED_ROUNDER);
    let whole = shifted - BIASED_ROUNDER;
    let r = l.fma_double(whole, -LN_2[1], l.fma_double(whole, -LN_2[0], x));
    // (eʳ − 1 − r)/r², in two chains.
    let z = r * r;
    let (odd, even) = (polynomial(l, z, EXP[0]), polynomial(l, z, EXP[1]));
    (1.0 + l.fma_double(z, l.fma_double(odd, r, even), r), shifted)
}

/// (eʳ − 1 − r)/r², the odd and the even powers. Fitted by `tools/fit_math.py`.
const EXP: [[f64; 5]; 2] = [
    [
        2.500_137_960_149_583_6e-8,
        2.755_757_999_121_65e-6,
        1.984_126_951_702_094_8e-4,
        8.333_333_333_487_52e-3,
        0.166_666_666_666_664_27,
    ],
    [
        2.762_969_722_963_469_5e-7,
        2.480_149_478_803_535_4e-5,
        1.388_888_894_181_857_7e-3,
        4.166_666_666_653_801e-2,
        0.500_000_000_000_001,
    ],
];

/// Natural logarithm.
#[inline(always)]
pub(super) fn ln<L: Level>(l: L, x: f64) -> f64 {
    // Numbers below the normal range are scaled into it.
    let small = x < f64::MIN_POSITIVE;
    let scaled = if small { x * 18_014_398_509_481_984.0 } else { x };
    let y = ln_times(l, scaled, if small { -54.0 } else { 0.0 });
    let y = if x == f64::INFINITY { x } else { y };
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f64::NAN }
}

/// [`ln`] of positive normal numbers.
#[inline(always)]
pub(super) fn ln_normal<L: Level>(l: L, x: f64) -> f64 {
    ln_times(l, x, 0.0)
}

/// The logarithm of x·2ᵐ, of a positive normal x = 2ⁿ·(1 + f) with √½ ≤ 1 + f < √2: log(1 + f) = f − f²/2 + s·(f²/2 + R(s²)) with
/// s = f/(2 + f).
///
/// The polynomial R is that of FreeBSD's `e_log.c`.
#[inline(always)]
fn ln_times<L: Level>(l: L, x: f64, m: f64) -> f64 {
    const HALF_ROOT: u64 = 0x3FE6_A09E_667F_3BCD;
    // The bits of √½ taken away leave the exponent in the upper bits.
    let bits = x.to_bits().wrapping_sub(HALF_ROOT);
    // As a float by way of its low bits: there is no vector conversion from 64-bit integers everywhere.
    let n = f64::from_bits((bits >> 52).wrapping_add(1 << 11) & 0xFFF | 0x4330_0000_0000_0000)
        - (4_503_599_627_370_496.0 + 2048.0)
        + m;
    let f = f64::from_bits((bits & 0x000F_FFFF_FFFF_FFFF).wrapping_add(HALF_ROOT)) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let odd = w * polynomial(
        l,
        w,
        [1.531_383_769_920_937_3e-1, 2.222_219_843_214_978_4e-1, 3.999_999_999_940_942e-1],
    );
    let even = z * polynomial(
        l,
        w,
        [
            1.479_819_860_511_658_6e-1,
            1.818_357_216_161_805e-1,
            2.857_142_874_366_239e-1,
            6.666_666_666_666_735e-1,
        ],
    );
    let square = 0.5 * f * f;
    let series = l.fma_double(s, square + (odd + even), n * LN_2[1]);
    l.fma_double(n, LN_2[0], f - (square - series))
}

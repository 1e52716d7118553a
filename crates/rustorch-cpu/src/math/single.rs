//! Functions of `f32`, branch-free.

use crate::simd::Level;

/// 1.5·2²³: adding it rounds to an integer, which stands in the low bits.
const ROUNDER: f32 = 12_582_912.0;

/// eˣ = 2ⁿ·eʳ with |r| ≤ ½ log 2; eʳ by a polynomial.
#[inline(always)]
pub(super) fn exp<L: Level>(l: L, x: f32) -> f32 {
    // Beyond these the result is 0 or ∞; a NaN fails both tests.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let shifted = l.fma(x, std::f32::consts::LOG2_E, ROUNDER);
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32);
    let whole = shifted - ROUNDER;
    // log 2 in two parts, the first with trailing zeros.
    let r = l.fma(whole, -0.693_359_375, x);
    let r = l.fma(whole, 2.121_944_4e-4, r);
    let p = l.fma(1.987_569_1e-4, r, 1.398_199_9e-3);
    let p = l.fma(p, r, 8.333_452e-3);
    let p = l.fma(p, r, 4.166_579_6e-2);
    let p = l.fma(p, r, 1.666_666_5e-1);
    let p = l.fma(p, r, 5.000_000_1e-1);
    let e = l.fma(p, r * r, r) + 1.0;
    // 2ⁿ in two factors, because n may exceed the exponents at either end.
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    e * power(half) * power(n.wrapping_sub(half))
}

/// Natural logarithm.
#[inline(always)]
pub(super) fn ln<L: Level>(_: L, x: f32) -> f32 {
    x.ln()
}

/// The error function.
#[inline(always)]
pub(super) fn erf<L: Level>(_: L, x: f32) -> f32 {
    libm::erf(f64::from(x)) as f32
}

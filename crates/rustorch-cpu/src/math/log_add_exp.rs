//! log(eᵃ + eᵇ), within 4 units in the last place everywhere: also where eᵃ + eᵇ is nearly 1, and the terms of [`quick`] cancel.
//!
//! There the sum of the powers, less 1, is computed in pairs of `f64`, and where all their digits cancel, in fractions of 192 bits.

use super::fraction::Fraction;
use super::pair::Pair;
use super::{Real, precise};
use crate::simd::Level;
use std::f64::consts::LOG2_E;

/// The larger plus log(1 + e^−|a−b|), free of branches. What [`cancels`] is to be computed anew.
#[inline(always)]
pub(super) fn quick<T: Real, L: Level>(l: L, a: T, b: T) -> T {
    let (more, less) = if a > b { (a, b) } else { (b, a) };
    let difference = less - more;
    // What rounding the difference has lost (Knuth's two-sum).
    let part = difference - less;
    let lost = (less - (difference - part)) - (more + part);
    // Powers of smaller ones are zero; there are infinities among these.
    let lost = if difference > T::of(-1000.0) { lost } else { T::ZERO };
    // The difference of equal infinities would be NaN.
    let (difference, lost) = if a == b { (T::ZERO, T::ZERO) } else { (difference, lost) };
    let e = difference.exp(l);
    let e = e + e * lost;
    let sum = T::ONE + e;
    more + (sum.ln(l) + (e - (sum - T::ONE)) / sum)
}

/// Whether [`quick`] has given a result below half of its second term, so that an error of that counts more than twice.
#[inline(always)]
pub(crate) fn cancels<T: Real>(a: T, b: T, result: T) -> bool {
    let more = if a > b { a } else { b };
    result.abs() + result.abs() < result - more
}

/// Results of `f32` where [`quick`] [cancels]: in `f64`, whose error of 2⁻⁵² is little beside most.
#[inline(always)]
pub(super) fn of_singles<L: Level>(l: L, a: &[f32], b: &[f32], out: &mut [f32]) {
    let mut is_small = false;
    for ((&a, &b), out) in a.iter().zip(b).zip(&mut *out) {
        let wide = quick(l, f64::from(a), f64::from(b));
        is_small |= wide.abs() < 1e-6;
        *out = wide as f32;
    }
    if is_small {
        for ((&a, &b), out) in a.iter().zip(b).zip(out).filter(|(_, out)| out.abs() <= 1e-6) {
            *out = in_fractions(a.into(), b.into()) as f32;
        }
    }
}

/// Results of `f64` where [`quick`] [cancels].
#[inline(always)]
pub(super) fn of_doubles(a: &[f64], b: &[f64], out: &mut [f64]) {
    let mut is_missing = false;
    for ((&a, &b), out) in a.iter().zip(b).zip(&mut *out) {
        *out = in_pairs(a, b);
        is_missing |= out.is_nan();
    }
    if is_missing {
        for ((&a, &b), out) in a.iter().zip(b).zip(out).filter(|(_, out)| out.is_nan()) {
            *out = in_fractions(a, b);
        }
    }
}

/// log1p(eᵃ + eᵇ − 1) in pairs, with 69 bits of the larger term, free of branches; NaN where too many of these cancel, or the last are
/// below the range.
#[inline(always)]
fn in_pairs(a: f64, b: f64) -> f64 {
    /// 1.5·2⁵²: adding it rounds to an integer, which then stands in the low bits.
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    /// log 2 in three parts, the first two so short that their multiples by exponents are exact.
    const LN_2: [f64; 3] =
        [6.931_471_803_691_238e-1, 1.908_214_929_268_704_3e-10, 1.883_502_979_478_968_5e-22];
    let (more, less) = if a > b { (a, b) } else { (b, a) };
    // e^less = 2ⁿ·eʳ
    let shifted = less * LOG2_E + ROUNDER;
    let whole = shifted - ROUNDER;
    let r = Pair::sum(less - whole * LN_2[0], -whole * LN_2[1]);
    let r = Pair::sum(r.high, r.low - whole * LN_2[2]);
    let n = shifted.to_bits().wrapping_sub(ROUNDER.to_bits());
    let scale = f64::from_bits(n.wrapping_add(1023) << 52);
    let power = Pair::ONE.plus(expm1(r));
    let power = Pair { high: power.high * scale, low: power.low * scale };
    let excess = power.plus(expm1(Pair::of(more))).value();
    let sum = 1.0 + excess;
    let result = precise::ln(sum) + (excess - (sum - 1.0)) / sum;
    let is_precise = (excess.abs() > -more * (1.0 / 16_384.0)) & (more < -1e-280);
    if is_precise { result } else { f64::NAN }
}

/// eˣ − 1 for |x| up to 1.05.
#[inline(always)]
fn expm1(x: Pair) -> Pair {
    let x = Pair { high: x.high * (1.0 / 256.0), low: x.low * (1.0 / 256.0) };
    let h = x.high;
    // Of these terms a few digits count.
    let series =
        ((((h * (1.0 / 40_320.0) + 1.0 / 5_040.0) * h + 1.0 / 720.0) * h + 1.0 / 120.0) * h + 1.0 / 24.0) * h
            + 1.0 / 6.0;
    let square = x.times(x);
    let square = Pair { high: square.high * 0.5, low: square.low * 0.5 };
    let mut e = x.plus(square.plus(Pair::of(series * (h * h * h))));
    for _ in 0..8 {
        // e²ˣ − 1 = 2e + e²
        e = Pair { high: e.high + e.high, low: e.low + e.low }.plus(e.times(e));
    }
    e
}

/// The same in fractions. Powers of numbers that have 53 bits leave 2⁻¹¹⁶ of 1 at the least.
#[cold]
#[inline(never)]
fn in_fractions(a: f64, b: f64) -> f64 {
    let (more, less) = if a > b { (a, b) } else { (b, a) };
    // −more = x·2⁻ᵠ, and (1 − e^more)·2ᵠ.
    let (x, exponent) = libm::frexp(-more);
    let q = -exponent;
    let missing = Fraction::of(x, 0).one_minus_exp(q);
    // −less = n·log 2 + p with p from 0.17 to 0.87, so that rounding of n does not matter, and e^less = 2⁻ⁿ·e⁻ᵖ.
    let n = (-less * LOG2_E - 0.25).floor();
    let (y, exponent) = libm::frexp(-less);
    let rest = Fraction::of(y, exponent).minus(Fraction::LN_2.fraction_of_times(n as u64)).0;
    let power = rest.one_minus_exp(0).complement();
    // Where terms cancel, that of e^less is at most four times the other.
    let (difference, is_negative) = power.halved(n as i32 - q + 3).minus(missing.halved(3));
    let (bits, exponent) = if is_negative { difference.complement() } else { difference }.first_bits();
    let excess = libm::ldexp(bits as f64, exponent + 3 - q);
    (if is_negative { -excess } else { excess }).ln_1p()
}

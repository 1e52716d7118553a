//! log(eᵃ + eᵇ), within 4 units in the last place everywhere: also where eᵃ + eᵇ is nearly 1, and the larger and log(1 + e^−|a−b|) cancel.
//!
//! The common path has more digits than the result, so that only few of a thousand results are left where too many cancel. These are
//! computed anew: the sum of the powers, less 1, in pairs of `f64`, and where all their digits cancel, in fractions of 192 bits.

use super::fraction::Fraction;
use super::pair::Pair;
use super::precise::{self, BIASED_ROUNDER, ROUNDER, polynomial};
use crate::simd::Level;
use std::f64::consts::{LN_2, LOG2_E, SQRT_2};

/// Differences whose powers are nothing beside numbers that are not [`tiny`].
const LEAST: f64 = -700.0;
/// Elements after which those are looked for that are computed anew: what stays in the first-level cache.
const BLOCK: usize = 512;
/// Elements that are looked through together for those: two vectors of `f64` or more.
const CHUNK: usize = 16;
/// So many are collected before they are computed: several vectors, since each is a long chain of sums.
const COLLECTED: usize = 128;

/// Results of `f32`.
#[inline(always)]
pub(super) fn singles<L: Level>(l: L, a: &[f32], b: &[f32], out: &mut [f32]) {
    by_blocks(&Singles(l), [a, b], out);
}

/// Results of `f64`.
#[inline(always)]
pub(super) fn doubles<L: Level>(l: L, a: &[f64], b: &[f64], out: &mut [f64]) {
    by_blocks(&Doubles(l), [a, b], out);
}

/// How results of a type are computed; no closures, since one that is not inlined would not have the level's instructions.
trait Scheme<T> {
    /// The common path.
    fn usual(&self, a: T, b: T) -> T;
    /// Whether to compute it anew.
    fn is_doubtful(&self, a: T, b: T, result: T) -> bool;
    /// Computes some anew, that were `usual` at first.
    fn anew(&self, a: &[T], b: &[T], usual: &[T], out: &mut [T]);
}

struct Singles<L>(L);

impl<L: Level> Scheme<f32> for Singles<L> {
    #[inline(always)]
    fn usual(&self, a: f32, b: f32) -> f32 {
        single(self.0, a, b)
    }

    #[inline(always)]
    fn is_doubtful(&self, a: f32, b: f32, result: f32) -> bool {
        result.abs() * 8192.0 < result - if a > b { a } else { b }
    }

    #[inline(always)]
    fn anew(&self, a: &[f32], b: &[f32], _: &[f32], out: &mut [f32]) {
        // Of 59 bits, 33 may cancel.
        const PARTS: f64 = 8_589_934_592.0;
        let mut is_missing = false;
        for ((&a, &b), out) in a.iter().zip(b).zip(&mut *out) {
            let result = in_some_pairs(self.0, a.into(), b.into());
            is_missing |= cancels(f64::from(if a > b { a } else { b }), result, PARTS);
            *out = result as f32;
        }
        if is_missing {
            for ((&a, &b), out) in a.iter().zip(b).zip(out) {
                // Rounding may have hidden it.
                if cancels(f64::from(if a > b { a } else { b }), f64::from(*out), PARTS * 0.5) {
                    *out = in_fractions(a.into(), b.into()) as f32;
                }
            }
        }
    }
}

struct Doubles<L>(L);

impl<L: Level> Scheme<f64> for Doubles<L> {
    #[inline(always)]
    fn usual(&self, a: f64, b: f64) -> f64 {
        in_some_pairs(self.0, a, b)
    }

    #[inline(always)]
    fn is_doubtful(&self, a: f64, b: f64, result: f64) -> bool {
        // The smallest, too, since powers of the least numbers are cut off: see [`tiny`].
        result.abs() * 32.0 - 1e-270 < result - if a > b { a } else { b }
    }

    #[inline(always)]
    fn anew(&self, a: &[f64], b: &[f64], usual: &[f64], out: &mut [f64]) {
        let mut is_missing = false;
        for ((&a, &b), out) in a.iter().zip(b).zip(&mut *out) {
            *out = in_pairs(self.0, a, b);
            is_missing |= out.is_nan();
        }
        if is_missing {
            for (((&a, &b), &usual), out) in
                a.iter().zip(b).zip(usual).zip(out).filter(|(_, out)| out.is_nan())
            {
                let (more, less) = if a > b { (a, b) } else { (b, a) };
                *out = if more.abs() < 1e-280 && less < LEAST {
                    tiny(more, less)
                } else if cancels(more, usual, 32.0) {
                    in_fractions(a, b)
                } else {
                    usual
                };
            }
        }
    }
}

/// Runs a scheme: doubtful elements are collected, and computed anew together.
#[inline(always)]
fn by_blocks<T: Copy + Default>(scheme: &impl Scheme<T>, [a, b]: [&[T]; 2], out: &mut [T]) {
    let mut places = [0; COLLECTED];
    let [mut left, mut right, mut first, mut results] = [[T::default(); COLLECTED]; 4];
    let (len, mut count) = (out.len(), 0);
    for start in (0..len).step_by(BLOCK) {
        let end = len.min(start + BLOCK);
        for ((&a, &b), out) in a[start..end].iter().zip(&b[start..end]).zip(&mut out[start..end]) {
            *out = scheme.usual(a, b);
        }
        for at in (start..end).step_by(CHUNK) {
            let to = end.min(at + CHUNK);
            let (a, b) = (&a[at..to], &b[at..to]);
            let mut is_any = false;
            for ((&a, &b), &out) in a.iter().zip(b).zip(&out[at..to]) {
                is_any |= scheme.is_doubtful(a, b, out);
            }
            if is_any {
                for (i, ((&a, &b), &out)) in a.iter().zip(b).zip(&out[at..to]).enumerate() {
                    // Without a branch: which are is hard to foresee.
                    (places[count], left[count], right[count], first[count]) = (at + i, a, b, out);
                    count += usize::from(scheme.is_doubtful(a, b, out));
                }
            }
            if count >= COLLECTED - CHUNK || (count > 0 && to == len) {
                // Whole vectors: of a remainder each element would take as long.
                let padded = count.next_multiple_of(CHUNK);
                for values in [&mut left, &mut right, &mut first] {
                    let value = values[0];
                    values[count..padded].fill(value);
                }
                scheme.anew(&left[..padded], &right[..padded], &first[..padded], &mut results[..padded]);
                for (&place, &value) in places[..count].iter().zip(&results) {
                    out[place] = value;
                }
                count = 0;
            }
        }
    }
}

/// Whether a result is below such a part of what was added to the larger operand.
#[inline(always)]
fn cancels(more: f64, result: f64, parts: f64) -> bool {
    result.abs() * parts < result - more
}

/// In `f64`, but with series for 40 bits alone.
#[inline(always)]
fn single<L: Level>(l: L, a: f32, b: f32) -> f32 {
    /// (eʳ − 1)/r for |r| ≤ ½ log 2, the odd and the even powers; as all series here fitted by `tools/fit_math.py`.
    const EXP: [[f64; 4]; 2] = [
        [
            2.473_521_585_403_166e-5,
            1.388_914_895_185_565_9e-3,
            4.166_666_458_868_148e-2,
            0.500_000_000_044_439_9,
        ],
        [
            1.991_450_631_763_250_6e-4,
            8.333_269_144_415_19e-3,
            0.166_666_668_707_566_5,
            0.999_999_999_983_524_1,
        ],
    ];
    /// log(1 + e)/e for e from 0 to 1, the even and the odd powers.
    const LN_1P: ([f64; 8], [f64; 7]) = (
        [
            3.332_600_052_679_247_6e-4,
            1.149_202_004_611_346_6e-2,
            5.439_021_144_747_873_5e-2,
            0.103_160_781_926_042_96,
            0.142_320_870_881_535_6,
            0.199_991_540_007_434_63,
            0.333_333_316_116_828_5,
            0.999_999_999_999_514_2,
        ],
        [
            -2.853_751_533_337_225_4e-3,
            -2.932_918_221_162_902_2e-2,
            -8.053_302_065_726_999e-2,
            -0.122_575_554_605_511_98,
            -0.166_583_836_511_700_4,
            -0.249_999_474_574_445_96,
            -0.499_999_999_776_038_04,
        ],
    );
    let (more, less) = if a > b { (a, b) } else { (b, a) };
    let (more, less) = (f64::from(more), f64::from(less));
    // The difference of equal infinities would be NaN. Powers of smaller ones are below the range of `f32`.
    let difference = if more == less { 0.0 } else { less - more };
    let difference = if difference < -200.0 { -200.0 } else { difference };
    let shifted = l.fma_double(difference, LOG2_E, BIASED_ROUNDER);
    let r = l.fma_double(shifted - BIASED_ROUNDER, -LN_2, difference);
    let square = r * r;
    let (odd, even) = (polynomial(l, square, EXP[0]), polynomial(l, square, EXP[1]));
    let power = l.fma_double(l.fma_double(odd, r, even), r, 1.0);
    let e = power * f64::from_bits(shifted.to_bits() << 52);
    let square = e * e;
    let (even, odd) = (polynomial(l, square, LN_1P.0), polynomial(l, square, LN_1P.1));
    (more + l.fma_double(odd, e, even) * e) as f32
}

/// The larger plus log(1 + e^−|a−b|), which has 59 bits: its leading terms are sums of two numbers. Not if the result is [`tiny`].
#[inline(always)]
fn in_some_pairs<L: Level>(l: L, a: f64, b: f64) -> f64 {
    /// log 2 in two parts, the first of 42 bits, so that its multiples by exponents are exact.
    const PARTS: [f64; 2] = [0.693_147_180_559_890_3, 5.497_923_018_708_371e-14];
    /// (eʳ − 1 − r − r²/2)/r³ for |r| ≤ ½ log 2, the odd and the even powers.
    const EXP: [[f64; 5]; 2] = [
        [
            2.083_770_737_556_931_3e-9,
            2.755_752_481_423_327e-7,
            2.480_158_703_313_966_4e-5,
            1.388_888_888_902_551_8e-3,
            4.166_666_666_666_643_5e-2,
        ],
        [
            2.511_016_743_441_521e-8,
            2.755_724_093_173_016_4e-6,
            1.984_126_988_935_672_3e-4,
            8.333_333_333_320_42e-3,
            0.166_666_666_666_666_77,
        ],
    ];
    /// (2·artanh s − 2s)/s³ for |s| up to 0.172, the powers of s² that are odd and even.
    const ARTANH: [[f64; 4]; 2] = [
        [
            0.132_399_624_989_215_04,
            0.153_870_203_609_094_4,
            0.222_222_226_194_168_04,
            0.400_000_000_000_053_65,
        ],
        [
            0.132_515_175_542_743_47,
            0.181_817_775_226_948_53,
            0.285_714_285_693_071_8,
            0.666_666_666_666_666_6,
        ],
    ];
    let (more, less) = if a > b { (a, b) } else { (b, a) };
    // The difference, and what rounding it lost (Knuth's two-sum); there are infinities among smaller ones.
    let difference = less - more;
    let part = difference - less;
    let lost = (less - (difference - part)) - (more + part);
    let lost = if difference > LEAST { lost } else { 0.0 };
    let difference = if difference < LEAST { LEAST } else { difference };
    // That of equal infinities would be NaN.
    let difference = if a == b { 0.0 } else { difference };

    // Its power 2ⁿ·eʳ with eʳ = 1 + r + r²/2 + …
    let shifted = l.fma_double(difference, LOG2_E, BIASED_ROUNDER);
    let n = shifted - BIASED_ROUNDER;
    let r = l.fma_double(n, -PARTS[0], difference);
    let r_rest = l.fma_double(n, -PARTS[1], lost);
    let square = r * r;
    let square_rest = r.mul_add(r, -square);
    let linear = 1.0 + r;
    let linear_rest = r - (linear - 1.0);
    let start = l.fma_double(square, 0.5, linear);
    let start_rest = l.fma_double(square, 0.5, linear - start);
    let (odd, even) = (polynomial(l, square, EXP[0]), polynomial(l, square, EXP[1]));
    let cubic = square * r * l.fma_double(odd, r, even);
    let rest = l.fma_double(r_rest, start + cubic, l.fma_double(square_rest, 0.5, linear_rest + start_rest));
    let rest = cubic + rest;
    let power = start + rest;
    let power_rest = rest - (power - start);
    let scale = f64::from_bits(shifted.to_bits() << 52);
    let (e, e_rest) = (power * scale, power_rest * scale);

    // log(1 + e) = log 2ᵐ + log(1 + f) = log 2ᵐ + 2·artanh s with s = f/(2 + f).
    let sum = 1.0 + e;
    let sum_rest = (e - (sum - 1.0)) + e_rest;
    let is_large = sum > SQRT_2;
    let (f, f_rest) = if is_large { (sum * 0.5 - 1.0, sum_rest * 0.5) } else { (e, e_rest) };
    let (base, base_rest) = if is_large { (Pair::LN_2.high, Pair::LN_2.low) } else { (0.0, 0.0) };
    let divisor = 2.0 + f;
    let divisor_rest = (f - (divisor - 2.0)) + f_rest;
    let s = f / divisor;
    let left = l.fma_double(-s, divisor_rest, f_rest + (-s).mul_add(divisor, f));
    // Twice what is left over the divisor, which is (1 − s)/2.
    let s_rest = l.fma_double(-left, s, left);
    let z = s * s;
    let w = z * z;
    let (odd, even) = (polynomial(l, w, ARTANH[0]), polynomial(l, w, ARTANH[1]));
    let cubic = s * z * l.fma_double(odd, z, even);
    let double = s + s;
    let log = base + double;
    let log_rest = (double - (log - base)) + base_rest + l.fma_double(s_rest, z, s_rest) + cubic;

    let total = more + log;
    let part = total - more;
    let total_rest = (more - (total - part)) + (log - part);
    // What is left of infinity is NaN.
    if total.abs() < f64::INFINITY { total + (total_rest + log_rest) } else { total }
}

/// The sum of the larger, whose power is 1 more than it, and the power of the other, which is below the normal range or near that.
#[cold]
#[inline(never)]
fn tiny(more: f64, less: f64) -> f64 {
    let power = less.exp();
    let sum = more + power;
    if sum.abs() * 2.0 < power { in_fractions(more, less) } else { sum }
}

/// log1p(eᵃ + eᵇ − 1) in pairs, with 69 bits of the larger term, free of branches; NaN where too many of these cancel, or the last are
/// below the range.
#[inline(always)]
fn in_pairs<L: Level>(l: L, a: f64, b: f64) -> f64 {
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
    let result = precise::ln(l, sum) + (excess - (sum - 1.0)) / sum;
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

//! `a·b + c` rounded once, on CPUs that have no instruction for it.
//!
//! ggml's kernels fuse, so equality with it to the last bit needs fused products everywhere. The C library's `fmaf` is
//! exact too, but where there is no instruction it is hundreds of times slower, and no loop over it becomes vector code.
//!
//! The product of two `f32` is exact in `f64`. What is left is to round its sum with `c` once instead of twice, to `f64`
//! and then to `f32`.

/// Whether every CPU of the target has the instruction.
pub(crate) const INSTRUCTION: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// `a·b + c`, rounded once. Free of branches, so that loops over it become vector code.
#[inline(always)]
pub(crate) fn mul_add(a: f32, b: f32, c: f32) -> f32 {
    if INSTRUCTION { a.mul_add(b, c) } else { round_to_odd(a, b, c) as f32 }
}

/// [`mul_add`] in each lane.
#[inline(always)]
pub(crate) fn mul_add_lanes<const N: usize>(a: &[f32; N], b: &[f32; N], c: &mut [f32; N]) {
    if INSTRUCTION {
        for i in 0..N {
            c[i] = a[i].mul_add(b[i], c[i]);
        }
    } else if let Some(sums) = round_twice(a, b, c) {
        *c = sums;
    } else {
        each(a, b, c);
    }
}

/// Kept out of the loops that call it: it is needed for one sum in millions.
#[cold]
#[inline(never)]
fn each<const N: usize>(a: &[f32; N], b: &[f32; N], c: &mut [f32; N]) {
    for i in 0..N {
        c[i] = mul_add(a[i], b[i], c[i]);
    }
}

/// `a·b + c` such that rounding it to `f32` gives what rounding the exact sum would: if it is not exact, the neighbour in
/// `f64` with an odd last bit, which is never halfway between two `f32` (Boldo and Melquiond: *Emulation of a FMA and
/// correctly rounded sums*, 2008). Neither is it where the result is subnormal, which has fewer bits still.
#[inline(always)]
fn round_to_odd(a: f32, b: f32, c: f32) -> f64 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    // What rounding took away (Knuth's TwoSum); NaN beside infinities. Nothing here can overflow or be subnormal.
    let part = sum - product;
    let lost = (product - (sum - part)) + (c - part);
    let bits = sum.to_bits();
    // Away from zero if what was lost has the sign of the sum.
    let step = 1u64.wrapping_sub((bits ^ lost.to_bits()) >> 63 << 1);
    let inexact = if lost.abs() > 0.0 { u64::MAX } else { 0 };
    let even = (bits & 1).wrapping_sub(1);
    f64::from_bits(bits.wrapping_add(step & inexact & even))
}

/// `a·b + c` by way of the nearest `f64`, unless rounding twice might show in some lane: where the `f64` lies halfway
/// between two `f32`, and where the result is subnormal, in which halfway is elsewhere.
#[inline(always)]
fn round_twice<const N: usize>(a: &[f32; N], b: &[f32; N], c: &[f32; N]) -> Option<[f32; N]> {
    const BELOW: u32 = (1 << 29) - 1;
    const HALFWAY: u32 = 1 << 28;
    const LEAST_NORMAL: u32 = 1 << 23;
    let (mut out, mut doubt) = ([0.0; N], false);
    for i in 0..N {
        let sum = f64::from(a[i]) * f64::from(b[i]) + f64::from(c[i]);
        out[i] = sum as f32;
        // Zero is no doubtful case: a sum that is not zero is too small for `f32` only if it is exact.
        let tiny = out[i].abs().to_bits().wrapping_sub(1) < LEAST_NORMAL;
        doubt |= tiny | (sum.to_bits() as u32 & BELOW == HALFWAY);
    }
    if doubt { None } else { Some(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: f32, b: f32, c: f32) {
        let want = a.mul_add(b, c);
        let same = |got: f32| got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
        // The emulation itself, also where the target has the instruction.
        let one = round_to_odd(a, b, c) as f32;
        assert!(same(one), "{a:e} · {b:e} + {c:e}: {one:e}, not {want:e}");
        if let Some([two]) = round_twice(&[a], &[b], &[c]) {
            assert!(same(two), "{a:e} · {b:e} + {c:e}: {two:e} by rounding twice, not {want:e}");
        }
        let mut lanes = [c; 3];
        mul_add_lanes(&[a; 3], &[b; 3], &mut lanes);
        assert!(lanes.into_iter().all(same) && same(mul_add(a, b, c)), "{a:e} · {b:e} + {c:e}: {lanes:?}");
    }

    /// SplitMix64.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ z >> 31
        }

        /// A number of `bits` significant bits and an exponent from -`spread` to `spread` around `center`.
        fn number(&mut self, bits: u32, center: i32, spread: i32) -> f32 {
            let r = self.next();
            let mantissa = (r as u32 >> 9) >> (24 - bits) << (24 - bits);
            let exponent = center + (r >> 32) as i32 % (spread + 1);
            let magnitude = (1.0 + f64::from(mantissa) / f64::from(1 << 23)) * 2f64.powi(exponent);
            (if r >> 63 == 0 { magnitude } else { -magnitude }) as f32
        }
    }

    #[test]
    fn any_bits() {
        let mut random = Random(1);
        for _ in 0..2_000_000 {
            let (x, y) = (random.next(), random.next());
            check(f32::from_bits(x as u32), f32::from_bits((x >> 32) as u32), f32::from_bits(y as u32));
        }
    }

    #[test]
    fn near_halfway() {
        // Sums of a few bits far apart: they fall on and just beside the middle between two results.
        let mut random = Random(2);
        for round in 0..3_000_000 {
            let bits = 1 + round % 24;
            let a = random.number(bits, 0, 12);
            let b = random.number(1 + round / 24 % 24, 0, 12);
            check(a, b, random.number(bits, 0, 40));
            // The last bit of `c` or half of it, and a bit far below.
            let c = random.number(24, 0, 3);
            let tie = 2f32.powi(-24) * if round % 2 == 0 { 1.0 } else { -1.0 };
            check(tie, 1.0 + a * 2f32.powi(-30), c);
            check(f32::from_bits(tie.to_bits() + round % 3), f32::from_bits(0x3F80_0000 - round % 5), c);
        }
    }

    #[test]
    fn near_underflow_and_overflow() {
        let mut random = Random(3);
        for round in 0..2_000_000 {
            let bits = 1 + round % 24;
            check(random.number(bits, -63, 14), random.number(24, -63, 14), random.number(24, -138, 14));
            check(random.number(bits, 63, 3), random.number(24, 63, 3), random.number(bits, 126, 4));
            check(random.number(24, -75, 2), random.number(bits, -75, 2), random.number(24, -127, 3));
        }
        // Half of the last bit of subnormal numbers, a little less than it (1 − 2⁻⁴⁶ halves, which `f64` beside `c` does
        // not see), and a little more.
        let [less, one, more] =
            [0x3F7F_FFFE, 0x3F80_0000, 0x3F80_0001].map(|bits| f32::from_bits(bits) * 2f32.powi(-75));
        for c in [0x0040_0000, 0x0040_0001, 0x007F_FFFF, 0x0080_0000].map(f32::from_bits) {
            for (a, b) in [(one, one), (less, more), (one, less), (one, more)] {
                for (b, c) in [(b, c), (-b, c), (b, -c), (-b, -c)] {
                    check(a, b, c);
                }
            }
        }
    }

    #[test]
    fn special_numbers() {
        let least = f32::from_bits(1);
        let all = [0.0, 1.0, least, f32::MIN_POSITIVE, 0.1, f32::EPSILON, f32::MAX, f32::INFINITY, f32::NAN];
        let all = all.map(|x| [x, -x]).concat();
        for &a in &all {
            for &b in &all {
                for &c in &all {
                    check(a, b, c);
                }
            }
        }
    }
}

//! Sums of products of 8-bit integers. The instructions of the dotprod and i8mm extensions are written in assembly: their intrinsics
//! are newer than the oldest compiler that builds this crate.

use std::arch::aarch64::*;
use std::arch::asm;

/// How the products of sixteen codes and sixteen activations are summed. The sums are exact, so all ways have the same results.
pub(super) trait Dot {
    /// Adds the four products of each lane of 32 bits to it.
    ///
    /// # Safety
    /// The CPU has the instructions, as in all functions here.
    unsafe fn dot(acc: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t;

    /// Adds sixteen products to the four lanes, no matter which to which.
    ///
    /// # Safety
    /// As above.
    unsafe fn sum(acc: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t;

    /// [`dot`](Self::dot), with lane `I` of `b` for every lane of `a`.
    ///
    /// # Safety
    /// As above.
    unsafe fn dot_lane<const I: usize>(acc: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t;
}

/// The instructions of every 64-bit Arm CPU.
pub(super) struct Neon;

impl Dot for Neon {
    #[inline(always)]
    unsafe fn dot(acc: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: this function's contract. A product of two 8-bit integers fits into 16 bits, and sums of two into 32.
        unsafe {
            let low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
            let high = vpaddlq_s16(vmull_high_s8(a, b));
            vaddq_s32(acc, vpaddq_s32(low, high))
        }
    }

    #[inline(always)]
    unsafe fn sum(acc: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: as above.
        unsafe {
            let acc = vpadalq_s16(acc, vmull_s8(vget_low_s8(a), vget_low_s8(b)));
            vpadalq_s16(acc, vmull_high_s8(a, b))
        }
    }

    #[inline(always)]
    unsafe fn dot_lane<const I: usize>(acc: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: as above.
        unsafe {
            let b = vreinterpretq_s32_s8(b);
            let four = match I {
                0 => vdupq_laneq_s32::<0>(b),
                1 => vdupq_laneq_s32::<1>(b),
                2 => vdupq_laneq_s32::<2>(b),
                _ => vdupq_laneq_s32::<3>(b),
            };
            Self::dot(acc, a, vreinterpretq_s8_s32(four))
        }
    }
}

/// `sdot`.
pub(super) struct Dotprod;

impl Dot for Dotprod {
    #[inline(always)]
    unsafe fn dot(acc: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: this function's contract.
        unsafe { sdot(acc, a, b) }
    }

    #[inline(always)]
    unsafe fn sum(acc: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: this function's contract.
        unsafe { sdot(acc, a, b) }
    }

    #[inline(always)]
    unsafe fn dot_lane<const I: usize>(acc: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: this function's contract.
        unsafe { sdot_lane::<I>(acc, a, b) }
    }
}

/// `vdotq_s32`.
///
/// # Safety
/// The CPU has dotprod.
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn sdot(acc: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let mut sum = acc;
    // SAFETY: the instruction, which this function's contract says the CPU has, changes nothing but the register that is named.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// `vdotq_laneq_s32`.
///
/// # Safety
/// The CPU has dotprod.
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn sdot_lane<const I: usize>(acc: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    const { assert!(I < 4) };
    let mut sum = acc;
    // SAFETY: as above.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {a:v}.16b, {b:v}.4b[{i}]",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            i = const I,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// `vmmlaq_s32`: adds the products of two rows of eight with two rows of eight, the sums of the first row of `a` first.
///
/// # Safety
/// The CPU has i8mm.
#[inline]
#[target_feature(enable = "neon,i8mm")]
pub(super) unsafe fn smmla(acc: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let mut sum = acc;
    // SAFETY: as above.
    unsafe {
        asm!(
            "smmla {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

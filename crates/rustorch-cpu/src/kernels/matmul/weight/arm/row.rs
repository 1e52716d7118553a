//! One row of activations times four rows of blocks in place: the kernel of generation, which reads each weight once.

use super::codes::{Vectored, load_signed, raise};
use super::dot::Dot;
use crate::kernels::matmul::weight::activation::Row;
use crate::kernels::matmul::weight::types::{Kind, Weight};
use crate::kernels::matmul::weight::{ROWS, lanes};
use std::arch::aarch64::*;

/// Four rows of blocks times one row of activations.
///
/// # Safety
/// The CPU has the instructions of `D`. Each pointer has `k` values in blocks of `W`.
#[inline(always)]
pub(super) unsafe fn rows<W: Vectored, D: Dot>(
    w: [*const u8; ROWS],
    k: usize,
    x: &Row<'_>,
    out: &mut [f32; ROWS],
) {
    let w = [w[0].cast::<W>(), w[1].cast::<W>(), w[2].cast::<W>(), w[3].cast::<W>()];
    // SAFETY: this function's contract; a row of activations has `k` codes and the scales and sums that go with them.
    unsafe {
        match W::KIND {
            Kind::Blocks => blocks::<W, D>(w, k / 32, x, out),
            Kind::Integer => superblocks::<W, D>(w, k / 256, x, out),
            Kind::LaneBlocks => lane_blocks::<W, D>(w, k / 32, x, out),
            Kind::Lanes => lane_superblocks::<W, D>(w, k / 256, x, out),
            Kind::Groups => unreachable!("these types have no vector code"),
        }
    }
}

/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn blocks<W: Vectored, D: Dot>(w: [*const W; ROWS], n: usize, x: &Row<'_>, out: &mut [f32; ROWS]) {
    // SAFETY: this function's contract.
    unsafe {
        let mut acc = vdupq_n_f32(0.0);
        for b in 0..n {
            let w = [&*w[0].add(b), &*w[1].add(b), &*w[2].add(b), &*w[3].add(b)];
            let q = load_signed(x.qs.as_ptr().add(32 * b));
            let mut sums = [vdupq_n_s32(0); ROWS];
            for r in 0..ROWS {
                let codes = w[r].codes(0);
                sums[r] = D::sum(D::sum(sums[r], codes[0], q[0]), codes[1], q[1]);
            }
            let (dw, mw) = W::factors4(w);
            let d = vmulq_n_f32(dw, *x.d.as_ptr().add(b));
            acc = vfmaq_f32(acc, vcvtq_f32_s32(reduce(sums)), d);
            if W::MINS {
                acc = vfmaq_n_f32(acc, mw, *x.s.as_ptr().add(b));
            }
        }
        vst1q_f32(out.as_mut_ptr(), acc);
    }
}

/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn superblocks<W: Vectored, D: Dot>(
    w: [*const W; ROWS],
    n: usize,
    x: &Row<'_>,
    out: &mut [f32; ROWS],
) {
    // SAFETY: this function's contract.
    unsafe {
        let (mut acc, mut low) = (vdupq_n_f32(0.0), vdupq_n_f32(0.0));
        for b in 0..n {
            let w = [&*w[0].add(b), &*w[1].add(b), &*w[2].add(b), &*w[3].add(b)];
            let (mut sums, mut mins) = ([vdupq_n_s32(0); ROWS], [vdupq_n_s32(0); ROWS]);
            for r in 0..ROWS {
                let (scales, minima) = w[r].scales();
                sums[r] = superblock::<W, D>(w[r], x, b, &scales);
                if W::MINS {
                    mins[r] = group_sums::<W>(&minima, x, b);
                }
            }
            let (dw, mw) = W::factors4(w);
            let dx = *x.d.as_ptr().add(b);
            acc = vfmaq_f32(acc, vcvtq_f32_s32(reduce(sums)), vmulq_n_f32(dw, dx));
            if W::MINS {
                low = vfmaq_f32(low, vcvtq_f32_s32(reduce(mins)), vmulq_n_f32(mw, dx));
            }
        }
        vst1q_f32(out.as_mut_ptr(), if W::MINS { vsubq_f32(acc, low) } else { acc });
    }
}

/// Four lanes whose sum is `Σ sc·Σ q·x` over 256 values.
///
/// # Safety
/// As [`rows`]; `x` has block `b`.
#[inline(always)]
unsafe fn superblock<W: Vectored, D: Dot>(w: &W, x: &Row<'_>, b: usize, scales: &[i8; 16]) -> int32x4_t {
    // SAFETY: this function's contract.
    unsafe {
        let scales = widen(scales);
        let mut sum = vdupq_n_s32(0);
        unrolled!(I in 0 1 2 3 4 5 6 7 => {
            let q = load_signed(x.qs.as_ptr().add(256 * b + 32 * I));
            let codes = w.codes(I);
            let first = D::sum(vdupq_n_s32(0), codes[0], q[0]);
            if W::GROUP == 32 {
                sum = vmlaq_n_s32(sum, D::sum(first, codes[1], q[1]), scales[I]);
            } else {
                let second = D::sum(vdupq_n_s32(0), codes[1], q[1]);
                sum = vmlaq_n_s32(sum, first, scales[2 * I]);
                sum = vmlaq_n_s32(sum, second, scales[2 * I + 1]);
            }
        });
        sum
    }
}

/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn lane_blocks<W: Vectored, D: Dot>(
    w: [*const W; ROWS],
    n: usize,
    x: &Row<'_>,
    out: &mut [f32; ROWS],
) {
    // SAFETY: this function's contract.
    unsafe {
        let (mut acc, mut min) = ([[vdupq_n_f32(0.0); 2]; ROWS], vdupq_n_f32(0.0));
        for b in 0..n {
            let w = [&*w[0].add(b), &*w[1].add(b), &*w[2].add(b), &*w[3].add(b)];
            let q = load_signed(x.qs.as_ptr().add(32 * b));
            let (dw, mw) = W::factors4(w);
            let d = vmulq_n_f32(dw, *x.d.as_ptr().add(b));
            let d = [
                vdupq_laneq_f32::<0>(d),
                vdupq_laneq_f32::<1>(d),
                vdupq_laneq_f32::<2>(d),
                vdupq_laneq_f32::<3>(d),
            ];
            for r in 0..ROWS {
                let codes = w[r].codes(0);
                for h in 0..2 {
                    let sums = D::dot(vdupq_n_s32(0), codes[h], q[h]);
                    acc[r][h] = vfmaq_f32(acc[r][h], vcvtq_f32_s32(sums), d[r]);
                }
            }
            if W::MINS {
                min = vfmaq_n_f32(min, mw, *x.s.as_ptr().add(b));
            }
        }
        finish::<W>(acc, min, out);
    }
}

/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn lane_superblocks<W: Vectored, D: Dot>(
    w: [*const W; ROWS],
    n: usize,
    x: &Row<'_>,
    out: &mut [f32; ROWS],
) {
    // SAFETY: this function's contract.
    unsafe {
        let (mut acc, mut min) = ([[vdupq_n_f32(0.0); 2]; ROWS], vdupq_n_f32(0.0));
        for b in 0..n {
            let w = [&*w[0].add(b), &*w[1].add(b), &*w[2].add(b), &*w[3].add(b)];
            let (dw, mw) = W::factors4(w);
            let dx = *x.d.as_ptr().add(b);
            let mut d = [0.0; ROWS];
            vst1q_f32(d.as_mut_ptr(), vmulq_n_f32(dw, dx));
            let mut mins = [vdupq_n_s32(0); ROWS];
            for r in 0..ROWS {
                let (scales, minima) = w[r].scales();
                let sums = lane_superblock::<W, D>(w[r], x, b, &scales);
                for h in 0..2 {
                    acc[r][h] = vfmaq_n_f32(acc[r][h], vcvtq_f32_s32(sums[h]), d[r]);
                }
                if W::MINS {
                    mins[r] = group_sums::<W>(&minima, x, b);
                }
            }
            if W::MINS {
                min = vfmsq_f32(min, vcvtq_f32_s32(reduce(mins)), vmulq_n_f32(mw, dx));
            }
        }
        finish::<W>(acc, min, out);
    }
}

/// The eight lanes of `Σ sc·q·x` over 256 values.
///
/// # Safety
/// As [`rows`]; `x` has block `b`.
#[inline(always)]
unsafe fn lane_superblock<W: Vectored, D: Dot>(
    w: &W,
    x: &Row<'_>,
    b: usize,
    scales: &[i8; 16],
) -> [int32x4_t; 2] {
    // SAFETY: this function's contract.
    unsafe {
        let mut sums = if W::GROUP_OFFSET { group_offsets::<W>(scales, x, b) } else { [vdupq_n_s32(0); 2] };
        let scales = widen(scales);
        let raise = vdupq_n_s8(raise::<W>());
        unrolled!(I in 0 1 2 3 4 5 6 7 => {
            let q = load_signed(x.qs.as_ptr().add(256 * b + 32 * I));
            let codes = w.codes(I);
            let [first, second] = if W::GROUP == 32 { [I; 2] } else { [2 * I, 2 * I + 1] };
            let low = D::dot(vdupq_n_s32(0), vaddq_s8(codes[0], raise), q[0]);
            let high = D::dot(vdupq_n_s32(0), vaddq_s8(codes[1], raise), q[1]);
            sums[0] = vmlaq_n_s32(sums[0], low, scales[first]);
            sums[1] = vmlaq_n_s32(sums[1], high, scales[second]);
        });
        sums
    }
}

/// What lanes take back of the offset: lane `l` that of groups `2l` and `2l + 1`.
///
/// # Safety
/// As [`rows`]; `x` has block `b`, and the type groups of 16.
#[inline(always)]
unsafe fn group_offsets<W: Weight>(scales: &[i8; 16], x: &Row<'_>, b: usize) -> [int32x4_t; 2] {
    const { assert!(!W::GROUP_OFFSET || W::GROUP == 16) };
    // SAFETY: this function's contract.
    unsafe {
        let scales = vld1q_s8(scales.as_ptr());
        let offset = vdup_n_s8((W::OFFSET as i8).wrapping_neg());
        let factors = [vmull_s8(vget_low_s8(scales), offset), vmull_s8(vget_high_s8(scales), offset)];
        let mut sums = [vdupq_n_s32(0); 2];
        for h in 0..2 {
            let groups = vld1q_s16(x.sums16.as_ptr().add(16 * b + 8 * h));
            let low = vmull_s16(vget_low_s16(factors[h]), vget_low_s16(groups));
            sums[h] = vpaddq_s32(low, vmull_high_s16(factors[h], groups));
        }
        sums
    }
}

/// Four lanes whose sum is `Σ mn·Σ x` over 256 values.
///
/// # Safety
/// `x` has block `b`.
#[inline(always)]
unsafe fn group_sums<W: Weight>(mins: &[i8; 16], x: &Row<'_>, b: usize) -> int32x4_t {
    // SAFETY: this function's contract.
    unsafe {
        let mins = vld1q_s8(mins.as_ptr());
        let first = vmovl_s8(vget_low_s8(mins));
        if W::GROUP == 32 {
            multiply(vdupq_n_s32(0), first, x.sums32.as_ptr().add(8 * b))
        } else {
            let groups = x.sums16.as_ptr().add(16 * b);
            let sums = multiply(vdupq_n_s32(0), first, groups);
            multiply(sums, vmovl_high_s8(mins), groups.add(8))
        }
    }
}

/// Adds eight products.
///
/// # Safety
/// Eight sums can be read.
#[inline(always)]
unsafe fn multiply(acc: int32x4_t, factors: int16x8_t, sums: *const i16) -> int32x4_t {
    // SAFETY: this function's contract.
    unsafe {
        let sums = vld1q_s16(sums);
        vmlal_high_s16(vmlal_s16(acc, vget_low_s16(factors), vget_low_s16(sums)), factors, sums)
    }
}

/// Sixteen scales in 32 bits.
#[inline(always)]
fn widen(scales: &[i8; 16]) -> [i32; 16] {
    let mut wide = [0; 16];
    // SAFETY: every 64-bit Arm CPU has NEON; loads and stores are of sixteen scales.
    unsafe {
        let scales = vld1q_s8(scales.as_ptr());
        let (low, high) = (vmovl_s8(vget_low_s8(scales)), vmovl_high_s8(scales));
        vst1q_s32(wide.as_mut_ptr(), vmovl_s16(vget_low_s16(low)));
        vst1q_s32(wide.as_mut_ptr().add(4), vmovl_high_s16(low));
        vst1q_s32(wide.as_mut_ptr().add(8), vmovl_s16(vget_low_s16(high)));
        vst1q_s32(wide.as_mut_ptr().add(12), vmovl_high_s16(high));
    }
    wide
}

/// The sums of the lanes of each of four registers.
#[inline(always)]
fn reduce([a, b, c, d]: [int32x4_t; 4]) -> int32x4_t {
    // SAFETY: every 64-bit Arm CPU has NEON.
    unsafe { vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d)) }
}

/// The results, from their lanes and their minima.
#[inline(always)]
fn finish<W: Weight>(acc: [[float32x4_t; 2]; ROWS], min: float32x4_t, out: &mut [f32; ROWS]) {
    let (mut sums, mut mins) = ([[0.0; 8]; ROWS], [0.0; ROWS]);
    // SAFETY: every 64-bit Arm CPU has NEON; stores are of four floats each.
    unsafe {
        vst1q_f32(mins.as_mut_ptr(), min);
        for r in 0..ROWS {
            vst1q_f32(sums[r].as_mut_ptr(), acc[r][0]);
            vst1q_f32(sums[r].as_mut_ptr().add(4), acc[r][1]);
        }
    }
    for r in 0..ROWS {
        out[r] = lanes::finish::<W>(lanes::sum(sums[r]), mins[r]);
    }
}

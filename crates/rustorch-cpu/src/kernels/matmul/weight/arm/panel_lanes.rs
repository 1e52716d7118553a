//! Unpacked chunks, whose codes are signed, times panels, with eight sums for each result.

use super::dot::Dot;
use super::panel::{QUARTERS, add_groups, add_product, floats, four, quarters};
use crate::kernels::matmul::weight::activation::PanelChunk;
use crate::kernels::matmul::weight::chunk::{CHUNK, Chunk};
use crate::kernels::matmul::weight::types::{Kind, Weight};
use crate::kernels::matmul::weight::{Acc, LANE_ACCS, ROWS};
use std::arch::aarch64::*;

/// Four chunks times panels; continues the sums in `acc`: for each panel, those of eight lanes and the minima.
///
/// # Safety
/// The CPU has the instructions of `D`. Pointers are valid, the chunks are those of `W`, with signed codes.
#[inline(always)]
pub(super) unsafe fn panels<W: Weight, D: Dot>(
    w: *const Chunk,
    x: &[*const PanelChunk],
    n32: usize,
    acc: *mut Acc,
) {
    let mut p = 0;
    while p < x.len() {
        // SAFETY: this function's contract.
        unsafe {
            let (x, accs) = (&*x[p], acc.add(p * LANE_ACCS));
            match W::KIND {
                Kind::LaneBlocks => blocks::<W, D>(w, x, n32, accs),
                _ => superblock::<W, D>(w, x, accs),
            }
        }
        p += 1;
    }
}

/// Codes `4 * i..4 * i + 4` of row `r`, for every row of activations.
///
/// # Safety
/// There are four chunks; `i` is less than 64.
#[inline(always)]
unsafe fn code(w: *const Chunk, r: usize, i: usize) -> int8x16_t {
    // SAFETY: this function's contract; codes begin where a chunk does, which is aligned.
    unsafe { vreinterpretq_s8_s32(vdupq_n_s32((&raw const (*w.add(r)).codes).cast::<i32>().add(i).read())) }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn blocks<W: Weight, D: Dot>(w: *const Chunk, x: &PanelChunk, n32: usize, accs: *mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        let mut d = [[[vdupq_n_f32(0.0); QUARTERS]; ROWS]; CHUNK / 32];
        for b in 0..n32 {
            for r in 0..ROWS {
                for h in 0..QUARTERS {
                    d[b][r][h] = vmulq_n_f32(floats(&x.d[b], h), (*w.add(r)).scale[b]);
                }
            }
        }
        // A pointer, so that the loop over blocks is not unrolled by the array's length.
        let d = d.as_ptr();
        for lane in 0..8 {
            let acc = &mut *accs.add(lane);
            let mut total = [[vdupq_n_f32(0.0); QUARTERS]; ROWS];
            for r in 0..ROWS {
                for h in 0..QUARTERS {
                    total[r][h] = floats(&acc[r], h);
                }
            }
            for b in 0..n32 {
                let i = 8 * b + lane;
                let q = [four(x, i, 0), four(x, i, 1), four(x, i, 2), four(x, i, 3)];
                unrolled!(R in 0 1 2 3 => {
                    let code = code(w, R, i);
                    for h in 0..QUARTERS {
                        let sum = vcvtq_f32_s32(D::dot(vdupq_n_s32(0), q[h], code));
                        total[R][h] = vfmaq_f32(total[R][h], sum, (*d.add(b))[R][h]);
                    }
                });
            }
            for r in 0..ROWS {
                for h in 0..QUARTERS {
                    vst1q_f32(acc[r].as_mut_ptr().add(4 * h), total[r][h]);
                }
            }
        }
        if W::MINS {
            let acc = &mut *accs.add(8);
            for b in 0..n32 {
                for r in 0..ROWS {
                    let min = vdupq_n_f32((*w.add(r)).min[b]);
                    for h in 0..QUARTERS {
                        add_product(&mut acc[r], h, min, floats(&x.s[b], h));
                    }
                }
            }
        }
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn superblock<W: Weight, D: Dot>(w: *const Chunk, x: &PanelChunk, accs: *mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        let dx = quarters(&x.d[0]);
        for lane in 0..8 {
            let acc = &mut *accs.add(lane);
            let mut t = [[vdupq_n_s32(0); QUARTERS]; ROWS];
            if W::GROUP_OFFSET {
                add_groups(&mut t, w, x, lane);
            }
            for b in 0..CHUNK / 32 {
                let i = 8 * b + lane;
                let q = [four(x, i, 0), four(x, i, 1), four(x, i, 2), four(x, i, 3)];
                unrolled!(R in 0 1 2 3 => {
                    let (code, scale) = (code(w, R, i), (*w.add(R)).int_scale[4 * i / W::GROUP]);
                    for h in 0..QUARTERS {
                        t[R][h] = vmlaq_n_s32(t[R][h], D::dot(vdupq_n_s32(0), q[h], code), scale);
                    }
                });
            }
            for r in 0..ROWS {
                let d = (*w.add(r)).d;
                for h in 0..QUARTERS {
                    add_product(&mut acc[r], h, vcvtq_f32_s32(t[r][h]), vmulq_n_f32(dx[h], d));
                }
            }
        }
        if W::MINS {
            let (acc, mut t) = (&mut *accs.add(8), [[vdupq_n_s32(0); QUARTERS]; ROWS]);
            for pair in 0..CHUNK / W::GROUP / 2 {
                add_groups(&mut t, w, x, pair);
            }
            for r in 0..ROWS {
                let dmin = -(*w.add(r)).dmin;
                for h in 0..QUARTERS {
                    add_product(&mut acc[r], h, vcvtq_f32_s32(t[r][h]), vmulq_n_f32(dx[h], dmin));
                }
            }
        }
    }
}

//! Four unpacked chunks, whose codes are signed, times a panel: sixteen rows of activations in four registers.

use super::dot::{Dot, smmla};
use crate::kernels::matmul::weight::activation::{LANES, PanelChunk};
use crate::kernels::matmul::weight::chunk::{CHUNK, Chunk};
use crate::kernels::matmul::weight::types::{Kind, Weight};
use crate::kernels::matmul::weight::{Acc, ROWS, accs};
use std::arch::aarch64::*;
use std::marker::PhantomData;

/// Registers for the rows of a panel.
pub(super) const QUARTERS: usize = LANES / 4;

/// A register for each row of the weight and each quarter of a panel.
pub(super) type Tile<T> = [[T; QUARTERS]; ROWS];

/// How the products of four rows with a panel are summed.
pub(super) trait Products {
    /// The sums of products with the fours of values `first..first + FOURS`.
    ///
    /// # Safety
    /// The CPU has the instructions; pointers are valid; `FOURS` and `first` are multiples of four.
    unsafe fn products<const FOURS: usize>(w: *const Chunk, x: &PanelChunk, first: usize) -> Tile<int32x4_t>;
}

/// By [`Dot`], with four values of four rows of activations in a register.
pub(super) struct ByDot<D>(PhantomData<D>);

impl<D: Dot> Products for ByDot<D> {
    #[inline(always)]
    unsafe fn products<const FOURS: usize>(w: *const Chunk, x: &PanelChunk, first: usize) -> Tile<int32x4_t> {
        // SAFETY: this function's contract.
        unsafe {
            let mut t = [[vdupq_n_s32(0); QUARTERS]; ROWS];
            let mut i = first;
            while i < first + FOURS {
                let c = [codes(w, 0, i), codes(w, 1, i), codes(w, 2, i), codes(w, 3, i)];
                unrolled!(LANE in 0 1 2 3 => { add_lane::<D, LANE>(&mut t, c, x, i + LANE); });
                i += 4;
            }
            t
        }
    }
}

/// Adds the products with four values of a panel, lane `LANE` of four rows' codes.
///
/// # Safety
/// The CPU has the instructions of `D`; `i` is less than 64.
#[inline(always)]
unsafe fn add_lane<D: Dot, const LANE: usize>(
    t: &mut Tile<int32x4_t>,
    c: [int8x16_t; ROWS],
    x: &PanelChunk,
    i: usize,
) {
    for h in 0..QUARTERS {
        // SAFETY: this function's contract.
        unsafe {
            let q = four(x, i, h);
            for r in 0..ROWS {
                t[r][h] = D::dot_lane::<LANE>(t[r][h], q, c[r]);
            }
        }
    }
}

/// By `smmla`, with eight values of two rows in a register.
pub(super) struct ByMatrix;

impl Products for ByMatrix {
    #[inline(always)]
    unsafe fn products<const FOURS: usize>(w: *const Chunk, x: &PanelChunk, first: usize) -> Tile<int32x4_t> {
        // SAFETY: this function's contract.
        unsafe {
            // Two rows of the weight times two of activations each.
            let mut t = [[vdupq_n_s32(0); 2 * QUARTERS]; ROWS / 2];
            let mut i = first;
            while i < first + FOURS {
                let top = pair(codes(w, 0, i), codes(w, 1, i));
                let bottom = pair(codes(w, 2, i), codes(w, 3, i));
                unrolled!(HALF in 0 1 => { add_pairs(&mut t, [top[HALF], bottom[HALF]], x, i + 2 * HALF); });
                i += 4;
            }
            let mut out = [[vdupq_n_s32(0); QUARTERS]; ROWS];
            for r in 0..ROWS / 2 {
                for h in 0..QUARTERS {
                    let (a, b) = (t[r][2 * h], t[r][2 * h + 1]);
                    let (a, b) = (vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b));
                    out[2 * r][h] = vreinterpretq_s32_s64(vzip1q_s64(a, b));
                    out[2 * r + 1][h] = vreinterpretq_s32_s64(vzip2q_s64(a, b));
                }
            }
            out
        }
    }
}

/// Adds the products with eight values of a panel.
///
/// # Safety
/// The CPU has i8mm; `i` is less than 63.
#[inline(always)]
unsafe fn add_pairs(
    t: &mut [[int32x4_t; 2 * QUARTERS]; ROWS / 2],
    c: [int8x16_t; ROWS / 2],
    x: &PanelChunk,
    i: usize,
) {
    for h in 0..QUARTERS {
        // SAFETY: this function's contract.
        unsafe {
            let (a, b) = (four(x, i, h), four(x, i + 1, h));
            let (a, b) = (vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b));
            let low = vreinterpretq_s8_s32(vzip1q_s32(a, b));
            let high = vreinterpretq_s8_s32(vzip2q_s32(a, b));
            for r in 0..ROWS / 2 {
                t[r][2 * h] = smmla(t[r][2 * h], c[r], low);
                t[r][2 * h + 1] = smmla(t[r][2 * h + 1], c[r], high);
            }
        }
    }
}

/// The first eight values of two rows, then the second eight.
#[inline(always)]
fn pair(a: int8x16_t, b: int8x16_t) -> [int8x16_t; 2] {
    // SAFETY: every 64-bit Arm CPU has NEON.
    unsafe {
        let (a, b) = (vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b));
        [vreinterpretq_s8_s64(vzip1q_s64(a, b)), vreinterpretq_s8_s64(vzip2q_s64(a, b))]
    }
}

/// Codes `4 * i..4 * i + 16` of row `r`.
///
/// # Safety
/// There are four chunks; `i` is at most 60.
#[inline(always)]
unsafe fn codes(w: *const Chunk, r: usize, i: usize) -> int8x16_t {
    // SAFETY: this function's contract.
    unsafe { vld1q_s8((&raw const (*w.add(r)).codes).cast::<i8>().add(4 * i)) }
}

/// Values `4 * i..4 * i + 4` of a quarter of the rows of a panel.
///
/// # Safety
/// `i` is less than 64, and `h` than four.
#[inline(always)]
pub(super) unsafe fn four(x: &PanelChunk, i: usize, h: usize) -> int8x16_t {
    // SAFETY: this function's contract.
    unsafe { vld1q_s8(x.qs.as_ptr().add(i).cast::<i8>().add(16 * h)) }
}

/// The floats of a quarter of a panel.
#[inline(always)]
pub(super) fn floats(row: &[f32; LANES], h: usize) -> float32x4_t {
    let (quarters, _) = row.as_chunks::<4>();
    // SAFETY: four floats.
    unsafe { vld1q_f32(quarters[h].as_ptr()) }
}

/// The floats of a panel.
#[inline(always)]
pub(super) fn quarters(row: &[f32; LANES]) -> [float32x4_t; QUARTERS] {
    [floats(row, 0), floats(row, 1), floats(row, 2), floats(row, 3)]
}

/// Adds a product to the floats of a quarter of a panel.
///
/// # Safety
/// `h` is less than four.
#[inline(always)]
pub(super) unsafe fn add_product(row: &mut [f32; LANES], h: usize, a: float32x4_t, b: float32x4_t) {
    // SAFETY: this function's contract.
    unsafe {
        let at = row.as_mut_ptr().add(4 * h);
        vst1q_f32(at, vfmaq_f32(vld1q_f32(at), a, b));
    }
}

/// Four chunks times panels; continues the sums in `acc`.
///
/// # Safety
/// The CPU has the instructions of `P`. Pointers are valid, the chunks are those of `W`, with signed codes.
#[inline(always)]
pub(super) unsafe fn panels<W: Weight, P: Products>(
    w: *const Chunk,
    x: &[*const PanelChunk],
    n32: usize,
    acc: *mut Acc,
) {
    let mut p = 0;
    while p < x.len() {
        // SAFETY: this function's contract.
        unsafe {
            let (x, accs) = (&*x[p], acc.add(p * accs::<W>()));
            match W::KIND {
                Kind::Blocks => blocks::<W, P>(w, x, n32, &mut *accs),
                Kind::Integer => integer::<W, P>(w, x, accs),
                Kind::Groups => groups::<W, P>(w, x, n32, &mut *accs),
                Kind::LaneBlocks | Kind::Lanes => unreachable!("these kinds have kernels of their own"),
            }
        }
        p += 1;
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn blocks<W: Weight, P: Products>(w: *const Chunk, x: &PanelChunk, n32: usize, acc: &mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        for g in 0..n32 {
            let t = P::products::<8>(w, x, 8 * g);
            let dx = quarters(&x.d[g]);
            for r in 0..ROWS {
                let (scale, min) = ((*w.add(r)).scale[g], (*w.add(r)).min[g]);
                for h in 0..QUARTERS {
                    add_product(&mut acc[r], h, vcvtq_f32_s32(t[r][h]), vmulq_n_f32(dx[h], scale));
                    if W::MINS {
                        add_product(&mut acc[r], h, floats(&x.s[g], h), vdupq_n_f32(min));
                    }
                }
            }
        }
    }
}

/// Continues the sums in the first of `accs` and those of minima, if there are some, in the second.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn integer<W: Weight, P: Products>(w: *const Chunk, x: &PanelChunk, accs: *mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        if W::MINS {
            let (low, mut t) = (&mut *accs.add(1), [[vdupq_n_s32(0); QUARTERS]; ROWS]);
            for pair in 0..CHUNK / W::GROUP / 2 {
                add_groups(&mut t, w, x, pair);
            }
            let dx = quarters(&x.d[0]);
            for r in 0..ROWS {
                let dmin = (*w.add(r)).dmin;
                for h in 0..QUARTERS {
                    add_product(&mut low[r], h, vcvtq_f32_s32(t[r][h]), vmulq_n_f32(dx[h], dmin));
                }
            }
        }
        let mut total = [[vdupq_n_s32(0); QUARTERS]; ROWS];
        for g in 0..CHUNK / W::GROUP {
            let t =
                if W::GROUP == 16 { P::products::<4>(w, x, 4 * g) } else { P::products::<8>(w, x, 8 * g) };
            for r in 0..ROWS {
                let scale = (*w.add(r)).int_scale[g];
                for h in 0..QUARTERS {
                    total[r][h] = vmlaq_n_s32(total[r][h], t[r][h], scale);
                }
            }
        }
        let (acc, dx) = (&mut *accs, quarters(&x.d[0]));
        for r in 0..ROWS {
            let d = (*w.add(r)).d;
            for h in 0..QUARTERS {
                add_product(&mut acc[r], h, vcvtq_f32_s32(total[r][h]), vmulq_n_f32(dx[h], d));
            }
        }
    }
}

/// Adds what a pair of groups has in `int_min`.
///
/// # Safety
/// As [`panels`]; `pair` is less than eight.
#[inline(always)]
pub(super) unsafe fn add_groups(t: &mut Tile<int32x4_t>, w: *const Chunk, x: &PanelChunk, pair: usize) {
    // SAFETY: this function's contract.
    unsafe {
        for r in 0..ROWS {
            let both = (&raw const (*w.add(r)).int_min).cast::<i32>().add(pair).read_unaligned();
            let both = vreinterpretq_s16_s32(vdupq_n_s32(both));
            for h in 0..QUARTERS {
                let sums = vld1q_s16(x.sums[pair].as_ptr().cast::<i16>().add(8 * h));
                let low = vmull_s16(vget_low_s16(both), vget_low_s16(sums));
                t[r][h] = vaddq_s32(t[r][h], vpaddq_s32(low, vmull_high_s16(both, sums)));
            }
        }
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn groups<W: Weight, P: Products>(w: *const Chunk, x: &PanelChunk, n32: usize, acc: &mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        let block = W::ACTIVATION_QUANT.block();
        for b in 0..32 * n32 / block {
            let mut inner = [[vdupq_n_f32(0.0); QUARTERS]; ROWS];
            for g in b * block / 16..(b + 1) * block / 16 {
                let t = P::products::<4>(w, x, 4 * g);
                for r in 0..ROWS {
                    let scale = (*w.add(r)).scale[g];
                    for h in 0..QUARTERS {
                        inner[r][h] = vfmaq_n_f32(inner[r][h], vcvtq_f32_s32(t[r][h]), scale);
                    }
                }
            }
            for r in 0..ROWS {
                for h in 0..QUARTERS {
                    add_product(&mut acc[r], h, floats(&x.d[b], h), inner[r][h]);
                }
            }
        }
    }
}

//! Unpacked chunks times panels of sixteen rows of activations, with eight sums for each result.
//!
//! A vector of a panel holds four values of sixteen rows, which is one lane of all of them. Their sums wait in memory while
//! other lanes are worked on; over a chunk of 256 values they are in registers.

use super::dot::dpwssd;
use crate::kernels::matmul::weight::activation::PanelChunk;
use crate::kernels::matmul::weight::chunk::{CHUNK, Chunk, small};
use crate::kernels::matmul::weight::types::{Kind, Weight};
use crate::kernels::matmul::weight::{Acc, LANE_ACCS, ROWS};
use std::arch::x86_64::*;

/// Four chunks times one or two panels; continues the sums in `acc`: for each panel, those of eight lanes and the minima.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VNNI. Pointers are valid, the chunks are those of `W`.
#[inline(always)]
pub(super) unsafe fn panels<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        let mut at = 0;
        while at + 2 <= x.len() {
            tile::<W, 2>(w, [x[at], x[at + 1]], n32, acc.add(at * LANE_ACCS));
            at += 2;
        }
        if at < x.len() {
            tile::<W, 1>(w, [x[at]], n32, acc.add(at * LANE_ACCS));
        }
    }
}

/// A register for each row of `W` and each panel.
type Tile<T, const C: usize> = [[T; C]; ROWS];

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn tile<W: Weight, const C: usize>(
    w: *const Chunk,
    x: [*const PanelChunk; C],
    n32: usize,
    acc: *mut Acc,
) {
    // SAFETY: this function's contract.
    unsafe {
        match W::KIND {
            Kind::LaneBlocks => blocks::<W, C>(w, x, n32, acc),
            _ => superblock::<W, C>(w, x, acc),
        }
    }
}

/// The sums of one lane of panel `c` with row `r`.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn sums(acc: *mut Acc, c: usize, lane: usize, r: usize) -> *mut f32 {
    // SAFETY: this function's contract.
    unsafe { (*acc.add(c * LANE_ACCS + lane)).0[r].as_mut_ptr() }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn blocks<W: Weight, const C: usize>(
    w: *const Chunk,
    x: [*const PanelChunk; C],
    n32: usize,
    acc: *mut Acc,
) {
    // SAFETY: this function's contract.
    unsafe {
        let mut d: [Tile<__m512, C>; CHUNK / 32] = [[[_mm512_setzero_ps(); C]; ROWS]; CHUNK / 32];
        for b in 0..n32 {
            for c in 0..C {
                let dx = _mm512_load_ps((*x[c]).d[b].as_ptr());
                for r in 0..ROWS {
                    d[b][r][c] = _mm512_mul_ps(_mm512_set1_ps((*w.add(r)).scale[b]), dx);
                }
            }
        }
        let offset = _mm512_set1_epi8(W::OFFSET as i8);
        for lane in 0..8 {
            let mut total: Tile<__m512, C> = [[_mm512_setzero_ps(); C]; ROWS];
            for r in 0..ROWS {
                for c in 0..C {
                    total[r][c] = _mm512_loadu_ps(sums(acc, c, lane, r));
                }
            }
            for b in 0..n32 {
                let i = 8 * b + lane;
                let (mut q, mut start) = ([_mm512_setzero_si512(); C], [_mm512_setzero_si512(); C]);
                for c in 0..C {
                    q[c] = _mm512_load_si512((*x[c]).qs[i].as_ptr().cast());
                    if W::OFFSET != 0 {
                        let back = _mm512_dpbusd_epi32(_mm512_setzero_si512(), offset, q[c]);
                        start[c] = _mm512_sub_epi32(_mm512_setzero_si512(), back);
                    }
                }
                for r in 0..ROWS {
                    let u = _mm512_set1_epi32((*w.add(r)).codes.as_ptr().cast::<i32>().add(i).read());
                    for c in 0..C {
                        let sum = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(start[c], u, q[c]));
                        total[r][c] = _mm512_fmadd_ps(d[b][r][c], sum, total[r][c]);
                    }
                }
            }
            for r in 0..ROWS {
                for c in 0..C {
                    _mm512_storeu_ps(sums(acc, c, lane, r), total[r][c]);
                }
            }
        }
        if W::MINS {
            for r in 0..ROWS {
                for c in 0..C {
                    let mut total = _mm512_loadu_ps(sums(acc, c, 8, r));
                    for b in 0..n32 {
                        let s = _mm512_load_ps((*x[c]).s[b].as_ptr());
                        total = _mm512_fmadd_ps(_mm512_set1_ps((*w.add(r)).min[b]), s, total);
                    }
                    _mm512_storeu_ps(sums(acc, c, 8, r), total);
                }
            }
        }
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn superblock<W: Weight, const C: usize>(w: *const Chunk, x: [*const PanelChunk; C], acc: *mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        let mut d: Tile<__m512, C> = [[_mm512_setzero_ps(); C]; ROWS];
        for r in 0..ROWS {
            for c in 0..C {
                let dx = _mm512_load_ps((*x[c]).d[0].as_ptr());
                d[r][c] = _mm512_mul_ps(_mm512_set1_ps((*w.add(r)).d), dx);
            }
        }
        for lane in 0..8 {
            let mut t: Tile<__m512i, C> = [[_mm512_setzero_si512(); C]; ROWS];
            if W::GROUP_OFFSET {
                add_groups(&mut t, w, x, lane);
            }
            if const { small::<W>() } {
                add_codes::<W, C>(&mut t, w, x, lane);
            } else {
                add_scaled(&mut t, w, x, lane);
            }
            for r in 0..ROWS {
                for c in 0..C {
                    let to = sums(acc, c, lane, r);
                    let total = _mm512_fmadd_ps(d[r][c], _mm512_cvtepi32_ps(t[r][c]), _mm512_loadu_ps(to));
                    _mm512_storeu_ps(to, total);
                }
            }
        }
        if W::MINS {
            let mut t: Tile<__m512i, C> = [[_mm512_setzero_si512(); C]; ROWS];
            for pair in 0..CHUNK / W::GROUP / 2 {
                add_groups(&mut t, w, x, pair);
            }
            for r in 0..ROWS {
                for c in 0..C {
                    let dx = _mm512_load_ps((*x[c]).d[0].as_ptr());
                    let d = _mm512_mul_ps(_mm512_set1_ps((*w.add(r)).dmin), dx);
                    let to = sums(acc, c, 8, r);
                    let total = _mm512_fnmadd_ps(d, _mm512_cvtepi32_ps(t[r][c]), _mm512_loadu_ps(to));
                    _mm512_storeu_ps(to, total);
                }
            }
        }
    }
}

/// Adds a lane's products of codes that are multiplied with their scales, `Σ (sc·q)·x`.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn add_scaled<const C: usize>(
    t: &mut Tile<__m512i, C>,
    w: *const Chunk,
    x: [*const PanelChunk; C],
    lane: usize,
) {
    // SAFETY: this function's contract.
    unsafe {
        for b in 0..CHUNK / 32 {
            let (mut even, mut odd) = ([_mm512_setzero_si512(); C], [_mm512_setzero_si512(); C]);
            for c in 0..C {
                let q = _mm512_load_si512((*x[c]).qs[8 * b + lane].as_ptr().cast());
                even[c] = _mm512_srai_epi16(_mm512_slli_epi16(q, 8), 8);
                odd[c] = _mm512_srai_epi16(q, 8);
            }
            for r in 0..ROWS {
                let scaled = &(*w.add(r)).scaled[b];
                // No closure: it would be compiled for other instructions.
                let first = _mm512_set1_epi32(scaled[0][lane].as_ptr().cast::<i32>().read_unaligned());
                let second = _mm512_set1_epi32(scaled[1][lane].as_ptr().cast::<i32>().read_unaligned());
                for c in 0..C {
                    t[r][c] = dpwssd(t[r][c], first, even[c]);
                    t[r][c] = dpwssd(t[r][c], second, odd[c]);
                }
            }
        }
    }
}

/// Adds a lane's `Σ sc·Σ q·x` of [`small`] codes, in the order of [`paired`](crate::kernels::matmul::weight::chunk::paired): sums of four
/// products are 16-bit integers, of which two are multiplied with their scales and added by one instruction.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn add_codes<W: Weight, const C: usize>(
    t: &mut Tile<__m512i, C>,
    w: *const Chunk,
    x: [*const PanelChunk; C],
    lane: usize,
) {
    // SAFETY: this function's contract.
    unsafe {
        let offset = _mm512_set1_epi8(W::OFFSET as i8);
        for p in 0..CHUNK / 64 {
            let at = [16 * p + lane, 16 * p + 8 + lane];
            let (mut q, mut back) = ([[_mm512_setzero_si512(); C]; 2], [_mm512_setzero_si512(); C]);
            for c in 0..C {
                q[0][c] = _mm512_load_si512((*x[c]).qs[at[0]].as_ptr().cast());
                q[1][c] = _mm512_load_si512((*x[c]).qs[at[1]].as_ptr().cast());
                if W::OFFSET != 0 && !W::GROUP_OFFSET {
                    back[c] = _mm512_add_epi16(
                        _mm512_maddubs_epi16(offset, q[0][c]),
                        _mm512_maddubs_epi16(offset, q[1][c]),
                    );
                }
            }
            for r in 0..ROWS {
                let codes = (*w.add(r)).codes.as_ptr().cast::<i32>();
                let u =
                    [_mm512_set1_epi32(codes.add(at[0]).read()), _mm512_set1_epi32(codes.add(at[1]).read())];
                let scales = (*w.add(r)).scale_pairs[p][lane / 4].as_ptr().cast::<i32>();
                let scales = _mm512_set1_epi32(scales.read_unaligned());
                for c in 0..C {
                    let mut sums = _mm512_add_epi16(
                        _mm512_maddubs_epi16(u[0], q[0][c]),
                        _mm512_maddubs_epi16(u[1], q[1][c]),
                    );
                    if W::OFFSET != 0 && !W::GROUP_OFFSET {
                        sums = _mm512_sub_epi16(sums, back[c]);
                    }
                    t[r][c] = dpwssd(t[r][c], sums, scales);
                }
            }
        }
    }
}

/// Adds what a pair of groups has in `int_min`.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn add_groups<const C: usize>(
    t: &mut Tile<__m512i, C>,
    w: *const Chunk,
    x: [*const PanelChunk; C],
    pair: usize,
) {
    // SAFETY: this function's contract.
    unsafe {
        for c in 0..C {
            let sums = _mm512_load_si512((*x[c]).sums[pair].as_ptr().cast());
            for r in 0..ROWS {
                let both = (*w.add(r)).int_min.as_ptr().cast::<i32>().add(pair).read_unaligned();
                t[r][c] = dpwssd(t[r][c], _mm512_set1_epi32(both), sums);
            }
        }
    }
}

/// The results of four rows of the weight and a panel, as [`finish_panel`](crate::kernels::matmul::weight::lanes::finish_panel).
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
pub(super) unsafe fn finish<W: Weight>(acc: &mut [Acc], out: &mut Acc) {
    for r in 0..ROWS {
        // SAFETY: this function's contract; sixteen floats fill a register.
        unsafe {
            let mut lanes = [_mm512_setzero_ps(); LANE_ACCS];
            for lane in 0..LANE_ACCS {
                lanes[lane] = _mm512_loadu_ps(acc[lane][r].as_ptr());
                _mm512_storeu_ps(acc[lane][r].as_mut_ptr(), _mm512_setzero_ps());
            }
            let mut pairs = [_mm512_setzero_ps(); 4];
            for lane in 0..4 {
                pairs[lane] = _mm512_add_ps(lanes[lane + 4], lanes[lane]);
            }
            let sum = _mm512_add_ps(_mm512_add_ps(pairs[0], pairs[2]), _mm512_add_ps(pairs[1], pairs[3]));
            let mut sum = _mm512_mul_ps(_mm512_set1_ps(W::FACTOR), sum);
            if W::MINS || W::PLANES > 1 {
                sum = _mm512_fmadd_ps(_mm512_set1_ps(W::MIN_FACTOR), lanes[8], sum);
            }
            _mm512_storeu_ps(out[r].as_mut_ptr(), sum);
        }
    }
}

//! Unpacked chunks times panels, with eight sums for each result: the AVX2 form of `panel512_lanes`.

use super::dot::{Avx2, AvxVnni, Dots};
use super::panel256::{HALVES, Tile, add_groups, codes, floats, ints, signed_codes, twice};
use crate::kernels::matmul::weight::activation::{LANES, PanelChunk};
use crate::kernels::matmul::weight::chunk::{CHUNK, Chunk, small};
use crate::kernels::matmul::weight::types::{Kind, Weight};
use crate::kernels::matmul::weight::x86::wide;
use crate::kernels::matmul::weight::{Acc, LANE_ACCS, ROWS};
use std::arch::x86_64::*;

/// Four chunks times panels; continues the sums in `acc`: for each panel, those of eight lanes and the minima.
///
/// # Safety
/// The CPU has AVX2 and FMA, and what `D` names. Pointers are valid, the chunks are those of `W`.
#[inline(always)]
pub(super) unsafe fn panels<W: Weight, D: Dots>(
    w: *const Chunk,
    x: &[*const PanelChunk],
    n32: usize,
    acc: *mut Acc,
) {
    // SAFETY: this function's contract.
    unsafe {
        if matches!(W::KIND, Kind::LaneBlocks) {
            let mut p = 0;
            while p < x.len() {
                let acc = acc.add(p * LANE_ACCS);
                if D::VNNI {
                    blocks_avxvnni::<W>(w, &*x[p], n32, acc);
                } else {
                    blocks_avx2::<W>(w, &*x[p], n32, acc);
                }
                p += 1;
            }
        } else {
            let mut p = 0;
            while p < x.len() {
                superblock::<W, D>(w, &*x[p], acc.add(p * LANE_ACCS));
                p += 1;
            }
        }
    }
}

/// The sums of one lane of a panel with row `r`.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn sums(acc: *mut Acc, lane: usize, r: usize, half: usize) -> *mut f32 {
    // SAFETY: this function's contract; a half begins at row 0 or 8 of 16.
    unsafe { (*acc.add(lane)).0[r].as_mut_ptr().add(half * LANES / HALVES) }
}

/// Not inlined: what panels share would be kept for the next one, in as many registers as there are codes.
///
/// # Safety
/// As [`panels`].
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
unsafe fn blocks_avx2<W: Weight>(w: *const Chunk, x: &PanelChunk, n32: usize, acc: *mut Acc) {
    // SAFETY: the contract is passed on.
    unsafe { blocks::<W, Avx2>(w, x, n32, acc) };
}

/// Not inlined, as [`blocks_avx2`].
///
/// # Safety
/// As [`panels`].
#[inline(never)]
#[target_feature(enable = "avxvnni,avx2,fma")]
unsafe fn blocks_avxvnni<W: Weight>(w: *const Chunk, x: &PanelChunk, n32: usize, acc: *mut Acc) {
    // SAFETY: the contract is passed on.
    unsafe { blocks::<W, AvxVnni>(w, x, n32, acc) };
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn blocks<W: Weight, D: Dots>(w: *const Chunk, x: &PanelChunk, n32: usize, acc: *mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        let mut d = [[[_mm256_setzero_ps(); HALVES]; ROWS]; CHUNK / 32];
        for b in 0..n32 {
            for r in 0..ROWS {
                for h in 0..HALVES {
                    d[b][r][h] = _mm256_mul_ps(_mm256_set1_ps((*w.add(r)).scale[b]), floats(&x.d[b], h));
                }
            }
        }
        // A pointer, so that the loop over blocks is not unrolled by the array's length.
        let d = d.as_ptr();
        let ones = _mm256_set1_epi16(1);
        // The bits of the float 1.5·2^23. The sum of these bits and an integer below 2^22 are those of the float 1.5·2^23 plus the integer, which
        // a subtraction makes the integer as a float: conversions would take the ports of the CPU that multiply.
        let magic = _mm256_set1_epi32(0x4b40_0000);
        for lane in 0..8 {
            let mut total = [[_mm256_setzero_ps(); HALVES]; ROWS];
            for r in 0..ROWS {
                for h in 0..HALVES {
                    total[r][h] = _mm256_loadu_ps(sums(acc, lane, r, h));
                }
            }
            for b in 0..n32 {
                let i = 8 * b + lane;
                let q = [ints(&x.qs[i], 0), ints(&x.qs[i], 1)];
                if D::VNNI {
                    let mut start = [magic; HALVES];
                    if W::OFFSET != 0 {
                        for h in 0..HALVES {
                            let back =
                                D::quads(_mm256_setzero_si256(), _mm256_set1_epi8(W::OFFSET as i8), q[h]);
                            start[h] = _mm256_sub_epi32(magic, back);
                        }
                    }
                    for r in 0..ROWS {
                        let code = codes(w, r, i);
                        for h in 0..HALVES {
                            let bits = _mm256_castsi256_ps(D::quads(start[h], code, q[h]));
                            let sum = _mm256_sub_ps(bits, _mm256_castsi256_ps(magic));
                            total[r][h] = _mm256_fmadd_ps((*d.add(b))[r][h], sum, total[r][h]);
                        }
                    }
                    continue;
                }
                // What the offset adds to pairs of products, to be taken back.
                let mut back = [_mm256_setzero_si256(); HALVES];
                if W::OFFSET != 0 && !wide::<W>() {
                    for h in 0..HALVES {
                        back[h] = _mm256_maddubs_epi16(_mm256_set1_epi8(W::OFFSET as i8), q[h]);
                    }
                }
                for r in 0..ROWS {
                    let (code, size) = if wide::<W>() {
                        signed_codes(w, r, i)
                    } else {
                        (codes(w, r, i), _mm256_setzero_si256())
                    };
                    for h in 0..HALVES {
                        let mut pairs = if wide::<W>() {
                            _mm256_maddubs_epi16(size, _mm256_sign_epi8(q[h], code))
                        } else {
                            _mm256_maddubs_epi16(code, q[h])
                        };
                        if W::OFFSET != 0 && !wide::<W>() {
                            pairs = _mm256_sub_epi16(pairs, back[h]);
                        }
                        let sum = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, ones));
                        total[r][h] = _mm256_fmadd_ps((*d.add(b))[r][h], sum, total[r][h]);
                    }
                }
            }
            for r in 0..ROWS {
                for h in 0..HALVES {
                    _mm256_storeu_ps(sums(acc, lane, r, h), total[r][h]);
                }
            }
        }
        if W::MINS {
            for r in 0..ROWS {
                for h in 0..HALVES {
                    let mut total = _mm256_loadu_ps(sums(acc, 8, r, h));
                    for b in 0..n32 {
                        let min = _mm256_set1_ps((*w.add(r)).min[b]);
                        total = _mm256_fmadd_ps(min, floats(&x.s[b], h), total);
                    }
                    _mm256_storeu_ps(sums(acc, 8, r, h), total);
                }
            }
        }
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn superblock<W: Weight, D: Dots>(w: *const Chunk, x: &PanelChunk, acc: *mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        let mut d = [[_mm256_setzero_ps(); HALVES]; ROWS];
        for r in 0..ROWS {
            for h in 0..HALVES {
                d[r][h] = _mm256_mul_ps(_mm256_set1_ps((*w.add(r)).d), floats(&x.d[0], h));
            }
        }
        for lane in 0..8 {
            let mut t = [[_mm256_setzero_si256(); HALVES]; ROWS];
            if W::GROUP_OFFSET {
                add_groups::<D>(&mut t, w, x, lane);
            }
            if const { small::<W>() } {
                add_codes::<W, D>(&mut t, w, x, lane);
            } else {
                add_scaled::<D>(&mut t, w, x, lane);
            }
            for r in 0..ROWS {
                for h in 0..HALVES {
                    let to = sums(acc, lane, r, h);
                    let total = _mm256_fmadd_ps(d[r][h], _mm256_cvtepi32_ps(t[r][h]), _mm256_loadu_ps(to));
                    _mm256_storeu_ps(to, total);
                }
            }
        }
        if W::MINS {
            let mut t = [[_mm256_setzero_si256(); HALVES]; ROWS];
            for pair in 0..CHUNK / W::GROUP / 2 {
                add_groups::<D>(&mut t, w, x, pair);
            }
            for r in 0..ROWS {
                for h in 0..HALVES {
                    let d = _mm256_mul_ps(_mm256_set1_ps((*w.add(r)).dmin), floats(&x.d[0], h));
                    let to = sums(acc, 8, r, h);
                    let total = _mm256_fnmadd_ps(d, _mm256_cvtepi32_ps(t[r][h]), _mm256_loadu_ps(to));
                    _mm256_storeu_ps(to, total);
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
unsafe fn add_scaled<D: Dots>(t: &mut Tile<__m256i>, w: *const Chunk, x: &PanelChunk, lane: usize) {
    // SAFETY: this function's contract.
    unsafe {
        for b in 0..CHUNK / 32 {
            let (mut even, mut odd) = ([_mm256_setzero_si256(); HALVES], [_mm256_setzero_si256(); HALVES]);
            for h in 0..HALVES {
                let q = ints(&x.qs[8 * b + lane], h);
                even[h] = _mm256_srai_epi16(_mm256_slli_epi16(q, 8), 8);
                odd[h] = _mm256_srai_epi16(q, 8);
            }
            for r in 0..ROWS {
                let scaled = &(*w.add(r)).scaled[b];
                let (first, second) = (twice(&scaled[0][lane]), twice(&scaled[1][lane]));
                for h in 0..HALVES {
                    t[r][h] = D::pairs(D::pairs(t[r][h], first, even[h]), second, odd[h]);
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
unsafe fn add_codes<W: Weight, D: Dots>(t: &mut Tile<__m256i>, w: *const Chunk, x: &PanelChunk, lane: usize) {
    // SAFETY: this function's contract.
    unsafe {
        let offset = _mm256_set1_epi8(W::OFFSET as i8);
        for p in 0..CHUNK / 64 {
            let at = [16 * p + lane, 16 * p + 8 + lane];
            let (mut q, mut back) = ([[_mm256_setzero_si256(); HALVES]; 2], [_mm256_setzero_si256(); HALVES]);
            for h in 0..HALVES {
                q[0][h] = ints(&x.qs[at[0]], h);
                q[1][h] = ints(&x.qs[at[1]], h);
                if W::OFFSET != 0 && !W::GROUP_OFFSET {
                    back[h] = _mm256_add_epi16(
                        _mm256_maddubs_epi16(offset, q[0][h]),
                        _mm256_maddubs_epi16(offset, q[1][h]),
                    );
                }
            }
            for r in 0..ROWS {
                let u = [codes(w, r, at[0]), codes(w, r, at[1])];
                let scales = twice(&(*w.add(r)).scale_pairs[p][lane / 4]);
                for h in 0..HALVES {
                    let mut sums = _mm256_add_epi16(
                        _mm256_maddubs_epi16(u[0], q[0][h]),
                        _mm256_maddubs_epi16(u[1], q[1][h]),
                    );
                    if W::OFFSET != 0 && !W::GROUP_OFFSET {
                        sums = _mm256_sub_epi16(sums, back[h]);
                    }
                    t[r][h] = D::pairs(t[r][h], sums, scales);
                }
            }
        }
    }
}

/// The results of four rows of the weight and a panel, as [`finish_panel`](crate::kernels::matmul::weight::lanes::finish_panel).
///
/// # Safety
/// The CPU has AVX2 and FMA.
#[inline(always)]
pub(super) unsafe fn finish<W: Weight>(acc: &mut [Acc], out: &mut Acc) {
    for r in 0..ROWS {
        for h in 0..HALVES {
            // SAFETY: this function's contract; eight floats fill a register.
            unsafe {
                let mut lanes = [_mm256_setzero_ps(); LANE_ACCS];
                for lane in 0..LANE_ACCS {
                    lanes[lane] = floats(&acc[lane][r], h);
                    _mm256_storeu_ps(acc[lane][r].as_mut_ptr().add(h * LANES / HALVES), _mm256_setzero_ps());
                }
                let mut pairs = [_mm256_setzero_ps(); 4];
                for lane in 0..4 {
                    pairs[lane] = _mm256_add_ps(lanes[lane + 4], lanes[lane]);
                }
                let sum = _mm256_add_ps(_mm256_add_ps(pairs[0], pairs[2]), _mm256_add_ps(pairs[1], pairs[3]));
                let mut sum = _mm256_mul_ps(_mm256_set1_ps(W::FACTOR), sum);
                if W::MINS || W::PLANES > 1 {
                    sum = _mm256_fmadd_ps(_mm256_set1_ps(W::MIN_FACTOR), lanes[8], sum);
                }
                _mm256_storeu_ps(out[r].as_mut_ptr().add(h * LANES / HALVES), sum);
            }
        }
    }
}

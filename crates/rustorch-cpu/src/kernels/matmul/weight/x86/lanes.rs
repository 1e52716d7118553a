//! One row of activations times four rows, with eight sums for each result.

use super::codes::Vectored;
use super::dot::Dots;
use super::row;
use crate::kernels::matmul::weight::activation::Row;
use crate::kernels::matmul::weight::chunk::{CHUNK, Chunk, scale_codes, unpack_scales};
use crate::kernels::matmul::weight::types::Weight;
use crate::kernels::matmul::weight::x86::wide;
use crate::kernels::matmul::weight::{ROWS, lanes};
use rustorch_quant::Codes;
use std::arch::x86_64::*;

/// The sum of eight lanes, as [`lanes::sum`].
///
/// # Safety
/// The CPU has AVX.
#[inline(always)]
pub(super) unsafe fn sum(v: __m256) -> f32 {
    // SAFETY: this function's contract.
    unsafe {
        let fours = _mm_add_ps(_mm256_extractf128_ps(v, 1), _mm256_castps256_ps128(v));
        let twos = _mm_add_ps(fours, _mm_movehl_ps(fours, fours));
        _mm_cvtss_f32(_mm_add_ss(twos, _mm_movehdup_ps(twos)))
    }
}

/// Each element of `v` in all lanes.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn splat4(v: __m128) -> [__m256; ROWS] {
    // SAFETY: this function's contract.
    unsafe {
        [
            _mm256_broadcastss_ps(v),
            _mm256_broadcastss_ps(_mm_permute_ps(v, 0x55)),
            _mm256_broadcastss_ps(_mm_permute_ps(v, 0xaa)),
            _mm256_broadcastss_ps(_mm_permute_ps(v, 0xff)),
        ]
    }
}

/// The results, from their lanes and their minima.
///
/// # Safety
/// The CPU has AVX.
#[inline(always)]
pub(super) unsafe fn finish<W: Weight>(acc: [__m256; ROWS], min: __m128, out: &mut [f32; ROWS]) {
    let mut mins = [0.0; ROWS];
    // SAFETY: this function's contract; four floats.
    unsafe {
        _mm_storeu_ps(mins.as_mut_ptr(), min);
        for r in 0..ROWS {
            out[r] = lanes::finish::<W>(sum(acc[r]), mins[r]);
        }
    }
}

/// Rows of blocks of 32.
///
/// # Safety
/// As [`row::rows`].
#[inline(always)]
pub(super) unsafe fn blocks<W: Vectored, D: Dots>(
    w: [*const W; ROWS],
    n: usize,
    x: &Row<'_>,
    out: &mut [f32; ROWS],
) {
    // SAFETY: this function's contract.
    unsafe {
        let (mut acc, mut min) = ([_mm256_setzero_ps(); ROWS], _mm_setzero_ps());
        let offset = _mm256_set1_epi8(W::OFFSET as i8);
        for b in 0..n {
            if b % 2 == 0 {
                row::prefetch(x, b * size_of::<W>(), 2 * size_of::<W>());
            }
            let w = [&*w[0].add(b), &*w[1].add(b), &*w[2].add(b), &*w[3].add(b)];
            let q = _mm256_loadu_si256(x.qs.as_ptr().add(32 * b).cast());
            let (dw, mw) = W::factors4(w);
            let d = splat4(_mm_mul_ps(dw, _mm_set1_ps(*x.d.as_ptr().add(b))));
            // What the offset adds to each lane, to be taken back.
            let mut back = _mm256_setzero_si256();
            if W::OFFSET != 0 && D::VNNI {
                back = _mm256_sub_epi32(back, D::quads(back, offset, q));
            } else if W::OFFSET != 0 && !wide::<W>() {
                let pairs = _mm256_maddubs_epi16(offset, q);
                back = _mm256_madd_epi16(pairs, _mm256_set1_epi16(-1));
            }
            for r in 0..ROWS {
                let codes = w[r].codes(0);
                let t = if D::VNNI {
                    D::quads(back, codes, q)
                } else {
                    _mm256_add_epi32(back, row::code_products::<W>(codes, q))
                };
                acc[r] = _mm256_fmadd_ps(d[r], _mm256_cvtepi32_ps(t), acc[r]);
            }
            if W::MINS {
                min = _mm_fmadd_ps(mw, _mm_set1_ps(*x.s.as_ptr().add(b)), min);
            }
        }
        finish::<W>(acc, min, out);
    }
}

/// Four rows of blocks of 256 whose codes are unpacked by portable code.
///
/// # Safety
/// The CPU has AVX2 and FMA. Each pointer has `k` values in blocks of `W`.
#[inline(always)]
pub(super) unsafe fn plain_rows<W: Weight>(
    w: [*const u8; ROWS],
    k: usize,
    x: &Row<'_>,
    out: &mut [f32; ROWS],
) {
    let (mut chunk, mut codes) = (Chunk::ZERO, Codes::new());
    for r in 0..ROWS {
        // SAFETY: this function's contract; a row of activations has `k` codes and the scales and sums that go with them.
        unsafe {
            let (mut acc, mut min) = ([_mm256_setzero_ps(); 2], 0.0f32);
            for c in 0..k / CHUNK {
                let block = &*w[r].cast::<W>().add(c);
                block.expand(&mut codes);
                unpack_scales(std::slice::from_ref(block), &mut chunk);
                let scales = block.scales().0;
                let d = _mm256_set1_ps(chunk.d * *x.d.as_ptr().add(c));
                for plane in 0..W::PLANES {
                    scale_codes::<W>(&codes, &scales, plane, &mut chunk);
                    let sums = _mm256_cvtepi32_ps(chunk_sums::<W>(&chunk, x, c));
                    acc[plane] = _mm256_fmadd_ps(d, sums, acc[plane]);
                }
                if W::MINS {
                    let groups = if W::GROUP == 16 { &x.sums16[16 * c..] } else { &x.sums32[8 * c..] };
                    let sum: i32 = (0..CHUNK / W::GROUP)
                        .map(|g| i32::from(chunk.int_min[g]) * i32::from(groups[g]))
                        .sum();
                    min = (-(chunk.dmin * x.d[c])).mul_add(sum as f32, min);
                }
            }
            let min = if W::PLANES > 1 { sum(acc[1]) } else { min };
            out[r] = lanes::finish::<W>(sum(acc[0]), min);
        }
    }
}

/// The lanes of `Σ sc·q·x` over chunk `c`.
///
/// # Safety
/// The CPU has AVX2; `x` has the chunk.
#[inline(always)]
unsafe fn chunk_sums<W: Weight>(w: &Chunk, x: &Row<'_>, c: usize) -> __m256i {
    // SAFETY: this function's contract; sixteen numbers of sixteen bits fill a register.
    unsafe {
        let mut t = _mm256_setzero_si256();
        if W::GROUP_OFFSET {
            let groups = _mm256_loadu_si256(x.sums16.as_ptr().add(16 * c).cast());
            t = _mm256_madd_epi16(_mm256_loadu_si256(w.int_min.as_ptr().cast()), groups);
        }
        for (b, [first, second]) in w.scaled.iter().enumerate() {
            let q = _mm256_loadu_si256(x.qs.as_ptr().add(c * CHUNK + 32 * b).cast());
            let even = _mm256_srai_epi16(_mm256_slli_epi16(q, 8), 8);
            let odd = _mm256_srai_epi16(q, 8);
            t = _mm256_add_epi32(t, _mm256_madd_epi16(_mm256_loadu_si256(first.as_ptr().cast()), even));
            t = _mm256_add_epi32(t, _mm256_madd_epi16(_mm256_loadu_si256(second.as_ptr().cast()), odd));
        }
        t
    }
}

/// Writes the codes of a block times their scales, as [`scale_codes`].
///
/// # Safety
/// The CPU has AVX2; the type is of 256 values.
#[inline(always)]
pub(super) unsafe fn unpack_scaled<W: Vectored>(block: &W, chunk: &mut Chunk) {
    const { assert!(W::PLANES == 1) };
    let scales = block.scales().0.map(i16::from);
    let offset = if W::GROUP_OFFSET { 0 } else { i16::from(W::OFFSET) };
    for (b, [first, second]) in chunk.scaled.iter_mut().enumerate() {
        // SAFETY: this function's contract; eight pairs fill a register.
        unsafe {
            let codes = block.codes(b);
            let scale = if W::GROUP == 32 {
                _mm256_set1_epi16(scales[b])
            } else {
                _mm256_set_m128i(_mm_set1_epi16(scales[2 * b + 1]), _mm_set1_epi16(scales[2 * b]))
            };
            let offset = _mm256_set1_epi16(offset);
            let even = _mm256_sub_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(255)), offset);
            let odd = _mm256_sub_epi16(_mm256_srli_epi16(codes, 8), offset);
            _mm256_storeu_si256(first.as_mut_ptr().cast(), _mm256_mullo_epi16(even, scale));
            _mm256_storeu_si256(second.as_mut_ptr().cast(), _mm256_mullo_epi16(odd, scale));
        }
    }
}

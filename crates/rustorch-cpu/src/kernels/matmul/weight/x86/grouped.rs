//! One row of activations times four rows of a type whose codes come from tables: blocks are unpacked by portable code,
//! one at a time.

use super::row::code_products;
use crate::kernels::matmul::weight::ROWS;
use crate::kernels::matmul::weight::activation::Row;
use crate::kernels::matmul::weight::chunk::{CHUNK, Chunk, unpack};
use crate::kernels::matmul::weight::types::Weight;
use std::arch::x86_64::*;

/// Four rows of blocks times one row of activations.
///
/// # Safety
/// The CPU has AVX2 and FMA. Each pointer has `k` values in blocks of `W`.
#[inline(always)]
pub(super) unsafe fn rows<W: Weight>(w: [*const u8; ROWS], k: usize, x: &Row<'_>, out: &mut [f32; ROWS]) {
    let mut chunks = [Chunk::ZERO; ROWS];
    // A scale for each group and row.
    let mut scales = [[0.0f32; ROWS]; CHUNK / 16];
    let per_block = W::ACTIVATION_QUANT.block() / 32;
    // SAFETY: this function's contract; a row of activations has `k` codes and the scales that go with them.
    unsafe {
        let mut acc = _mm_setzero_ps();
        for c in 0..k.div_ceil(CHUNK) {
            let n = (k - c * CHUNK).min(CHUNK);
            for r in 0..ROWS {
                let blocks = w[r].cast::<W>().add(c * (CHUNK / W::LEN));
                unpack(std::slice::from_raw_parts(blocks, n / W::LEN), &mut chunks[r]);
                for g in 0..CHUNK / 16 {
                    scales[g][r] = chunks[r].scale[g];
                }
            }
            let mut inner = _mm_setzero_ps();
            for i in 0..n / 32 {
                let q = _mm256_loadu_si256(x.qs.as_ptr().add(c * CHUNK + 32 * i).cast());
                let mut t = [_mm256_setzero_si256(); ROWS];
                for r in 0..ROWS {
                    let codes = _mm256_load_si256(chunks[r].codes.as_ptr().add(32 * i).cast());
                    t[r] = code_products::<W>(codes, q);
                }
                // One half for each group of 16, in it one lane for each row.
                let sums = _mm256_hadd_epi32(_mm256_hadd_epi32(t[0], t[1]), _mm256_hadd_epi32(t[2], t[3]));
                let sums = _mm256_cvtepi32_ps(sums);
                let low = _mm_loadu_ps(scales[2 * i].as_ptr());
                let high = _mm_loadu_ps(scales[2 * i + 1].as_ptr());
                inner = _mm_fmadd_ps(_mm256_castps256_ps128(sums), low, inner);
                inner = _mm_fmadd_ps(_mm256_extractf128_ps(sums, 1), high, inner);
                if (i + 1) % per_block == 0 {
                    let d = *x.d.as_ptr().add((c * (CHUNK / 32) + i) / per_block);
                    acc = _mm_fmadd_ps(_mm_set1_ps(d), inner, acc);
                    inner = _mm_setzero_ps();
                }
            }
        }
        _mm_storeu_ps(out.as_mut_ptr(), acc);
    }
}

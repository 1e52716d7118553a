//! Four unpacked chunks times half a panel, eight rows of activations: the AVX2 form of `panel512`.
//!
//! Codes that use all eight bits are multiplied with their sign, since pairs of products with 255 would leave 16 bits;
//! so for those types no offset is taken back.

use crate::kernels::matmul::weight::activation::{LANES, PanelChunk};
use crate::kernels::matmul::weight::chunk::{CHUNK, Chunk};
use crate::kernels::matmul::weight::types::{Kind, Weight};
use crate::kernels::matmul::weight::x86::wide;
use crate::kernels::matmul::weight::{Acc, ROWS, accs};
use std::arch::x86_64::*;

/// Four chunks times panels; continues the sums in `acc`.
///
/// # Safety
/// The CPU has AVX2 and FMA. Pointers are valid, the chunks are those of `W`.
#[inline(always)]
pub(super) unsafe fn panels<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) {
    let mut p = 0;
    while p < x.len() {
        // SAFETY: this function's contract.
        unsafe {
            tile::<W>(w, Half { panel: &*x[p], lane: 0 }, n32, acc.add(p * accs::<W>()));
            tile::<W>(w, Half { panel: &*x[p], lane: LANES / 2 }, n32, acc.add(p * accs::<W>()));
        }
        p += 1;
    }
}

/// Eight rows of a panel.
#[derive(Clone, Copy)]
struct Half<'a> {
    panel: &'a PanelChunk,
    lane: usize,
}

impl Half<'_> {
    /// # Safety
    /// The CPU has AVX.
    #[inline(always)]
    unsafe fn floats(self, row: &[f32; LANES]) -> __m256 {
        // SAFETY: a half begins at lane 0 or 8 of 16.
        unsafe { _mm256_loadu_ps(row.as_ptr().add(self.lane)) }
    }

    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn ints<T>(self, row: &[T; LANES]) -> __m256i {
        const { assert!(size_of::<T>() == 4) };
        // SAFETY: as above.
        unsafe { _mm256_loadu_si256(row.as_ptr().add(self.lane).cast()) }
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn tile<W: Weight>(w: *const Chunk, x: Half<'_>, n32: usize, accs: *mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        let out = &mut *accs;
        let mut acc = [_mm256_setzero_ps(); ROWS];
        for r in 0..ROWS {
            acc[r] = x.floats(&out[r]);
        }
        match W::KIND {
            Kind::Blocks => blocks::<W>(w, x, n32, &mut acc),
            Kind::Integer => integer::<W>(w, x, &mut acc, &mut *accs.add(1)),
            Kind::LaneBlocks | Kind::Lanes => unreachable!("these kinds have kernels of their own"),
            Kind::Groups => groups::<W>(w, x, n32, &mut acc),
        }
        for r in 0..ROWS {
            _mm256_storeu_ps(out[r].as_mut_ptr().add(x.lane), acc[r]);
        }
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn blocks<W: Weight>(w: *const Chunk, x: Half<'_>, n32: usize, acc: &mut [__m256; ROWS]) {
    // SAFETY: this function's contract.
    unsafe {
        for g in 0..n32 {
            let t = products::<W, 8>(w, x, g);
            let dx = x.floats(&x.panel.d[g]);
            for r in 0..ROWS {
                let d = _mm256_mul_ps(_mm256_set1_ps((*w.add(r)).scale[g]), dx);
                acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(t[r]), d, acc[r]);
            }
            if W::MINS {
                let s = x.floats(&x.panel.s[g]);
                for r in 0..ROWS {
                    acc[r] = _mm256_fmadd_ps(_mm256_set1_ps((*w.add(r)).min[g]), s, acc[r]);
                }
            }
        }
    }
}

/// Continues the sums in `acc` and those of minima in `low`.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn integer<W: Weight>(w: *const Chunk, x: Half<'_>, acc: &mut [__m256; ROWS], low: &mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        let mut mins = [_mm256_setzero_si256(); ROWS];
        for pair in 0..CHUNK / W::GROUP / 2 {
            let sums = x.ints(&x.panel.sums[pair]);
            for r in 0..ROWS {
                let both = (*w.add(r)).int_min.as_ptr().cast::<i32>().add(pair).read();
                mins[r] = _mm256_add_epi32(mins[r], _mm256_madd_epi16(_mm256_set1_epi32(both), sums));
            }
        }
        let mut total = [_mm256_setzero_si256(); ROWS];
        for g in 0..CHUNK / W::GROUP {
            let start = _mm256_setzero_si256();
            let t = if W::GROUP == 16 {
                raw_products::<W, 4>(w, x, g, start)
            } else {
                raw_products::<W, 8>(w, x, g, start)
            };
            for r in 0..ROWS {
                let scale = _mm256_set1_epi32((*w.add(r)).int_scale[g]);
                total[r] = _mm256_add_epi32(total[r], _mm256_mullo_epi32(t[r], scale));
            }
        }
        let dx = x.floats(&x.panel.d[0]);
        for r in 0..ROWS {
            let d = _mm256_mul_ps(_mm256_set1_ps((*w.add(r)).d), dx);
            acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(total[r]), d, acc[r]);
            let d = _mm256_mul_ps(_mm256_set1_ps((*w.add(r)).dmin), dx);
            let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(mins[r]), d, x.floats(&low[r]));
            _mm256_storeu_ps(low[r].as_mut_ptr().add(x.lane), sum);
        }
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn groups<W: Weight>(w: *const Chunk, x: Half<'_>, n32: usize, acc: &mut [__m256; ROWS]) {
    // SAFETY: this function's contract.
    unsafe {
        let block = W::ACTIVATION_QUANT.block();
        for b in 0..32 * n32 / block {
            let mut inner = [_mm256_setzero_ps(); ROWS];
            for g in b * block / 16..(b + 1) * block / 16 {
                let t = products::<W, 4>(w, x, g);
                for r in 0..ROWS {
                    let scale = _mm256_set1_ps((*w.add(r)).scale[g]);
                    inner[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(t[r]), scale, inner[r]);
                }
            }
            let d = x.floats(&x.panel.d[b]);
            for r in 0..ROWS {
                acc[r] = _mm256_fmadd_ps(d, inner[r], acc[r]);
            }
        }
    }
}

/// Sums of products of group `g` of `4 * QUADS` values, with the offset taken back.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn products<W: Weight, const QUADS: usize>(w: *const Chunk, x: Half<'_>, g: usize) -> [__m256i; ROWS] {
    // SAFETY: this function's contract.
    unsafe {
        let mut start = _mm256_setzero_si256();
        if W::OFFSET != 0 && !wide::<W>() {
            // The sums of two groups lie together in 32 bits; one of them is multiplied by zero.
            let offset = (-i32::from(W::OFFSET) & 0xffff) << (16 * (g % 2));
            start = _mm256_madd_epi16(_mm256_set1_epi32(offset), x.ints(&x.panel.sums[g / 2]));
        }
        raw_products::<W, QUADS>(w, x, g, start)
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn raw_products<W: Weight, const QUADS: usize>(
    w: *const Chunk,
    x: Half<'_>,
    g: usize,
    start: __m256i,
) -> [__m256i; ROWS] {
    // SAFETY: this function's contract.
    unsafe {
        let ones = _mm256_set1_epi16(1);
        let mut t = [start; ROWS];
        for i in g * QUADS..(g + 1) * QUADS {
            let q = x.ints(&x.panel.qs[i]);
            for r in 0..ROWS {
                let u = _mm256_set1_epi32((*w.add(r)).codes.as_ptr().cast::<i32>().add(i).read());
                let pairs = if wide::<W>() {
                    let w = _mm256_xor_si256(u, _mm256_set1_epi8(-128));
                    _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w))
                } else {
                    _mm256_maddubs_epi16(u, q)
                };
                t[r] = _mm256_add_epi32(t[r], _mm256_madd_epi16(pairs, ones));
            }
        }
        t
    }
}

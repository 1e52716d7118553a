//! One row of activations times four rows of blocks in place: the kernel of generation, which reads each weight once.

use super::codes::Vectored;
use super::dot::Dots;
use super::lanes;
use crate::kernels::matmul::weight::activation::Row;
use crate::kernels::matmul::weight::types::{Kind, Weight};
use crate::kernels::matmul::weight::x86::wide;
use crate::kernels::matmul::weight::{ROWS, lanes as sums_in_lanes};
use crate::simd::prefetch_bytes;
use std::arch::x86_64::*;

/// Four rows of blocks times one row of activations.
///
/// # Safety
/// The CPU has AVX2, FMA and F16C, and what `D` names. Each pointer has `k` values in blocks of `W`.
#[inline(always)]
pub(super) unsafe fn rows<W: Vectored, D: Dots>(
    w: [*const u8; ROWS],
    k: usize,
    x: &Row<'_>,
    out: &mut [f32; ROWS],
) {
    let w = [w[0].cast::<W>(), w[1].cast::<W>(), w[2].cast::<W>(), w[3].cast::<W>()];
    // SAFETY: this function's contract; a row of activations has `k` codes and the scales and sums that go with them.
    unsafe {
        let acc = match W::KIND {
            Kind::Blocks => blocks::<W, D>(w, k / 32, x),
            Kind::Integer => superblocks::<W, D>(w, k / 256, x),
            Kind::LaneBlocks => return lanes::blocks::<W, D>(w, k / 32, x, out),
            Kind::Lanes => return lane_superblocks::<W, D>(w, k / 256, x, out),
            Kind::Groups => unreachable!("these types have no vector code"),
        };
        _mm_storeu_ps(out.as_mut_ptr(), acc);
    }
}

/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn blocks<W: Vectored, D: Dots>(w: [*const W; ROWS], n: usize, x: &Row<'_>) -> __m128 {
    // SAFETY: this function's contract.
    unsafe {
        let mut acc = _mm_setzero_ps();
        for b in 0..n {
            if b % 2 == 0 {
                prefetch(x, b * size_of::<W>(), 2 * size_of::<W>());
            }
            acc = block::<W, D>(w, b, x, acc);
        }
        acc
    }
}

/// Adds block `b` of each row.
///
/// # Safety
/// As [`rows`]; the rows have that block.
#[inline(always)]
pub(super) unsafe fn block<W: Vectored, D: Dots>(
    w: [*const W; ROWS],
    b: usize,
    x: &Row<'_>,
    mut acc: __m128,
) -> __m128 {
    // SAFETY: this function's contract.
    unsafe {
        let (w0, w1, w2, w3) = (&*w[0].add(b), &*w[1].add(b), &*w[2].add(b), &*w[3].add(b));
        let q = _mm256_loadu_si256(x.qs.as_ptr().add(32 * b).cast());
        let mut sum = reduce(
            products::<W, D>(w0.codes(0), q),
            products::<W, D>(w1.codes(0), q),
            products::<W, D>(w2.codes(0), q),
            products::<W, D>(w3.codes(0), q),
        );
        if W::OFFSET != 0 && (D::VNNI || !wide::<W>()) {
            let offset = i32::from(W::OFFSET) * i32::from(*x.sums32.as_ptr().add(b));
            sum = _mm_sub_epi32(sum, _mm_set1_epi32(offset));
        }
        let (dw, mw) = W::factors4([w0, w1, w2, w3]);
        let d = _mm_mul_ps(dw, _mm_set1_ps(*x.d.as_ptr().add(b)));
        acc = _mm_fmadd_ps(_mm_cvtepi32_ps(sum), d, acc);
        if W::MINS {
            acc = _mm_fmadd_ps(mw, _mm_set1_ps(*x.s.as_ptr().add(b)), acc);
        }
        acc
    }
}

/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn superblocks<W: Vectored, D: Dots>(w: [*const W; ROWS], n: usize, x: &Row<'_>) -> __m128 {
    // SAFETY: this function's contract.
    unsafe {
        let (mut acc, mut low) = (_mm_setzero_ps(), _mm_setzero_ps());
        for b in 0..n {
            prefetch(x, b * size_of::<W>(), size_of::<W>());
            let (w0, w1, w2, w3) = (&*w[0].add(b), &*w[1].add(b), &*w[2].add(b), &*w[3].add(b));
            let (s0, m0) = superblock::<W, D>(w0, x, b, SCALES.as_ptr());
            let (s1, m1) = superblock::<W, D>(w1, x, b, SCALES.as_ptr());
            let (s2, m2) = superblock::<W, D>(w2, x, b, SCALES.as_ptr());
            let (s3, m3) = superblock::<W, D>(w3, x, b, SCALES.as_ptr());
            let (dw, mw) = W::factors4([w0, w1, w2, w3]);
            let dx = _mm_set1_ps(*x.d.as_ptr().add(b));
            let sum = _mm_cvtepi32_ps(reduce(s0, s1, s2, s3));
            acc = _mm_fmadd_ps(sum, _mm_mul_ps(dw, dx), acc);
            if W::MINS {
                let min = _mm_cvtepi32_ps(reduce(m0, m1, m2, m3));
                low = _mm_fmadd_ps(min, _mm_mul_ps(mw, dx), low);
            }
        }
        if W::MINS { _mm_sub_ps(acc, low) } else { acc }
    }
}

/// One row after the other: with a stream of its own each, four would wait for one another in few registers.
///
/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn lane_superblocks<W: Vectored, D: Dots>(
    w: [*const W; ROWS],
    n: usize,
    x: &Row<'_>,
    out: &mut [f32; ROWS],
) {
    // The compiler would make two shuffles of one by a constant.
    let picks = std::hint::black_box(&SCALES).as_ptr();
    // SAFETY: this function's contract.
    unsafe {
        for r in 0..ROWS {
            let (mut acc, mut min) = (_mm256_setzero_ps(), _mm_setzero_ps());
            for b in 0..n {
                prefetch_bytes(x.next.wrapping_add((r * n + b) * size_of::<W>()), size_of::<W>());
                let w = &*w[r].add(b);
                let (dw, mw) = w.factors1();
                let dx = _mm_load_ss(x.d.as_ptr().add(b));
                let (sums, mins) = superblock::<W, D>(w, x, b, picks);
                let d = _mm256_broadcastss_ps(_mm_mul_ss(dw, dx));
                acc = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sums), acc);
                if W::MINS {
                    let mins = _mm_cvtepi32_ps(reduce(mins, mins, mins, mins));
                    min = _mm_fnmadd_ss(mins, _mm_mul_ss(mw, dx), min);
                }
            }
            out[r] = sums_in_lanes::finish::<W>(lanes::sum(acc), _mm_cvtss_f32(min));
        }
    }
}

/// For each group of 32 values, where its scale is among eight of 16 bits: indices of a shuffle.
static SCALES: [[u8; 32]; 8] = {
    let mut picks = [[0; 32]; 8];
    let mut i = 0;
    while i < 8 {
        let mut byte = 0;
        while byte < 32 {
            picks[i][byte] = (2 * i + byte % 2) as u8;
            byte += 1;
        }
        i += 1;
    }
    picks
};

/// The lanes of `Σ sc·Σ q·x` and of `Σ mn·Σ x` over 256 values.
///
/// # Safety
/// As [`rows`]; `picks` are [`SCALES`].
#[inline(always)]
unsafe fn superblock<W: Vectored, D: Dots>(
    w: &W,
    x: &Row<'_>,
    b: usize,
    picks: *const [u8; 32],
) -> (__m256i, __m256i) {
    // SAFETY: this function's contract.
    unsafe {
        let qs = x.qs.as_ptr().add(256 * b);
        let (scales, mins) = w.scales();
        let scales = _mm_loadu_si128(scales.as_ptr().cast());
        // Each half of the register holds the scales of that half of every 32 values.
        let by_half = if W::GROUP == 32 {
            _mm256_permute4x64_epi64(_mm256_cvtepi8_epi16(scales), 0x44)
        } else {
            let even_odd = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
            _mm256_cvtepi8_epi16(_mm_shuffle_epi8(scales, even_odd))
        };
        let mut sum = _mm256_setzero_si256();
        for i in 0..8 {
            let q = _mm256_loadu_si256(qs.add(32 * i).cast());
            let mut pairs = pairs::<W>(w.codes(i), q);
            if own_offset::<W>() {
                pairs = _mm256_sub_epi16(pairs, _mm256_maddubs_epi16(_mm256_set1_epi8(W::OFFSET as i8), q));
            }
            let scale = _mm256_shuffle_epi8(by_half, _mm256_loadu_si256(picks.add(i).cast()));
            sum = D::pairs(sum, pairs, scale);
        }
        let mins = group_sums::<W>(scales, _mm_loadu_si128(mins.as_ptr().cast()), x, b);
        if takes_groups::<W>() {
            sum = _mm256_sub_epi32(sum, mins);
        }
        (sum, mins)
    }
}

/// Whether the offset is taken back from each product, since lanes need it there.
pub(super) const fn own_offset<W: Weight>() -> bool {
    matches!(W::KIND, Kind::Lanes) && !W::GROUP_OFFSET && W::OFFSET != 0 && !wide::<W>()
}

/// Whether the offset is taken back by the sums of the groups.
pub(super) const fn takes_groups<W: Weight>() -> bool {
    !W::MINS && !wide::<W>() && !own_offset::<W>()
}

/// The lanes of `Σ mn·Σ x` over 256 values; without minima, of `Σ sc·Σ offset·x`, unless the type needs neither.
///
/// # Safety
/// The CPU has AVX2; `x` has block `b`.
#[inline(always)]
pub(super) unsafe fn group_sums<W: Vectored>(
    scales: __m128i,
    mins: __m128i,
    x: &Row<'_>,
    b: usize,
) -> __m256i {
    const { assert!(W::MINS || wide::<W>() || W::GROUP == 16) };
    // SAFETY: this function's contract.
    unsafe {
        let sums16 = x.sums16.as_ptr().add(16 * b).cast::<__m256i>();
        let sums32 = x.sums32.as_ptr().add(8 * b).cast::<__m128i>();
        if W::MINS && W::GROUP == 32 {
            _mm256_zextsi128_si256(_mm_madd_epi16(_mm_cvtepu8_epi16(mins), _mm_loadu_si128(sums32)))
        } else if W::MINS {
            _mm256_madd_epi16(_mm256_cvtepu8_epi16(mins), _mm256_loadu_si256(sums16))
        } else if takes_groups::<W>() {
            let sums = _mm256_madd_epi16(_mm256_cvtepi8_epi16(scales), _mm256_loadu_si256(sums16));
            _mm256_sll_epi32(sums, _mm_cvtsi32_si128(W::OFFSET.trailing_zeros() as i32))
        } else {
            _mm256_setzero_si256()
        }
    }
}

/// Sums of pairs of products, in 16 bits. Codes that use all eight bits are taken with their sign, the others with
/// their offset.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn pairs<W: Weight>(codes: __m256i, q: __m256i) -> __m256i {
    // SAFETY: this function's contract.
    unsafe {
        if wide::<W>() {
            let w = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
            _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w))
        } else {
            _mm256_maddubs_epi16(codes, q)
        }
    }
}

/// Sums of four products. With VNNI, codes are always taken with their offset.
///
/// # Safety
/// The CPU has AVX2 and what `D` names.
#[inline(always)]
unsafe fn products<W: Vectored, D: Dots>(codes: __m256i, q: __m256i) -> __m256i {
    // SAFETY: this function's contract.
    unsafe { if D::VNNI { D::quads(_mm256_setzero_si256(), codes, q) } else { code_products::<W>(codes, q) } }
}

/// Sums of four products, of codes as [`pairs`] takes them.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn code_products<W: Weight>(codes: __m256i, q: __m256i) -> __m256i {
    // SAFETY: this function's contract.
    unsafe { _mm256_madd_epi16(pairs::<W>(codes, q), _mm256_set1_epi16(1)) }
}

/// Asks for as many of the [next](Row::next) bytes as four rows have from `start` to `start + bytes`: the CPU does not foresee where rows that
/// are read four at a time go on.
#[inline(always)]
pub(super) fn prefetch(x: &Row<'_>, start: usize, bytes: usize) {
    prefetch_bytes(x.next.wrapping_add(ROWS * start), ROWS * bytes);
}

/// The sums of the lanes of each of four registers.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn reduce(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> __m128i {
    // SAFETY: this function's contract.
    unsafe {
        let sums = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
        _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1))
    }
}

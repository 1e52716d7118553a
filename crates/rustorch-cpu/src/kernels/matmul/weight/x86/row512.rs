//! The AVX-512 form of `row`: 64 values of each of four rows at a time.

use super::codes::{Scales4, Vectored};
use super::dot::{Avx512, dpwssd};
use super::{lanes, row};
use crate::kernels::matmul::weight::ROWS;
use crate::kernels::matmul::weight::activation::Row;
use crate::kernels::matmul::weight::types::Kind;
use crate::kernels::matmul::weight::x86::wide;
use std::arch::x86_64::*;

/// Four rows of blocks times one row of activations.
///
/// # Safety
/// The CPU has AVX-512 F, BW, DQ, VL and VNNI. Each pointer has `k` values in blocks of `W`.
#[inline(always)]
pub(super) unsafe fn rows<W: Vectored>(w: [*const u8; ROWS], k: usize, x: &Row<'_>, out: &mut [f32; ROWS]) {
    let w = [w[0].cast::<W>(), w[1].cast::<W>(), w[2].cast::<W>(), w[3].cast::<W>()];
    // SAFETY: this function's contract; a row of activations has `k` codes and the scales and sums that go with them.
    unsafe {
        let acc = match W::KIND {
            Kind::Blocks => blocks::<W>(w, k / 32, x),
            Kind::Integer => superblocks::<W>(w, k / 256, x),
            Kind::LaneBlocks => return lanes::blocks::<W, Avx512>(w, k / 32, x, out),
            Kind::Lanes => return lane_superblocks::<W>(w, k / 256, x, out),
            Kind::Groups => unreachable!("these types have no vector code"),
        };
        _mm_storeu_ps(out.as_mut_ptr(), acc);
    }
}

/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn blocks<W: Vectored>(w: [*const W; ROWS], n: usize, x: &Row<'_>) -> __m128 {
    // SAFETY: this function's contract.
    unsafe {
        let (qs, d, s, sums) = (x.qs.as_ptr(), x.d.as_ptr(), x.s.as_ptr(), x.sums32.as_ptr());
        // Element 0 to the lower half of a register, element 1 to the upper.
        let halves = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
        let mut acc = _mm_setzero_ps();
        let mut first = 0;
        if W::FOURS {
            while first + 4 <= n {
                acc = four_blocks(w, first, x, acc);
                first += 4;
            }
        }
        for b in (first..n & !1).step_by(2) {
            let q = _mm512_loadu_si512(qs.add(32 * b).cast());
            row::prefetch(x, b * size_of::<W>(), 2 * size_of::<W>());
            let mut t = [_mm512_setzero_si512(); ROWS];
            for r in 0..ROWS {
                let codes = W::two(&*w[r].add(b), &*w[r].add(b + 1));
                t[r] = _mm512_dpbusd_epi32(t[r], codes, q);
            }
            let t = transpose_add(t);
            let (low, high) = (_mm512_castsi512_si256(t), _mm512_extracti64x4_epi64(t, 1));
            let mut sum = _mm256_add_epi32(
                _mm256_permute2x128_si256(low, high, 0x20),
                _mm256_permute2x128_si256(low, high, 0x31),
            );
            if W::OFFSET != 0 {
                let both = _mm_cvtepi16_epi32(_mm_cvtsi32_si128(sums.add(b).cast::<i32>().read_unaligned()));
                let both = _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(both), halves);
                let by = _mm_cvtsi32_si128(W::OFFSET.trailing_zeros() as i32);
                sum = _mm256_sub_epi32(sum, _mm256_sll_epi32(both, by));
            }
            let sum = _mm256_cvtepi32_ps(sum);
            let first = W::factors4([&*w[0].add(b), &*w[1].add(b), &*w[2].add(b), &*w[3].add(b)]);
            let b1 = b + 1;
            let second = W::factors4([&*w[0].add(b1), &*w[1].add(b1), &*w[2].add(b1), &*w[3].add(b1)]);
            let dx = _mm256_castpd_ps(_mm256_set1_pd(d.add(b).cast::<f64>().read_unaligned()));
            let dx = _mm256_permutevar8x32_ps(dx, halves);
            let scale = _mm256_mul_ps(_mm256_set_m128(second.0, first.0), dx);
            acc = _mm_fmadd_ps(_mm256_castps256_ps128(sum), _mm256_castps256_ps128(scale), acc);
            if W::MINS {
                acc = _mm_fmadd_ps(first.1, _mm_set1_ps(*s.add(b)), acc);
            }
            acc = _mm_fmadd_ps(_mm256_extractf128_ps(sum, 1), _mm256_extractf128_ps(scale, 1), acc);
            if W::MINS {
                acc = _mm_fmadd_ps(second.1, _mm_set1_ps(*s.add(b1)), acc);
            }
        }
        if n % 2 == 1 {
            acc = row::block::<W, Avx512>(w, n - 1, x, acc);
        }
        acc
    }
}

/// Adds blocks `b..b + 4` of each row, of a type that has [`four`](Vectored::four).
///
/// # Safety
/// As [`rows`]; the rows have these blocks.
#[inline(always)]
unsafe fn four_blocks<W: Vectored>(w: [*const W; ROWS], b: usize, x: &Row<'_>, mut acc: __m128) -> __m128 {
    const { assert!(!W::FOURS || !W::MINS) };
    // SAFETY: this function's contract.
    unsafe {
        row::prefetch(x, b * size_of::<W>(), 4 * size_of::<W>());
        let qs = x.qs.as_ptr().add(32 * b);
        let (first, second) = (_mm512_loadu_si512(qs.cast()), _mm512_loadu_si512(qs.add(64).cast()));
        let low = _mm512_permutex2var_epi64(first, _mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13), second);
        let high = _mm512_permutex2var_epi64(first, _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15), second);
        let (mut t, mut heads) = ([_mm512_setzero_si512(); ROWS], [_mm512_setzero_si512(); ROWS]);
        for r in 0..ROWS {
            let (codes, head) = W::four(w[r].add(b));
            t[r] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(t[r], codes[0], low), codes[1], high);
            heads[r] = head;
        }
        // A quarter for each block, in it an element for each row.
        let mut sums = transpose_add(t);
        let quarters = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
        if W::OFFSET != 0 {
            let all = _mm_cvtepi16_epi32(_mm_loadl_epi64(x.sums32.as_ptr().add(b).cast()));
            let all = _mm512_permutexvar_epi32(quarters, _mm512_castsi128_si512(all));
            let by = _mm_cvtsi32_si128(W::OFFSET.trailing_zeros() as i32);
            sums = _mm512_sub_epi32(sums, _mm512_sll_epi32(all, by));
        }
        let dx = _mm512_castps128_ps512(_mm_loadu_ps(x.d.as_ptr().add(b)));
        let scale = _mm512_mul_ps(W::scales_of_fours(heads), _mm512_permutexvar_ps(quarters, dx));
        let sums = _mm512_cvtepi32_ps(sums);
        acc = _mm_fmadd_ps(_mm512_castps512_ps128(sums), _mm512_castps512_ps128(scale), acc);
        acc = _mm_fmadd_ps(_mm512_extractf32x4_ps(sums, 1), _mm512_extractf32x4_ps(scale, 1), acc);
        acc = _mm_fmadd_ps(_mm512_extractf32x4_ps(sums, 2), _mm512_extractf32x4_ps(scale, 2), acc);
        _mm_fmadd_ps(_mm512_extractf32x4_ps(sums, 3), _mm512_extractf32x4_ps(scale, 3), acc)
    }
}

/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn superblocks<W: Vectored>(w: [*const W; ROWS], n: usize, x: &Row<'_>) -> __m128 {
    // SAFETY: this function's contract.
    unsafe {
        let (mut acc, mut low) = (_mm_setzero_ps(), _mm_setzero_ps());
        for b in 0..n {
            row::prefetch(x, b * size_of::<W>(), size_of::<W>());
            let w = [&*w[0].add(b), &*w[1].add(b), &*w[2].add(b), &*w[3].add(b)];
            let Superblock { products, mins, d, dmin } = superblock(w, x, b);
            let dx = _mm_set1_ps(*x.d.as_ptr().add(b));
            let sums = quarter_sums(transpose_add(products));
            acc = _mm_fmadd_ps(_mm_cvtepi32_ps(sums), _mm_mul_ps(d, dx), acc);
            if W::MINS {
                low = _mm_fmadd_ps(_mm_cvtepi32_ps(mins), _mm_mul_ps(dmin, dx), low);
            }
        }
        if W::MINS { _mm_sub_ps(acc, low) } else { acc }
    }
}

/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn lane_superblocks<W: Vectored>(w: [*const W; ROWS], n: usize, x: &Row<'_>, out: &mut [f32; ROWS]) {
    // SAFETY: this function's contract.
    unsafe {
        let (mut acc, mut min) = ([_mm256_setzero_ps(); ROWS], _mm_setzero_ps());
        for b in 0..n {
            row::prefetch(x, b * size_of::<W>(), size_of::<W>());
            let w = [&*w[0].add(b), &*w[1].add(b), &*w[2].add(b), &*w[3].add(b)];
            let Superblock { products, mins, d, dmin } = superblock(w, x, b);
            let dx = _mm_set1_ps(*x.d.as_ptr().add(b));
            let d = lanes::splat4(_mm_mul_ps(d, dx));
            for r in 0..ROWS {
                let sums = _mm256_add_epi32(
                    _mm512_castsi512_si256(products[r]),
                    _mm512_extracti64x4_epi64(products[r], 1),
                );
                acc[r] = _mm256_fmadd_ps(d[r], _mm256_cvtepi32_ps(sums), acc[r]);
            }
            if W::MINS {
                min = _mm_fnmadd_ps(_mm_cvtepi32_ps(mins), _mm_mul_ps(dmin, dx), min);
            }
        }
        lanes::finish::<W>(acc, min, out);
    }
}

/// What four blocks of 256 values add.
struct Superblock {
    /// `Σ sc·Σ q·x` of each row, in the lanes of both halves of a register.
    products: [__m512i; ROWS],
    /// `Σ mn·Σ x` of each row.
    mins: __m128i,
    /// Their factors.
    d: __m128,
    dmin: __m128,
}

/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn superblock<W: Vectored>(w: [&W; ROWS], x: &Row<'_>, b: usize) -> Superblock {
    // SAFETY: this function's contract.
    unsafe {
        let qs = x.qs.as_ptr().add(256 * b);
        let (mut q, mut back) = ([_mm512_setzero_si512(); 4], [_mm512_setzero_si512(); 4]);
        for i in 0..4 {
            let (low, high) = W::PAIRS[i];
            q[i] = if high == low + 1 {
                _mm512_loadu_si512(qs.add(32 * low).cast())
            } else {
                let low = _mm256_loadu_si256(qs.add(32 * low).cast());
                let high = _mm256_loadu_si256(qs.add(32 * high).cast());
                _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)
            };
            if row::own_offset::<W>() {
                back[i] = _mm512_maddubs_epi16(_mm512_set1_epi8(W::OFFSET as i8), q[i]);
            }
        }
        let mut products = [_mm512_setzero_si512(); ROWS];
        if const { W::GROUP == 32 } {
            const { assert!(W::GROUP != 32 || !row::takes_groups::<W>()) };
            let Scales4 { scales, mins, d, dmin } = W::scales4(w);
            products[0] = scaled_products(w[0], &q, &back, _mm512_shuffle_i32x4::<0x00>(scales, scales));
            products[1] = scaled_products(w[1], &q, &back, _mm512_shuffle_i32x4::<0x55>(scales, scales));
            products[2] = scaled_products(w[2], &q, &back, _mm512_shuffle_i32x4::<0xaa>(scales, scales));
            products[3] = scaled_products(w[3], &q, &back, _mm512_shuffle_i32x4::<0xff>(scales, scales));
            let sums = _mm512_broadcast_i32x4(_mm_loadu_si128(x.sums32.as_ptr().add(8 * b).cast()));
            return Superblock { products, mins: sums_of_quarters(_mm512_madd_epi16(mins, sums)), d, dmin };
        }
        let mut mins = [_mm256_setzero_si256(); ROWS];
        for r in 0..ROWS {
            let (scales, m) = w[r].scales();
            let scales = _mm_loadu_si128(scales.as_ptr().cast());
            // Each quarter of the register holds the scales that the quarter of a pair may need, two bytes each.
            let even_odd = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
            let quarters = _mm512_broadcast_i64x4(_mm256_cvtepi8_epi16(_mm_shuffle_epi8(scales, even_odd)));
            products[r] = scaled_products(w[r], &q, &back, quarters);
            mins[r] = row::group_sums::<W>(scales, _mm_loadu_si128(m.as_ptr().cast()), x, b);
            if row::takes_groups::<W>() {
                products[r] = _mm512_sub_epi32(products[r], _mm512_zextsi256_si512(mins[r]));
            }
        }
        let (d, dmin) = W::factors4(w);
        let mins =
            if W::MINS { row::reduce(mins[0], mins[1], mins[2], mins[3]) } else { _mm_setzero_si128() };
        Superblock { products, mins, d, dmin }
    }
}

/// The lanes of `Σ sc·Σ q·x` over 256 values; `back` is what the offset adds to pairs of products, where each takes
/// back its own. Each quarter of `quarters` holds the scales that the quarter of a pair may need, two bytes each.
///
/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn scaled_products<W: Vectored>(
    w: &W,
    q: &[__m512i; 4],
    back: &[__m512i; 4],
    quarters: __m512i,
) -> __m512i {
    // SAFETY: this function's contract.
    unsafe {
        let mut sum = _mm512_setzero_si512();
        for i in 0..4 {
            let codes = w.pair(i);
            let mut pairs = if wide::<W>() {
                // There is no `sign` of this width: codes are negated where they are below 128.
                let w = _mm512_xor_si512(codes, _mm512_set1_epi8(-128));
                let negative = _mm512_movepi8_mask(w);
                let x = _mm512_mask_sub_epi8(q[i], negative, _mm512_setzero_si512(), q[i]);
                _mm512_maddubs_epi16(_mm512_abs_epi8(w), x)
            } else {
                _mm512_maddubs_epi16(codes, q[i])
            };
            if row::own_offset::<W>() {
                pairs = _mm512_sub_epi16(pairs, back[i]);
            }
            let (low, high) = W::PAIRS[i];
            let [low, high] = [_mm256_set1_epi16(word(low)), _mm256_set1_epi16(word(high))];
            let index = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
            sum = dpwssd(sum, pairs, _mm512_shuffle_epi8(quarters, index));
        }
        sum
    }
}

/// The two bytes at which the scale of a group lies, as indices of a shuffle.
const fn word(group: usize) -> i16 {
    (0x0100 + 0x0202 * group) as i16
}

/// In each quarter of the result, the sums of that quarter of each of four registers.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
unsafe fn transpose_add([a, b, c, d]: [__m512i; ROWS]) -> __m512i {
    // SAFETY: this function's contract.
    unsafe {
        let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd))
    }
}

/// The sums of the quarters of a register, as [`transpose_add`] gives them.
///
/// # Safety
/// The CPU has AVX-512 F and AVX2.
#[inline(always)]
unsafe fn quarter_sums(v: __m512i) -> __m128i {
    // SAFETY: this function's contract.
    unsafe {
        let halves = _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
        _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1))
    }
}

/// The sum of the lanes of each quarter.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
unsafe fn sums_of_quarters(v: __m512i) -> __m128i {
    // SAFETY: this function's contract.
    unsafe {
        let twos = _mm512_add_epi32(v, _mm512_shuffle_epi32::<0b01_00_11_10>(v));
        let sums = _mm512_add_epi32(twos, _mm512_shuffle_epi32::<0b10_11_00_01>(twos));
        let firsts = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
        _mm512_castsi512_si128(_mm512_permutexvar_epi32(firsts, sums))
    }
}

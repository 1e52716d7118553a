//! Four unpacked chunks times a panel, sixteen rows of activations in two registers: the AVX2 form of `panel512`.
//!
//! Without VNNI, codes that use all eight bits are multiplied with their sign, since pairs of products with 255 would leave 16 bits;
//! so for those types no offset is taken back.

use super::dot::Dots;
use crate::kernels::matmul::weight::activation::{LANES, PanelChunk};
use crate::kernels::matmul::weight::chunk::{CHUNK, Chunk};
use crate::kernels::matmul::weight::types::{Kind, Weight};
use crate::kernels::matmul::weight::x86::wide;
use crate::kernels::matmul::weight::{Acc, ROWS, accs};
use std::arch::asm;
use std::arch::x86_64::*;

/// Registers for the rows of a panel.
pub(super) const HALVES: usize = 2;

/// A register for each row of `W` and each half of a panel.
pub(super) type Tile<T> = [[T; HALVES]; ROWS];

/// Has the sums of all rows in registers between two steps of a loop. Without it the compiler, which unrolls the loop, takes all steps of one row
/// after the other, and keeps the activations of all steps in memory meanwhile, where there is no room for them in registers.
///
/// # Safety
/// The CPU has AVX.
#[inline]
#[target_feature(enable = "avx")]
unsafe fn keep_in_registers(t: &mut Tile<__m256i>) {
    let [[mut a, mut b], [mut c, mut d], [mut e, mut f], [mut g, mut h]] = *t;
    // SAFETY: no instruction.
    unsafe {
        asm!(
            "/* {} {} {} {} {} {} {} {} */",
            inout(ymm_reg) a,
            inout(ymm_reg) b,
            inout(ymm_reg) c,
            inout(ymm_reg) d,
            inout(ymm_reg) e,
            inout(ymm_reg) f,
            inout(ymm_reg) g,
            inout(ymm_reg) h,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    *t = [[a, b], [c, d], [e, f], [g, h]];
}

/// Four chunks times panels; continues the sums in `acc`.
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
    let mut p = 0;
    while p < x.len() {
        // SAFETY: this function's contract.
        unsafe { tile::<W, D>(w, &*x[p], n32, acc.add(p * accs::<W>())) };
        p += 1;
    }
}

/// The floats of half of a panel.
///
/// # Safety
/// The CPU has AVX.
#[inline(always)]
pub(super) unsafe fn floats(row: &[f32; LANES], half: usize) -> __m256 {
    // SAFETY: a half begins at lane 0 or 8 of 16.
    unsafe { _mm256_loadu_ps(row.as_ptr().add(half * LANES / HALVES)) }
}

/// The integers of half of a panel.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn ints<T>(row: &[T; LANES], half: usize) -> __m256i {
    const { assert!(size_of::<T>() == 4) };
    // SAFETY: as above.
    unsafe { _mm256_loadu_si256(row.as_ptr().add(half * LANES / HALVES).cast()) }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn tile<W: Weight, D: Dots>(w: *const Chunk, x: &PanelChunk, n32: usize, accs: *mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        let out = &mut *accs;
        let mut acc = [[_mm256_setzero_ps(); HALVES]; ROWS];
        for r in 0..ROWS {
            for h in 0..HALVES {
                acc[r][h] = floats(&out[r], h);
            }
        }
        match W::KIND {
            Kind::Blocks => blocks::<W, D>(w, x, n32, &mut acc),
            Kind::Integer => integer::<W, D>(w, x, &mut acc, accs),
            Kind::LaneBlocks | Kind::Lanes => unreachable!("these kinds have kernels of their own"),
            Kind::Groups => groups::<W, D>(w, x, n32, &mut acc),
        }
        for r in 0..ROWS {
            for h in 0..HALVES {
                _mm256_storeu_ps(out[r].as_mut_ptr().add(h * LANES / HALVES), acc[r][h]);
            }
        }
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn blocks<W: Weight, D: Dots>(w: *const Chunk, x: &PanelChunk, n32: usize, acc: &mut Tile<__m256>) {
    // SAFETY: this function's contract.
    unsafe {
        for g in 0..n32 {
            let t = products::<W, D, 8>(w, x, g);
            for r in 0..ROWS {
                let scale = _mm256_set1_ps((*w.add(r)).scale[g]);
                for h in 0..HALVES {
                    let d = _mm256_mul_ps(scale, floats(&x.d[g], h));
                    acc[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(t[r][h]), d, acc[r][h]);
                }
            }
            if W::MINS {
                for r in 0..ROWS {
                    let min = _mm256_set1_ps((*w.add(r)).min[g]);
                    for h in 0..HALVES {
                        acc[r][h] = _mm256_fmadd_ps(min, floats(&x.s[g], h), acc[r][h]);
                    }
                }
            }
        }
    }
}

/// Continues the sums in `acc` and those of minima, if there are some, in the second of `accs`.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn integer<W: Weight, D: Dots>(
    w: *const Chunk,
    x: &PanelChunk,
    acc: &mut Tile<__m256>,
    accs: *mut Acc,
) {
    // SAFETY: this function's contract.
    unsafe {
        let mut total = [[_mm256_setzero_si256(); HALVES]; ROWS];
        if W::MINS || D::VNNI || !wide::<W>() {
            for pair in 0..CHUNK / W::GROUP / 2 {
                add_groups::<D>(&mut total, w, x, pair);
            }
        }
        if W::MINS {
            let low = &mut *accs.add(1);
            for r in 0..ROWS {
                let dmin = _mm256_set1_ps((*w.add(r)).dmin);
                for h in 0..HALVES {
                    let d = _mm256_mul_ps(dmin, floats(&x.d[0], h));
                    let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(total[r][h]), d, floats(&low[r], h));
                    _mm256_storeu_ps(low[r].as_mut_ptr().add(h * LANES / HALVES), sum);
                }
            }
            total = [[_mm256_setzero_si256(); HALVES]; ROWS];
        }
        for g in 0..CHUNK / W::GROUP {
            if D::VNNI {
                if W::GROUP == 16 {
                    add_scaled_products::<D, 4>(&mut total, w, x, g);
                } else {
                    add_scaled_products::<D, 8>(&mut total, w, x, g);
                }
                continue;
            }
            let mut scales = [_mm256_setzero_si256(); ROWS];
            for r in 0..ROWS {
                scales[r] = twice(&(*w.add(r)).scale_twice[g]);
            }
            if W::GROUP == 16 {
                add_products::<W, 4>(&mut total, w, x, g, &scales);
            } else {
                add_products::<W, 8>(&mut total, w, x, g, &scales);
            }
        }
        for r in 0..ROWS {
            let d = _mm256_set1_ps((*w.add(r)).d);
            for h in 0..HALVES {
                let d = _mm256_mul_ps(d, floats(&x.d[0], h));
                acc[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(total[r][h]), d, acc[r][h]);
            }
        }
    }
}

/// Adds what a pair of groups has in `int_min`.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
pub(super) unsafe fn add_groups<D: Dots>(
    t: &mut Tile<__m256i>,
    w: *const Chunk,
    x: &PanelChunk,
    pair: usize,
) {
    // SAFETY: this function's contract.
    unsafe {
        for r in 0..ROWS {
            let both = (*w.add(r)).int_min.as_ptr().cast::<i32>().add(pair).read_unaligned();
            for h in 0..HALVES {
                t[r][h] = D::pairs(t[r][h], _mm256_set1_epi32(both), ints(&x.sums[pair], h));
            }
        }
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn groups<W: Weight, D: Dots>(w: *const Chunk, x: &PanelChunk, n32: usize, acc: &mut Tile<__m256>) {
    // SAFETY: this function's contract.
    unsafe {
        let block = W::ACTIVATION_QUANT.block();
        for b in 0..32 * n32 / block {
            let mut inner = [[_mm256_setzero_ps(); HALVES]; ROWS];
            for g in b * block / 16..(b + 1) * block / 16 {
                let t = products::<W, D, 4>(w, x, g);
                for r in 0..ROWS {
                    let scale = _mm256_set1_ps((*w.add(r)).scale[g]);
                    for h in 0..HALVES {
                        inner[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(t[r][h]), scale, inner[r][h]);
                    }
                }
            }
            for r in 0..ROWS {
                for h in 0..HALVES {
                    acc[r][h] = _mm256_fmadd_ps(floats(&x.d[b], h), inner[r][h], acc[r][h]);
                }
            }
        }
    }
}

/// Sums of products of group `g` of `4 * QUADS` values, with the offset taken back.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn products<W: Weight, D: Dots, const QUADS: usize>(
    w: *const Chunk,
    x: &PanelChunk,
    g: usize,
) -> Tile<__m256i> {
    // SAFETY: this function's contract.
    unsafe {
        let mut start = [_mm256_setzero_si256(); HALVES];
        if W::OFFSET != 0 && (D::VNNI || !wide::<W>()) {
            // The sums of two groups lie together in 32 bits; one of them is multiplied by zero.
            let offset = (-i32::from(W::OFFSET) & 0xffff) << (16 * (g % 2));
            for h in 0..HALVES {
                start[h] = _mm256_madd_epi16(_mm256_set1_epi32(offset), ints(&x.sums[g / 2], h));
            }
        }
        if D::VNNI {
            return raw_products::<D, QUADS>(w, x, g, start);
        }
        let mut t = [start; ROWS];
        add_products::<W, QUADS>(&mut t, w, x, g, &[_mm256_set1_epi16(1); ROWS]);
        t
    }
}

/// Adds the products of group `g` of `4 * QUADS` values times its scale, for CPUs with VNNI.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn add_scaled_products<D: Dots, const QUADS: usize>(
    total: &mut Tile<__m256i>,
    w: *const Chunk,
    x: &PanelChunk,
    g: usize,
) {
    // SAFETY: this function's contract.
    unsafe {
        let t = raw_products::<D, QUADS>(w, x, g, [_mm256_setzero_si256(); HALVES]);
        for r in 0..ROWS {
            let scale = _mm256_set1_epi32((*w.add(r)).int_scale[g]);
            for h in 0..HALVES {
                total[r][h] = _mm256_add_epi32(total[r][h], _mm256_mullo_epi32(t[r][h], scale));
            }
        }
    }
}

/// `start` plus the sums of products of group `g` of `4 * QUADS` values, whose codes are taken with their offset, for CPUs with VNNI.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn raw_products<D: Dots, const QUADS: usize>(
    w: *const Chunk,
    x: &PanelChunk,
    g: usize,
    start: [__m256i; HALVES],
) -> Tile<__m256i> {
    // SAFETY: this function's contract.
    unsafe {
        let mut t = [start; ROWS];
        for i in g * QUADS..(g + 1) * QUADS {
            let q = [ints(&x.qs[i], 0), ints(&x.qs[i], 1)];
            for r in 0..ROWS {
                let code = codes(w, r, i);
                for h in 0..HALVES {
                    t[r][h] = D::quads(t[r][h], code, q[h]);
                }
            }
        }
        t
    }
}

/// Adds the products of group `g` of `4 * QUADS` values times a factor of each row, which stands in it twice. Codes are taken
/// with their offset, if they are not [`wide`].
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn add_products<W: Weight, const QUADS: usize>(
    t: &mut Tile<__m256i>,
    w: *const Chunk,
    x: &PanelChunk,
    g: usize,
    factors: &[__m256i; ROWS],
) {
    // SAFETY: this function's contract. Sums of pairs of `FIT` products fit into 16 bits: `FIT·2·128·(2^BITS − 1) < 2^15`.
    unsafe {
        match W::BITS {
            0..=4 => add_short::<QUADS, QUADS>(t, w, x, g, factors),
            5 => add_short::<QUADS, 4>(t, w, x, g, factors),
            6 => add_short::<QUADS, 2>(t, w, x, g, factors),
            7 => unreachable!("no type has codes of seven bits"),
            _ => add_wide::<QUADS>(t, w, x, g, factors),
        }
    }
}

/// Products with codes of all eight bits, with their sign.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn add_wide<const QUADS: usize>(
    t: &mut Tile<__m256i>,
    w: *const Chunk,
    x: &PanelChunk,
    g: usize,
    factors: &[__m256i; ROWS],
) {
    // SAFETY: this function's contract.
    unsafe {
        for i in g * QUADS..(g + 1) * QUADS {
            let q = [ints(&x.qs[i], 0), ints(&x.qs[i], 1)];
            for r in 0..ROWS {
                let (code, size) = signed_codes(w, r, i);
                for h in 0..HALVES {
                    let pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(q[h], code));
                    t[r][h] = _mm256_add_epi32(t[r][h], _mm256_madd_epi16(pairs, factors[r]));
                }
            }
            keep_in_registers(t);
        }
    }
}

/// Products with codes of which the sums of pairs of `FIT` products fit into 16 bits.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn add_short<const QUADS: usize, const FIT: usize>(
    t: &mut Tile<__m256i>,
    w: *const Chunk,
    x: &PanelChunk,
    g: usize,
    factors: &[__m256i; ROWS],
) {
    // SAFETY: this function's contract.
    unsafe {
        let mut first = g * QUADS;
        while first < (g + 1) * QUADS {
            let mut pairs = [[_mm256_setzero_si256(); HALVES]; ROWS];
            for i in first..first + FIT {
                let q = [ints(&x.qs[i], 0), ints(&x.qs[i], 1)];
                for r in 0..ROWS {
                    let code = codes(w, r, i);
                    for h in 0..HALVES {
                        pairs[r][h] = _mm256_add_epi16(pairs[r][h], _mm256_maddubs_epi16(code, q[h]));
                    }
                }
                keep_in_registers(&mut pairs);
            }
            for r in 0..ROWS {
                for h in 0..HALVES {
                    t[r][h] = _mm256_add_epi32(t[r][h], _mm256_madd_epi16(pairs[r][h], factors[r]));
                }
            }
            first += FIT;
        }
    }
}

/// Codes `4 * i..4 * i + 4` of row `r`, for every row of activations.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
pub(super) unsafe fn codes(w: *const Chunk, r: usize, i: usize) -> __m256i {
    // SAFETY: this function's contract; `i` is less than 64.
    unsafe { four(&(*w.add(r)).codes, i) }
}

/// The same without their offset, and their absolute values, of types that use all eight bits.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
pub(super) unsafe fn signed_codes(w: *const Chunk, r: usize, i: usize) -> (__m256i, __m256i) {
    // SAFETY: as above.
    unsafe {
        let [codes, sizes] = &(*w.add(r)).tiles;
        (four(codes, i), four(sizes, i))
    }
}

/// Bytes `4 * i..4 * i + 4`, for every row of activations.
///
/// # Safety
/// The CPU has AVX2; `i` is less than 64, and `bytes` are aligned for numbers of 32 bits.
#[inline(always)]
unsafe fn four(bytes: &[u8; CHUNK], i: usize) -> __m256i {
    // SAFETY: this function's contract.
    unsafe { _mm256_set1_epi32(bytes.as_ptr().cast::<i32>().add(i).read()) }
}

/// Two numbers of 16 bits, for every row of activations.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn twice(both: &[i16; 2]) -> __m256i {
    // SAFETY: this function's contract; four bytes are read, at any address.
    unsafe { _mm256_set1_epi32(both.as_ptr().cast::<i32>().read_unaligned()) }
}

//! Four unpacked chunks times panels of sixteen rows of activations: a lane for each row of activations, so that integer
//! sums need no reduction and scales come in by one instruction for sixteen results.

use crate::kernels::matmul::weight::activation::PanelChunk;
use crate::kernels::matmul::weight::chunk::{CHUNK, Chunk};
use crate::kernels::matmul::weight::types::{Kind, Weight};
use crate::kernels::matmul::weight::{Acc, ROWS, accs};
use std::arch::x86_64::*;

/// Four chunks times one or two panels; continues the sums in `acc`.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VNNI. Pointers are valid, the chunks are those of `W`.
#[inline(always)]
pub(super) unsafe fn panels<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        let mut at = 0;
        while at + 2 <= x.len() {
            tile::<W, 2>(w, [x[at], x[at + 1]], n32, acc.add(at * accs::<W>()));
            at += 2;
        }
        if at < x.len() {
            tile::<W, 1>(w, [x[at]], n32, acc.add(at * accs::<W>()));
        }
    }
}

/// A register for each row of `W` and each panel.
pub(super) type Tile<T, const C: usize> = [[T; C]; ROWS];

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn tile<W: Weight, const C: usize>(
    w: *const Chunk,
    x: [*const PanelChunk; C],
    n32: usize,
    acc: *mut Acc,
) {
    // SAFETY: this function's contract; `acc` has an element for each panel.
    unsafe {
        let mut sums: Tile<__m512, C> = [[_mm512_setzero_ps(); C]; ROWS];
        for r in 0..ROWS {
            for c in 0..C {
                sums[r][c] = _mm512_loadu_ps((*acc.add(c * accs::<W>())).0[r].as_ptr());
            }
        }
        match W::KIND {
            Kind::Blocks => blocks::<W, C>(w, x, n32, &mut sums),
            Kind::Integer => integer::<W, C>(w, x, &mut sums, acc),
            Kind::LaneBlocks | Kind::Lanes => unreachable!("these kinds have kernels of their own"),
            Kind::Groups => groups::<W, C>(w, x, n32, &mut sums),
        }
        for r in 0..ROWS {
            for c in 0..C {
                _mm512_storeu_ps((*acc.add(c * accs::<W>())).0[r].as_mut_ptr(), sums[r][c]);
            }
        }
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn blocks<W: Weight, const C: usize>(
    w: *const Chunk,
    x: [*const PanelChunk; C],
    n32: usize,
    acc: &mut Tile<__m512, C>,
) {
    // SAFETY: this function's contract.
    unsafe {
        for g in 0..n32 {
            let t = products::<W, C, 8>(w, x, g);
            for c in 0..C {
                let d = _mm512_load_ps((*x[c]).d[g].as_ptr());
                for r in 0..ROWS {
                    let d = _mm512_mul_ps(_mm512_set1_ps((*w.add(r)).scale[g]), d);
                    acc[r][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(t[r][c]), d, acc[r][c]);
                }
                if W::MINS {
                    let s = _mm512_load_ps((*x[c]).s[g].as_ptr());
                    for r in 0..ROWS {
                        acc[r][c] = _mm512_fmadd_ps(_mm512_set1_ps((*w.add(r)).min[g]), s, acc[r][c]);
                    }
                }
            }
        }
    }
}

/// Continues the sums in `acc` and those of minima, if there are some, which are in the second [`Acc`] of each panel.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn integer<W: Weight, const C: usize>(
    w: *const Chunk,
    x: [*const PanelChunk; C],
    acc: &mut Tile<__m512, C>,
    panels: *mut Acc,
) {
    // SAFETY: this function's contract.
    unsafe {
        let mins = group_sums::<W, C>(w, x);
        // Without minima this is what the offset adds, to be taken back.
        let mut total = if W::MINS { [[_mm512_setzero_si512(); C]; ROWS] } else { mins };
        for g in 0..CHUNK / W::GROUP {
            let t = if W::GROUP == 16 {
                raw_products::<C, 4>(w, x, g, [_mm512_setzero_si512(); C])
            } else {
                raw_products::<C, 8>(w, x, g, [_mm512_setzero_si512(); C])
            };
            for r in 0..ROWS {
                let scale = _mm512_set1_epi32((*w.add(r)).int_scale[g]);
                for c in 0..C {
                    total[r][c] = _mm512_add_epi32(total[r][c], _mm512_mullo_epi32(t[r][c], scale));
                }
            }
        }
        for c in 0..C {
            let dx = _mm512_load_ps((*x[c]).d[0].as_ptr());
            for r in 0..ROWS {
                let d = _mm512_mul_ps(_mm512_set1_ps((*w.add(r)).d), dx);
                acc[r][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(total[r][c]), d, acc[r][c]);
            }
        }
        if W::MINS {
            add_minima::<W, C>(mins, w, x, panels);
        }
    }
}

/// The integer sums of minima, or of what the offset adds.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
pub(super) unsafe fn group_sums<W: Weight, const C: usize>(
    w: *const Chunk,
    x: [*const PanelChunk; C],
) -> Tile<__m512i, C> {
    // SAFETY: this function's contract.
    unsafe {
        let mut mins: Tile<__m512i, C> = [[_mm512_setzero_si512(); C]; ROWS];
        for pair in 0..CHUNK / W::GROUP / 2 {
            for c in 0..C {
                let sums = _mm512_load_si512((*x[c]).sums[pair].as_ptr().cast());
                for r in 0..ROWS {
                    let both = (*w.add(r)).int_min.as_ptr().cast::<i32>().add(pair).read();
                    mins[r][c] = _mm512_dpwssd_epi32(mins[r][c], _mm512_set1_epi32(both), sums);
                }
            }
        }
        mins
    }
}

/// Continues the chains of minima, in the second [`Acc`] of each panel.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
pub(super) unsafe fn add_minima<W: Weight, const C: usize>(
    mins: Tile<__m512i, C>,
    w: *const Chunk,
    x: [*const PanelChunk; C],
    acc: *mut Acc,
) {
    // SAFETY: this function's contract.
    unsafe {
        for c in 0..C {
            let dx = _mm512_load_ps((*x[c]).d[0].as_ptr());
            for r in 0..ROWS {
                let low = (*acc.add(accs::<W>() * c + 1)).0[r].as_mut_ptr();
                let d = _mm512_mul_ps(_mm512_set1_ps((*w.add(r)).dmin), dx);
                let sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(mins[r][c]), d, _mm512_loadu_ps(low));
                _mm512_storeu_ps(low, sum);
            }
        }
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn groups<W: Weight, const C: usize>(
    w: *const Chunk,
    x: [*const PanelChunk; C],
    n32: usize,
    acc: &mut Tile<__m512, C>,
) {
    // SAFETY: this function's contract.
    unsafe {
        let block = W::ACTIVATION_QUANT.block();
        for b in 0..32 * n32 / block {
            let mut inner: Tile<__m512, C> = [[_mm512_setzero_ps(); C]; ROWS];
            for g in b * block / 16..(b + 1) * block / 16 {
                let t = products::<W, C, 4>(w, x, g);
                for r in 0..ROWS {
                    let scale = _mm512_set1_ps((*w.add(r)).scale[g]);
                    for c in 0..C {
                        inner[r][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(t[r][c]), scale, inner[r][c]);
                    }
                }
            }
            for c in 0..C {
                let d = _mm512_load_ps((*x[c]).d[b].as_ptr());
                for r in 0..ROWS {
                    acc[r][c] = _mm512_fmadd_ps(d, inner[r][c], acc[r][c]);
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
unsafe fn products<W: Weight, const C: usize, const QUADS: usize>(
    w: *const Chunk,
    x: [*const PanelChunk; C],
    g: usize,
) -> Tile<__m512i, C> {
    // SAFETY: this function's contract.
    unsafe {
        let mut start = [_mm512_setzero_si512(); C];
        if W::OFFSET != 0 {
            // The sums of two groups lie together in 32 bits; one of them is multiplied by zero.
            let offset = (-i32::from(W::OFFSET) & 0xffff) << (16 * (g % 2));
            for c in 0..C {
                let sums = _mm512_load_si512((*x[c]).sums[g / 2].as_ptr().cast());
                start[c] = _mm512_dpwssd_epi32(start[c], _mm512_set1_epi32(offset), sums);
            }
        }
        raw_products::<C, QUADS>(w, x, g, start)
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn raw_products<const C: usize, const QUADS: usize>(
    w: *const Chunk,
    x: [*const PanelChunk; C],
    g: usize,
    start: [__m512i; C],
) -> Tile<__m512i, C> {
    // SAFETY: this function's contract.
    unsafe {
        let mut t = [start; ROWS];
        for i in g * QUADS..(g + 1) * QUADS {
            let mut q = [_mm512_setzero_si512(); C];
            for c in 0..C {
                q[c] = _mm512_load_si512((*x[c]).qs[i].as_ptr().cast());
            }
            for r in 0..ROWS {
                let four = (*w.add(r)).codes.as_ptr().cast::<i32>().add(i).read();
                let u = _mm512_set1_epi32(four);
                for c in 0..C {
                    t[r][c] = _mm512_dpbusd_epi32(t[r][c], u, q[c]);
                }
            }
        }
        t
    }
}

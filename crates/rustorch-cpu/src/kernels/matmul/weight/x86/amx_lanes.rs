//! Unpacked chunks of 32 rows of the weight times panels of sixteen rows of activations by AMX, with eight sums for each result.
//!
//! Within a chunk a lane has four values of every 32, whose codes are multiplied with the scales of their groups as they are unpacked: 32
//! products for each lane, integers, so that the bits are those of the other kernels. Lanes are worked on one after the other, each
//! over several chunks, so that the chains of sixteen rows and sixteen activations stay in registers.

use super::amx::{HEIGHT, PANELS, Sums, scaled, store};
use super::codes::Vectored;
use crate::kernels::matmul::weight::activation::{LANES, PanelChunk};
use crate::kernels::matmul::weight::chunk::{CHUNK, Chunk, unpack_scales};
use crate::kernels::matmul::weight::types::Weight;
use crate::kernels::matmul::weight::{Acc, LANE_ACCS, ROWS};
use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Chunks that a lane is summed over at a time: its codes stay in the first-level cache for all panels.
pub(super) const DEPTH: usize = 8;

/// Rows whose chains are in registers.
const HALF: usize = 16;

/// Bytes of a lane in [`Chunk::tiles`]: low bytes, then high ones.
const LANE_BYTES: usize = 2 * CHUNK / 8;

/// A lane of sixteen rows times activations, of two chunks: tiles of low and high bytes of one, then of the other.
///
/// # Safety
/// The CPU has AMX, whose registers are divided for rows of 32 bytes. Each chunk has fifteen behind it, and is one of activations likewise.
#[inline(always)]
unsafe fn products(w: [*const Chunk; 2], x: [*const PanelChunk; 2], lane: usize, to: *mut Sums) {
    let tiles = std::mem::offset_of!(Chunk, tiles) + lane * LANE_BYTES;
    let first = 4 * LANES * lane;
    // SAFETY: this function's contract; the compiler uses none of the registers.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tileloadd tmm6, [{x0} + {line}*8]",
            "tileloadd tmm4, [{w0} + {row}*1]",
            "tdpbusd tmm0, tmm4, tmm6",
            "tilezero tmm1",
            "tileloadd tmm5, [{w0} + {row}*1 + 32]",
            "tdpbssd tmm1, tmm5, tmm6",
            "tilezero tmm2",
            "tileloadd tmm7, [{x1} + {line}*8]",
            "tileloadd tmm4, [{w1} + {row}*1]",
            "tdpbusd tmm2, tmm4, tmm7",
            "tilezero tmm3",
            "tileloadd tmm5, [{w1} + {row}*1 + 32]",
            "tdpbssd tmm3, tmm5, tmm7",
            w0 = in(reg) w[0].cast::<u8>().wrapping_add(tiles),
            w1 = in(reg) w[1].cast::<u8>().wrapping_add(tiles),
            x0 = in(reg) x[0].cast::<u8>().wrapping_add(first),
            x1 = in(reg) x[1].cast::<u8>().wrapping_add(first),
            row = in(reg) size_of::<Chunk>(),
            line = in(reg) 4 * LANES,
            options(nostack),
        );
        store(to);
    }
}

/// Chunks of [`HEIGHT`] rows, and of the same rows so many chunks further on, times up to [`PANELS`] panels; continues the sums in `acc`:
/// for each quad and each of [`PANELS`], those of eight lanes and the minima.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VNNI, and AMX, whose registers are divided for rows of 32 bytes. Pointers are valid for `n32 / 8` chunks,
/// [`HEIGHT`] apart and one after the other, which [`unpack_row`] has made.
#[inline(always)]
pub(super) unsafe fn panels<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) {
    let chunks = n32 / (CHUNK / 32);
    for half in 0..HEIGHT / HALF {
        // SAFETY: this function's contract; a quad has sums for every panel.
        unsafe {
            let w = w.add(half * HALF);
            let acc = acc.add(half * HALF / ROWS * PANELS * LANE_ACCS);
            for lane in 0..8 {
                for (p, &panel) in x.iter().enumerate() {
                    // The next panel, or the next lane of the first.
                    let next =
                        x.get(p + 1).copied().unwrap_or(x[0].cast::<u8>().wrapping_add(4 * LANES).cast());
                    add_lane::<W>(w, [panel, next], chunks, lane, acc.add(p * LANE_ACCS + lane));
                }
            }
            if W::MINS {
                for (p, &x) in x.iter().enumerate() {
                    add_minima::<W>(w, x, chunks, acc.add(p * LANE_ACCS + 8));
                }
            }
        }
    }
}

/// The chain of row `r`, of the first row's at `acc`.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn row(acc: *mut Acc, r: usize) -> *mut f32 {
    // SAFETY: this function's contract.
    unsafe { (*acc.add(r / ROWS * PANELS * LANE_ACCS)).0[r % ROWS].as_mut_ptr() }
}

/// The chains of sixteen rows, in registers.
type Chains = [__m512; HALF];

/// Repeats what is done for each of sixteen rows: the compiler leaves some such loops as they are, with chains in memory.
macro_rules! each_row {
    (|$r:ident| $body:block) => {
        each_row!(@ $r $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $r:ident $body:block $($row:literal)*) => {{
        $({
            const $r: usize = $row;
            $body
        })*
    }};
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn load_chains(acc: *mut Acc) -> Chains {
    // SAFETY: this function's contract.
    unsafe {
        let mut chains = [_mm512_setzero_ps(); HALF];
        each_row!(|R| { chains[R] = _mm512_load_ps(row(acc, R)) });
        chains
    }
}

/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn store_chains(acc: *mut Acc, chains: Chains) {
    // SAFETY: this function's contract.
    unsafe { each_row!(|R| { _mm512_store_ps(row(acc, R), chains[R]) }) }
}

/// One lane of sixteen rows and a panel; asks for activations that come next.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn add_lane<W: Weight>(
    w: *const Chunk,
    [x, next]: [*const PanelChunk; 2],
    chunks: usize,
    lane: usize,
    acc: *mut Acc,
) {
    // SAFETY: this function's contract; sums are stored before they are read. What is asked for need not exist.
    unsafe {
        let mut sums = MaybeUninit::<Sums>::uninit();
        let mut chains = load_chains(acc);
        for c in (0..chunks).step_by(2) {
            // Of a last chunk without a second, its own sums are computed twice.
            let second = (c + 1).min(chunks - 1);
            let ahead = if c + 2 < chunks { x.wrapping_add(c + 2) } else { next };
            products(
                [w.add(c * HEIGHT), w.add(second * HEIGHT)],
                [x.add(c), x.add(second)],
                lane,
                sums.as_mut_ptr(),
            );
            let sums = &sums.assume_init_ref().0;
            for i in 0..(chunks - c).min(2) {
                let ([low, high], w, x) =
                    ([&sums[2 * i], &sums[2 * i + 1]], w.add((c + i) * HEIGHT), x.add(c + i));
                let ahead = ahead.wrapping_add(i).cast::<[[i8; 4]; LANES]>().wrapping_add(lane);
                let dx = _mm512_load_ps((*x).d[0].as_ptr());
                let groups = _mm512_load_si512((*x).sums[lane].as_ptr().cast());
                each_row!(|R| {
                    if R < 8 {
                        _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(8 * R).cast());
                    }
                    let w = w.add(R);
                    let mut sum = _mm512_load_si512(low[R].as_ptr().cast());
                    if W::GROUP_OFFSET {
                        let both = (*w).int_min.as_ptr().cast::<i32>().add(lane).read_unaligned();
                        sum = _mm512_dpwssd_epi32(sum, _mm512_set1_epi32(both), groups);
                    }
                    let high = _mm512_slli_epi32::<8>(_mm512_load_si512(high[R].as_ptr().cast()));
                    let sum = _mm512_cvtepi32_ps(_mm512_add_epi32(high, sum));
                    let d = _mm512_mul_ps(_mm512_set1_ps((*w).d), dx);
                    chains[R] = _mm512_fmadd_ps(d, sum, chains[R]);
                });
            }
        }
        store_chains(acc, chains);
    }
}

/// The minima of sixteen rows and a panel.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn add_minima<W: Weight>(w: *const Chunk, x: *const PanelChunk, chunks: usize, acc: *mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        let mut chains = load_chains(acc);
        for c in 0..chunks {
            let (w, x) = (w.add(c * HEIGHT), &*x.add(c));
            let dx = _mm512_load_ps(x.d[0].as_ptr());
            each_row!(|R| {
                let w = &*w.add(R);
                let mut sum = _mm512_setzero_si512();
                for pair in 0..CHUNK / W::GROUP / 2 {
                    let both = w.int_min.as_ptr().cast::<i32>().add(pair).read_unaligned();
                    let groups = _mm512_load_si512(x.sums[pair].as_ptr().cast());
                    sum = _mm512_dpwssd_epi32(sum, _mm512_set1_epi32(both), groups);
                }
                let d = _mm512_mul_ps(_mm512_set1_ps(w.dmin), dx);
                chains[R] = _mm512_fnmadd_ps(d, _mm512_cvtepi32_ps(sum), chains[R]);
            });
        }
        store_chains(acc, chains);
    }
}

/// The blocks of a row as chunks, `step` apart, with codes times scales in [`Chunk::tiles`].
///
/// # Safety
/// The CPU has AVX-512 F, BW and VL; `w` has `k` values in blocks of `W`, of 256 values, and there is room for their chunks.
#[inline(always)]
pub(super) unsafe fn unpack_row<W: Vectored>(w: *const u8, k: usize, out: *mut Chunk, step: usize) {
    for c in 0..k / CHUNK {
        // SAFETY: this function's contract; blocks have alignment 1.
        unsafe {
            let (block, chunk) = (&*w.cast::<W>().add(c), &mut *out.add(c * step));
            unpack_scales(std::slice::from_ref(block), chunk);
            let mut planes = [[0u8; CHUNK]; 2];
            scaled(block, if W::GROUP_OFFSET { 0 } else { W::OFFSET }, &chunk.scale_twice, &mut planes);
            for (plane, codes) in planes.iter().enumerate() {
                by_lanes(codes, chunk.tiles.as_flattened_mut().as_mut_ptr().add(32 * plane));
            }
        }
    }
}

/// Writes the four bytes that each lane has of every 32: those of a lane together, lanes [`LANE_BYTES`] apart.
///
/// # Safety
/// The CPU has AVX-512 F; there is room.
#[inline(always)]
unsafe fn by_lanes(codes: &[u8; CHUNK], to: *mut u8) {
    // SAFETY: this function's contract; a quarter of the codes fills a register.
    unsafe {
        let of = |quarter: usize| _mm512_loadu_si512(codes.as_ptr().add(CHUNK / 4 * quarter).cast());
        let quarters = [of(0), of(1), of(2), of(3)];
        // Of two quarters, four groups of 32, what two lanes have: the first lane's to places 0 and 4, the second's to 8 and 12.
        let first = _mm512_setr_epi32(0, 8, 16, 24, 0, 8, 16, 24, 1, 9, 17, 25, 1, 9, 17, 25);
        for pair in 0..4 {
            let at = _mm512_add_epi32(first, _mm512_set1_epi32(2 * pair as i32));
            let low = _mm512_permutex2var_epi32(quarters[0], at, quarters[1]);
            let high = _mm512_permutex2var_epi32(quarters[2], at, quarters[3]);
            let both = _mm512_mask_blend_epi32(0xf0f0, low, high);
            _mm256_storeu_si256(to.add(2 * pair * LANE_BYTES).cast(), _mm512_castsi512_si256(both));
            let second = _mm512_extracti64x4_epi64::<1>(both);
            _mm256_storeu_si256(to.add((2 * pair + 1) * LANE_BYTES).cast(), second);
        }
    }
}

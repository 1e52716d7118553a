//! Unpacked chunks of 32 rows of the weight times panels of sixteen rows of activations, by AMX.
//!
//! A tile has the integer sums of sixteen rows and sixteen activations, which AVX-512 scales and adds to the chains as the other kernels do,
//! in the same order: the bits are theirs. Where groups have integer scales, codes are multiplied with them as they are unpacked, and the
//! products are divided into two bytes, so that one tile sums many groups: `Σ sc·q·x = 256·Σ high·x + Σ low·x`.

use super::codes::Vectored;
use super::panel512;
use crate::kernels::matmul::amx::{self, Config};
use crate::kernels::matmul::weight::activation::{LANES, PanelChunk};
use crate::kernels::matmul::weight::chunk::{CHUNK, Chunk, unpack_scales};
use crate::kernels::matmul::weight::types::{Kind, Weight};
use crate::kernels::matmul::weight::{Acc, ROWS, accs};
use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Rows of the weight that are multiplied together, in quads of [`ROWS`]: a panel that comes from memory is multiplied with all of them.
pub(super) const QUADS: usize = HEIGHT / ROWS;
pub(super) const HEIGHT: usize = 32;

/// Panels that are multiplied together: chunks stay in the first-level cache for so long.
pub(super) const PANELS: usize = 4;

/// Whether AMX multiplies this type. Of blocks of 32 with eight sums for each result, a tile would have four products to sum.
pub(super) fn fits<W: Weight>() -> bool {
    matches!(W::KIND, Kind::Blocks | Kind::Integer | Kind::Lanes) && amx::exists()
}

/// Divides the registers: rows of 64 codes, or of 32 where those have a scale.
///
/// # Safety
/// The CPU has AMX; [`leave`] follows.
pub(super) unsafe fn enter<W: Weight>() {
    static HALF: Config = Config::new(32);
    static FULL: Config = Config::new(64);
    // SAFETY: this function's contract.
    unsafe { if matches!(W::KIND, Kind::Integer) { FULL.enter() } else { HALF.enter() } }
}

/// Gives the registers back.
///
/// # Safety
/// The CPU has AMX.
pub(super) unsafe fn leave() {
    // SAFETY: this function's contract.
    unsafe { amx::leave() };
}

/// Four tiles: sums of sixteen rows, of sixteen activations each.
#[repr(C, align(64))]
pub(super) struct Sums(pub(super) [[[i32; LANES]; 16]; 4]);

/// Stores the tiles of sums.
///
/// # Safety
/// The CPU has AMX, whose registers [`enter`] has divided.
#[inline(always)]
pub(super) unsafe fn store(to: *mut Sums) {
    // SAFETY: this function's contract.
    unsafe {
        asm!(
            "tilestored [{to} + {line}*1], tmm0",
            "tilestored [{to} + {line}*1 + 1024], tmm1",
            "tilestored [{to} + {line}*1 + 2048], tmm2",
            "tilestored [{to} + {line}*1 + 3072], tmm3",
            to = in(reg) to,
            line = in(reg) 4 * LANES,
            options(nostack),
        );
    }
}

/// The low and the high bytes of sixteen rows, then those of the next sixteen, times activations. A tile is cleared right before its first
/// product: those that were cleared together are multiplied one after the other.
///
/// # Safety
/// The CPU has AMX, whose registers [`enter`] has divided for integers. The codes are those of a chunk with 31 more behind it.
#[inline(always)]
unsafe fn planes(codes: *const u8, x: *const i8, to: *mut Sums) {
    // SAFETY: this function's contract; the compiler uses none of the registers.
    unsafe {
        asm!(
            "tileloadd tmm6, [{x} + {line}*1]",
            "tilezero tmm0",
            "tileloadd tmm4, [{codes} + {row}*1]",
            "tdpbusd tmm0, tmm4, tmm6",
            "tilezero tmm1",
            "tileloadd tmm5, [{codes} + {row}*1 + 256]",
            "tdpbssd tmm1, tmm5, tmm6",
            "tilezero tmm2",
            "tileloadd tmm4, [{lower} + {row}*1]",
            "tdpbusd tmm2, tmm4, tmm6",
            "tilezero tmm3",
            "tileloadd tmm5, [{lower} + {row}*1 + 256]",
            "tdpbssd tmm3, tmm5, tmm6",
            "tileloadd tmm6, [{x} + {line}*1 + 1024]",
            "tileloadd tmm4, [{codes} + {row}*1 + 64]",
            "tdpbusd tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{codes} + {row}*1 + 320]",
            "tdpbssd tmm1, tmm5, tmm6",
            "tileloadd tmm4, [{lower} + {row}*1 + 64]",
            "tdpbusd tmm2, tmm4, tmm6",
            "tileloadd tmm5, [{lower} + {row}*1 + 320]",
            "tdpbssd tmm3, tmm5, tmm6",
            "tileloadd tmm6, [{x} + {line}*1 + 2048]",
            "tileloadd tmm4, [{codes} + {row}*1 + 128]",
            "tdpbusd tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{codes} + {row}*1 + 384]",
            "tdpbssd tmm1, tmm5, tmm6",
            "tileloadd tmm4, [{lower} + {row}*1 + 128]",
            "tdpbusd tmm2, tmm4, tmm6",
            "tileloadd tmm5, [{lower} + {row}*1 + 384]",
            "tdpbssd tmm3, tmm5, tmm6",
            "tileloadd tmm6, [{x} + {line}*1 + 3072]",
            "tileloadd tmm4, [{codes} + {row}*1 + 192]",
            "tdpbusd tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{codes} + {row}*1 + 448]",
            "tdpbssd tmm1, tmm5, tmm6",
            "tileloadd tmm4, [{lower} + {row}*1 + 192]",
            "tdpbusd tmm2, tmm4, tmm6",
            "tileloadd tmm5, [{lower} + {row}*1 + 448]",
            "tdpbssd tmm3, tmm5, tmm6",
            codes = in(reg) codes,
            lower = in(reg) codes.wrapping_add(16 * size_of::<Chunk>()),
            x = in(reg) x,
            row = in(reg) size_of::<Chunk>(),
            line = in(reg) 4 * LANES,
            options(nostack),
        );
        store(to);
    }
}

/// Blocks that are multiplied together, one after the other: tiles are stored when they are all computed.
const FOUR: usize = 4;

/// Four blocks of sixteen rows times activations, each to a tile of its own.
///
/// # Safety
/// The CPU has AMX, whose registers [`enter`] has divided for blocks. There are four times 32 bytes in the rows of the chunk and of the 15
/// chunks behind it, and of activations.
#[inline(always)]
unsafe fn four_blocks(codes: *const u8, x: *const i8, to: *mut Sums) {
    // SAFETY: this function's contract; the compiler uses none of the registers.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tileloadd tmm6, [{x} + {line}*1]",
            "tileloadd tmm4, [{codes} + {row}*1]",
            "tdpbssd tmm0, tmm4, tmm6",
            "tilezero tmm1",
            "tileloadd tmm7, [{x} + {line}*1 + 512]",
            "tileloadd tmm5, [{codes} + {row}*1 + 32]",
            "tdpbssd tmm1, tmm5, tmm7",
            "tilezero tmm2",
            "tileloadd tmm6, [{x} + {line}*1 + 1024]",
            "tileloadd tmm4, [{codes} + {row}*1 + 64]",
            "tdpbssd tmm2, tmm4, tmm6",
            "tilezero tmm3",
            "tileloadd tmm7, [{x} + {line}*1 + 1536]",
            "tileloadd tmm5, [{codes} + {row}*1 + 96]",
            "tdpbssd tmm3, tmm5, tmm7",
            codes = in(reg) codes,
            x = in(reg) x,
            row = in(reg) size_of::<Chunk>(),
            line = in(reg) 4 * LANES,
            options(nostack),
        );
        store(to);
    }
}

/// Chunks of [`HEIGHT`] rows times up to [`PANELS`] panels; continues the sums in `acc`: of [`QUADS`] quads, [`accs`] of each of [`PANELS`].
///
/// # Safety
/// The CPU has AVX-512 F, BW and VNNI, and AMX, whose registers [`enter`] has divided. Pointers are valid, [`unpack_row`] has made the chunks.
#[inline(always)]
pub(super) unsafe fn panels<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) {
    // SAFETY: this function's contract.
    unsafe {
        for (p, &panel) in x.iter().enumerate() {
            // What comes next, of this panel or the first, and a part of the next chunks.
            let next = x.get(p + 1).copied().unwrap_or(x[0].wrapping_add(1));
            let ahead = Ahead { x: next, w: w.wrapping_add(HEIGHT), part: p, parts: x.len() };
            let acc = acc.add(p * accs::<W>());
            match W::KIND {
                Kind::Blocks => blocks::<W>(w, panel, n32, acc, ahead),
                _ => integer::<W>(w, panel, acc, ahead),
            }
        }
    }
}

/// What is asked for while sums are scaled.
#[derive(Clone, Copy)]
struct Ahead {
    x: *const PanelChunk,
    w: *const Chunk,
    part: usize,
    parts: usize,
}

impl Ahead {
    /// Asks for the part of row `r`, into the first-level cache.
    #[inline(always)]
    fn ask<W: Weight>(self, r: usize) {
        let tiles = self.w.wrapping_add(r).cast::<u8>().wrapping_add(std::mem::offset_of!(Chunk, tiles));
        let bytes = if matches!(W::KIND, Kind::Integer) { 2 * CHUNK } else { CHUNK };
        let codes = (tiles.wrapping_add(self.part * bytes / self.parts), bytes / self.parts);
        let x = (self.x.cast::<u8>().wrapping_add(r * CHUNK * LANES / HEIGHT), CHUNK * LANES / HEIGHT);
        for (from, bytes) in [codes, x] {
            for line in (0..bytes).step_by(64) {
                // SAFETY: a hint, of any address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(line).cast()) };
            }
        }
    }
}

/// The sums of row `r` in the first of the [`Acc`]s at `acc`.
///
/// # Safety
/// As [`panels`].
#[inline(always)]
unsafe fn row<W: Weight>(acc: *mut Acc, r: usize) -> *mut f32 {
    // SAFETY: this function's contract; a quad has sums for every panel.
    unsafe { (*acc.add(r / ROWS * PANELS * accs::<W>())).0[r % ROWS].as_mut_ptr() }
}

/// # Safety
/// As [`panels`], for one panel.
#[inline(always)]
unsafe fn blocks<W: Weight>(w: *const Chunk, x: *const PanelChunk, n32: usize, acc: *mut Acc, ahead: Ahead) {
    // SAFETY: this function's contract; sums are stored before they are read.
    unsafe {
        let mut sums = MaybeUninit::<Sums>::uninit();
        for half in 0..HEIGHT / 16 {
            let w = w.add(16 * half);
            let mut chains = [_mm512_setzero_ps(); 16];
            for (r, chain) in chains.iter_mut().enumerate() {
                *chain = _mm512_loadu_ps(row::<W>(acc, 16 * half + r));
            }
            for first in (0..n32).step_by(FOUR) {
                for r in 0..8 {
                    ahead.ask::<W>(16 * half + 2 * first + r);
                }
                // Sums past the last block are not used.
                four_blocks(
                    (&raw const (*w).tiles).cast::<u8>().add(32 * first),
                    (&raw const (*x).qs[8 * first]).cast(),
                    sums.as_mut_ptr(),
                );
                for (b, tile) in sums.assume_init_ref().0.iter().enumerate().take(n32 - first) {
                    let dx = _mm512_load_ps((*x).d[first + b].as_ptr());
                    for r in 0..16 {
                        let sum = _mm512_cvtepi32_ps(_mm512_load_si512(tile[r].as_ptr().cast()));
                        let d = _mm512_mul_ps(_mm512_set1_ps((*w.add(r)).scale[first + b]), dx);
                        chains[r] = _mm512_fmadd_ps(sum, d, chains[r]);
                    }
                    if W::MINS {
                        let s = _mm512_load_ps((*x).s[first + b].as_ptr());
                        for r in 0..16 {
                            let min = _mm512_set1_ps((*w.add(r)).min[first + b]);
                            chains[r] = _mm512_fmadd_ps(min, s, chains[r]);
                        }
                    }
                }
            }
            for (r, chain) in chains.iter().enumerate() {
                _mm512_storeu_ps(row::<W>(acc, 16 * half + r), *chain);
            }
        }
    }
}

/// # Safety
/// As [`panels`], for one panel.
#[inline(always)]
unsafe fn integer<W: Weight>(w: *const Chunk, x: *const PanelChunk, acc: *mut Acc, ahead: Ahead) {
    // SAFETY: this function's contract; sums are stored before they are read.
    unsafe {
        let mut sums = MaybeUninit::<Sums>::uninit();
        planes((&raw const (*w).tiles).cast(), (&raw const (*x).qs).cast(), sums.as_mut_ptr());
        let sums = &sums.assume_init_ref().0;
        let dx = _mm512_load_ps((*x).d[0].as_ptr());
        for r in 0..HEIGHT {
            ahead.ask::<W>(r);
            let [low, high] = [0, 1].map(|plane| sums[r / 16 * 2 + plane][r % 16].as_ptr());
            let high = _mm512_slli_epi32::<8>(_mm512_loadu_si512(high.cast()));
            let sum = _mm512_add_epi32(high, _mm512_loadu_si512(low.cast()));
            let d = _mm512_mul_ps(_mm512_set1_ps((*w.add(r)).d), dx);
            let to = row::<W>(acc, r);
            _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), d, _mm512_loadu_ps(to)));
        }
        if W::MINS {
            for quad in 0..QUADS {
                let w = w.add(quad * ROWS);
                let mins = panel512::group_sums::<W, 1>(w, [x]);
                panel512::add_minima::<W, 1>(mins, w, [x], acc.add(quad * PANELS * accs::<W>()));
            }
        }
    }
}

/// The blocks of a row as chunks, `step` apart, with codes in [`Chunk::tiles`].
///
/// # Safety
/// The CPU has AVX-512 F, BW and VL; `w` has `k` values in blocks of `W`, and there is room for their chunks.
#[inline(always)]
pub(super) unsafe fn unpack_row<W: Vectored>(w: *const u8, k: usize, out: *mut Chunk, step: usize) {
    // SAFETY: this function's contract; blocks have alignment 1.
    let blocks = unsafe { std::slice::from_raw_parts(w.cast::<W>(), k / W::LEN) };
    for (c, blocks) in blocks.chunks(CHUNK / W::LEN).enumerate() {
        // SAFETY: this function's contract.
        let chunk = unsafe { &mut *out.add(c * step) };
        unpack_scales(blocks, chunk);
        // SAFETY: this function's contract; each block has as many codes as its place in the chunk.
        unsafe {
            match W::KIND {
                Kind::Blocks => {
                    let offset = _mm256_set1_epi8(W::OFFSET as i8);
                    for (i, block) in blocks.iter().enumerate() {
                        let to = chunk.tiles[0].as_mut_ptr().add(32 * i);
                        _mm256_storeu_si256(to.cast(), _mm256_sub_epi8(block.codes(0), offset));
                    }
                }
                _ => scaled(&blocks[0], W::OFFSET, &chunk.scale_twice, &mut chunk.tiles),
            }
        }
    }
}

/// Writes codes less the offset times the scales of their groups: the low bytes, and the signed high bytes.
///
/// # Safety
/// As [`unpack_row`]; the block has 256 codes.
#[inline(always)]
pub(super) unsafe fn scaled<W: Vectored>(
    block: &W,
    offset: u8,
    scales: &[[i16; 2]; 16],
    planes: &mut [[u8; CHUNK]; 2],
) {
    // SAFETY: this function's contract.
    unsafe {
        let offset = _mm512_set1_epi16(offset.into());
        for i in 0..CHUNK / 32 {
            let codes = _mm512_sub_epi16(_mm512_cvtepu8_epi16(block.codes(i)), offset);
            let [first, second] = [scales[32 * i / W::GROUP][0], scales[(32 * i + 16) / W::GROUP][0]];
            let scales = _mm512_inserti64x4::<1>(_mm512_set1_epi16(first), _mm256_set1_epi16(second));
            let scaled = _mm512_mullo_epi16(codes, scales);
            let [low, high] = planes.each_mut().map(|plane| plane.as_mut_ptr().wrapping_add(32 * i));
            _mm256_storeu_si256(low.cast(), _mm512_cvtepi16_epi8(scaled));
            _mm256_storeu_si256(high.cast(), _mm512_cvtepi16_epi8(_mm512_srai_epi16::<8>(scaled)));
        }
    }
}

//! Sums in eight lanes, in plain Rust: what the vector kernels of [`Kind::LaneBlocks`] and [`Kind::Lanes`] have to equal bit
//! for bit.

use super::activation::{LANES, Row};
use super::chunk::{CHUNK, Chunk, scale_codes, unpack, unpack_scales};
use super::types::{Kind, Weight};
use super::{Acc, ROWS};
use crate::fused::mul_add;
use rustorch_quant::Codes;

/// Whether a type's sums are in lanes.
pub(super) const fn is<W: Weight>() -> bool {
    matches!(W::KIND, Kind::LaneBlocks | Kind::Lanes)
}

/// The sum of eight lanes: those four apart, then those two apart, then the last two.
#[inline(always)]
pub(super) fn sum(lanes: [f32; 8]) -> f32 {
    // No closure: it would be compiled for other instructions.
    let [a, b, c, d, e, f, g, h] = lanes;
    ((e + a) + (g + c)) + ((f + b) + (h + d))
}

/// An element of the product, from the sum of its lanes and the chain of its minima.
#[inline(always)]
pub(super) fn finish<W: Weight>(lanes: f32, min: f32) -> f32 {
    let lanes = W::FACTOR * lanes;
    if W::MINS || W::PLANES > 1 { mul_add(W::MIN_FACTOR, min, lanes) } else { lanes }
}

/// The results of four rows of the weight and a panel, from the sums that panels left; zeros instead of them.
pub(super) fn finish_panel<W: Weight>(accs: &mut [Acc], out: &mut Acc) {
    for r in 0..ROWS {
        for x in 0..LANES {
            out[r][x] = finish::<W>(sum(std::array::from_fn(|l| accs[l][r][x])), accs[8][r][x]);
        }
    }
    accs.fill(Acc::default());
}

/// Four rows of blocks times one row of activations.
///
/// # Safety
/// Each pointer has `k` values in blocks of `W`.
#[inline(always)]
pub(super) unsafe fn rows<W: Weight>(w: [*const u8; ROWS], k: usize, x: &Row<'_>, out: &mut [f32; ROWS]) {
    let mut chunk = Chunk::ZERO;
    for (w, out) in w.iter().zip(out) {
        // SAFETY: this function's contract; blocks have alignment 1.
        let blocks = unsafe { std::slice::from_raw_parts(w.cast::<W>(), k / W::LEN) };
        let (mut lanes, mut min) = ([[0.0f32; 8]; 2], 0.0f32);
        for (c, blocks) in blocks.chunks(CHUNK / W::LEN).enumerate() {
            match W::KIND {
                Kind::LaneBlocks => {
                    unpack(blocks, &mut chunk);
                    add_blocks::<W>(&chunk, x, c, blocks.len(), &mut lanes[0], &mut min);
                }
                _ => add_superblock(&blocks[0], x, c, (&mut lanes, &mut min), &mut chunk),
            }
        }
        let min = if W::PLANES > 1 { sum(lanes[1]) } else { min };
        *out = finish::<W>(sum(lanes[0]), min);
    }
}

/// Adds up to eight blocks of 32.
#[inline(always)]
fn add_blocks<W: Weight>(
    w: &Chunk,
    x: &Row<'_>,
    c: usize,
    blocks: usize,
    lanes: &mut [f32; 8],
    min: &mut f32,
) {
    for b in 0..blocks {
        let qs = &x.qs[c * CHUNK + 32 * b..][..32];
        let d = w.scale[b] * x.d[8 * c + b];
        for (l, lane) in lanes.iter_mut().enumerate() {
            let mut sum = 0;
            for v in 4 * l..4 * l + 4 {
                sum += (i32::from(w.codes[32 * b + v]) - i32::from(W::OFFSET)) * i32::from(qs[v]);
            }
            *lane = mul_add(d, sum as f32, *lane);
        }
        if W::MINS {
            *min = mul_add(w.min[b], x.s[8 * c + b], *min);
        }
    }
}

/// Adds a block of 256; `chunk` is room for unpacking it.
#[inline(always)]
fn add_superblock<W: Weight>(
    block: &W,
    x: &Row<'_>,
    c: usize,
    (lanes, min): (&mut [[f32; 8]; 2], &mut f32),
    chunk: &mut Chunk,
) {
    let mut codes = Codes::new();
    block.expand(&mut codes);
    let scales = block.scales().0;
    unpack_scales(std::slice::from_ref(block), chunk);
    let d = chunk.d * x.d[c];
    for (plane, lanes) in lanes[..W::PLANES].iter_mut().enumerate() {
        scale_codes::<W>(&codes, &scales, plane, chunk);
        let sums = lane_sums::<W>(chunk, x, c);
        for (lane, sum) in lanes.iter_mut().zip(sums) {
            *lane = mul_add(d, sum as f32, *lane);
        }
    }
    if W::MINS {
        let groups = if W::GROUP == 16 { &x.sums16[16 * c..] } else { &x.sums32[8 * c..] };
        let sum: i32 =
            (0..CHUNK / W::GROUP).map(|g| i32::from(chunk.int_min[g]) * i32::from(groups[g])).sum();
        *min = mul_add(-(chunk.dmin * x.d[c]), sum as f32, *min);
    }
}

/// The lanes of `Σ sc·q·x` over chunk `c`.
#[inline(always)]
fn lane_sums<W: Weight>(w: &Chunk, x: &Row<'_>, c: usize) -> [i32; 8] {
    let mut sums = [0; 8];
    if W::GROUP_OFFSET {
        for (l, sum) in sums.iter_mut().enumerate() {
            for g in [2 * l, 2 * l + 1] {
                *sum += i32::from(w.int_min[g]) * i32::from(x.sums16[16 * c + g]);
            }
        }
    }
    for (b, halves) in w.scaled.iter().enumerate() {
        let qs = &x.qs[c * CHUNK + 32 * b..][..32];
        for (odd, pairs) in halves.iter().enumerate() {
            for (l, sum) in sums.iter_mut().enumerate() {
                let [first, second] = pairs[l];
                *sum += i32::from(first) * i32::from(qs[4 * l + odd])
                    + i32::from(second) * i32::from(qs[4 * l + odd + 2]);
            }
        }
    }
    sums
}

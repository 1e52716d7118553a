//! The arithmetic in plain Rust: what every other kernel has to equal bit for bit. Kinds of eight lanes are in [`lanes`].

use super::activation::{LANES, PanelChunk, Row};
use super::chunk::{CHUNK, Chunk, unpack};
use super::types::{Kind, Weight};
use super::{Acc, ROWS, accs, lanes};
use crate::fused::mul_add;

/// Four rows of blocks times one row of activations.
///
/// # Safety
/// Each pointer has `k` values in blocks of `W`.
#[inline(always)]
pub(super) unsafe fn rows<W: Weight>(w: [*const u8; ROWS], k: usize, x: &Row<'_>, out: &mut [f32; ROWS]) {
    if const { lanes::is::<W>() } {
        // SAFETY: this function's contract.
        return unsafe { lanes::rows::<W>(w, k, x, out) };
    }
    let mut chunk = Chunk::ZERO;
    for (w, out) in w.iter().zip(out) {
        // SAFETY: this function's contract; blocks have alignment 1.
        let blocks = unsafe { std::slice::from_raw_parts(w.cast::<W>(), k / W::LEN) };
        let (mut acc, mut min) = (0.0, 0.0);
        for (c, blocks) in blocks.chunks(CHUNK / W::LEN).enumerate() {
            unpack(blocks, &mut chunk);
            dot::<W>(&chunk, x, c, blocks.len() * W::LEN / 32, (&mut acc, &mut min));
        }
        *out = if matches!(W::KIND, Kind::Integer) && W::MINS { acc - min } else { acc };
    }
}

/// Adds chunk `c` of a row, which has `n32` times 32 values.
#[inline(always)]
fn dot<W: Weight>(w: &Chunk, x: &Row<'_>, c: usize, n32: usize, (acc, low): (&mut f32, &mut f32)) {
    let qs = &x.qs[c * CHUNK..];
    match W::KIND {
        Kind::LaneBlocks | Kind::Lanes => unreachable!("these kinds have kernels of their own"),
        Kind::Blocks => {
            for g in 0..n32 {
                let sum = products(&w.codes[32 * g..][..32], &qs[32 * g..][..32])
                    - i32::from(W::OFFSET) * i32::from(x.sums32[8 * c + g]);
                *acc = mul_add(sum as f32, w.scale[g] * x.d[8 * c + g], *acc);
                if W::MINS {
                    *acc = mul_add(w.min[g], x.s[8 * c + g], *acc);
                }
            }
        }
        Kind::Integer => {
            let n = W::GROUP;
            let sums = if n == 16 { &x.sums16[16 * c..] } else { &x.sums32[8 * c..] };
            let (mut sum, mut min) = (0, 0);
            for g in 0..CHUNK / n {
                sum += w.int_scale[g] * products(&w.codes[n * g..][..n], &qs[n * g..][..n]);
                min += i32::from(w.int_min[g]) * i32::from(sums[g]);
            }
            if W::MINS {
                *low = mul_add(min as f32, w.dmin * x.d[c], *low);
            } else {
                sum += min;
            }
            *acc = mul_add(sum as f32, w.d * x.d[c], *acc);
        }
        Kind::Groups => {
            let block = W::ACTIVATION_QUANT.block();
            for b in 0..32 * n32 / block {
                let mut inner = 0.0f32;
                for g in b * block / 16..(b + 1) * block / 16 {
                    let sum = products(&w.codes[16 * g..][..16], &qs[16 * g..][..16])
                        - i32::from(W::OFFSET) * i32::from(x.sums16[16 * c + g]);
                    inner = mul_add(sum as f32, w.scale[g], inner);
                }
                *acc = mul_add(x.d[c * (CHUNK / block) + b], inner, *acc);
            }
        }
    }
}

#[inline(always)]
fn products(codes: &[u8], qs: &[i8]) -> i32 {
    codes.iter().zip(qs).map(|(&u, &q)| i32::from(u) * i32::from(q)).sum()
}

/// The blocks of a row as chunks, `step` apart.
///
/// # Safety
/// `w` has `k` values in blocks of `W`, and there is room for their chunks.
#[inline(always)]
pub(super) unsafe fn unpack_row<W: Weight>(w: *const u8, k: usize, out: *mut Chunk, step: usize) {
    // SAFETY: this function's contract; blocks have alignment 1.
    let blocks = unsafe { std::slice::from_raw_parts(w.cast::<W>(), k / W::LEN) };
    for (c, blocks) in blocks.chunks(CHUNK / W::LEN).enumerate() {
        // SAFETY: this function's contract.
        unpack(blocks, unsafe { &mut *out.add(c * step) });
    }
}

/// The results of a panel of [`Kind::Integer`].
pub(super) fn subtract_minima(accs: &mut [Acc], out: &mut Acc) {
    for r in 0..ROWS {
        for l in 0..LANES {
            out[r][l] = accs[0][r][l] - accs[1][r][l];
        }
    }
    accs.fill(Acc::default());
}

/// Four chunks times panels of sixteen rows: continues the sums in `acc`, [`accs`] of four rows for each panel.
///
/// # Safety
/// Pointers are valid; the chunks are those of `W`.
pub(super) unsafe fn panels<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) {
    for (p, x) in x.iter().enumerate() {
        // SAFETY: this function's contract.
        let (x, acc) =
            unsafe { (&**x, std::slice::from_raw_parts_mut(acc.add(p * accs::<W>()), accs::<W>())) };
        let (acc, low) = acc.split_at_mut(1);
        for (r, acc) in acc[0].iter_mut().enumerate() {
            // SAFETY: this function's contract.
            panel::<W>(unsafe { &*w.add(r) }, x, n32, acc, low.first_mut().map(|low| &mut low[r]));
        }
    }
}

fn panel<W: Weight>(
    w: &Chunk,
    x: &PanelChunk,
    n32: usize,
    acc: &mut [f32; LANES],
    low: Option<&mut [f32; LANES]>,
) {
    let offset = i32::from(W::OFFSET);
    match W::KIND {
        Kind::LaneBlocks | Kind::Lanes => unreachable!("these kinds have kernels of their own"),
        Kind::Blocks => {
            for g in 0..n32 {
                let mut sum = lane_products::<32>(w, x, g);
                for l in 0..LANES {
                    sum[l] -= offset * i32::from(x.sums[g / 2][l][g % 2]);
                    acc[l] = mul_add(sum[l] as f32, w.scale[g] * x.d[g][l], acc[l]);
                    if W::MINS {
                        acc[l] = mul_add(w.min[g], x.s[g][l], acc[l]);
                    }
                }
            }
        }
        Kind::Integer => {
            let (mut sum, mut min) = ([0; LANES], [0; LANES]);
            for g in 0..CHUNK / W::GROUP {
                let part =
                    if W::GROUP == 16 { lane_products::<16>(w, x, g) } else { lane_products::<32>(w, x, g) };
                for l in 0..LANES {
                    sum[l] += w.int_scale[g] * part[l];
                    min[l] += i32::from(w.int_min[g]) * i32::from(x.sums[g / 2][l][g % 2]);
                }
            }
            match low {
                Some(low) => {
                    for l in 0..LANES {
                        low[l] = mul_add(min[l] as f32, w.dmin * x.d[0][l], low[l]);
                    }
                }
                None => {
                    for l in 0..LANES {
                        sum[l] += min[l];
                    }
                }
            }
            for l in 0..LANES {
                acc[l] = mul_add(sum[l] as f32, w.d * x.d[0][l], acc[l]);
            }
        }
        Kind::Groups => {
            let block = W::ACTIVATION_QUANT.block();
            for b in 0..32 * n32 / block {
                let mut inner = [0.0f32; LANES];
                for g in b * block / 16..(b + 1) * block / 16 {
                    let sum = lane_products::<16>(w, x, g);
                    for l in 0..LANES {
                        let sum = sum[l] - offset * i32::from(x.sums[g / 2][l][g % 2]);
                        inner[l] = mul_add(sum as f32, w.scale[g], inner[l]);
                    }
                }
                for l in 0..LANES {
                    acc[l] = mul_add(x.d[b][l], inner[l], acc[l]);
                }
            }
        }
    }
}

/// The sums of products of group `g` of `N` values, for each row of the panel.
fn lane_products<const N: usize>(w: &Chunk, x: &PanelChunk, g: usize) -> [i32; LANES] {
    let mut sum = [0; LANES];
    for (i, x) in x.qs[g * N / 4..(g + 1) * N / 4].iter().enumerate() {
        let u = &w.codes[g * N + 4 * i..][..4];
        for l in 0..LANES {
            for j in 0..4 {
                sum[l] += i32::from(u[j]) * i32::from(x[l][j]);
            }
        }
    }
    sum
}

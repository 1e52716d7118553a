//! 256 values of a weight's row, unpacked for matmuls with many rows of activations.

use super::types::{Kind, Weight};
use rustorch_quant::Codes;

/// Values in a chunk. The last chunk of a row may have fewer, in steps of 32.
pub(crate) const CHUNK: usize = 256;

/// An unpacked chunk. Which fields have meaning depends on the type's [`Kind`].
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Chunk {
    /// Codes plus the type's offset (by the kernels of 64-bit Arm: signed, and without it). In the order of [`paired`] where the kernels say so.
    pub(crate) codes: [u8; CHUNK],
    /// Codes times the scales of their groups ([`Kind::Lanes`] whose codes are not [`small`], instead of `codes`):
    /// `[value / 32][value % 2][lane][value % 4 / 2]`, so that pairs are adjacent that have the same position in their
    /// pairs of activations.
    pub(crate) scaled: [[[[i16; 2]; 8]; 2]; CHUNK / 32],
    /// For tiles of AMX: codes without the offset ([`Kind::Blocks`], in the first place), or codes times the scales of their groups, the low
    /// bytes and the signed high bytes ([`Kind::Integer`]; with [`Kind::Lanes`] lane by lane, 32 bytes of each). For AVX2 without VNNI: codes of
    /// all eight bits without the offset, and their absolute values.
    #[cfg(target_arch = "x86_64")]
    pub(crate) tiles: [[u8; CHUNK]; 2],
    /// Scales: one for each 32 values ([`Kind::Blocks`], [`Kind::LaneBlocks`]) or 16 ([`Kind::Groups`]).
    pub(crate) scale: [f32; 16],
    /// Minima, for each 32 values ([`Kind::Blocks`], [`Kind::LaneBlocks`]).
    pub(crate) min: [f32; 8],
    /// Scales of groups ([`Kind::Integer`]).
    pub(crate) int_scale: [i32; 16],
    /// The same, twice each ([`Kind::Integer`]): for two sums of 16 bits.
    pub(crate) scale_twice: [[i16; 2]; 16],
    /// Scales ([`Kind::Lanes`]): `[value / 64][value % 32 / 16][value % 64 / 32]`, so that those are adjacent that a lane has in
    /// 32 values and in the next ones.
    pub(crate) scale_pairs: [[[i16; 2]; 2]; CHUNK / 64],
    /// What the sums of the activations of each group are multiplied with ([`Kind::Integer`]): minima, or else
    /// the scale times the negative of the offset, which is then part of the main sum.
    pub(crate) int_min: [i16; 16],
    /// Scale of the scales ([`Kind::Integer`], [`Kind::Lanes`]).
    pub(crate) d: f32,
    /// Scale of the minima ([`Kind::Integer`], [`Kind::Lanes`]).
    pub(crate) dmin: f32,
}

impl Chunk {
    pub(crate) const ZERO: Chunk = Chunk {
        codes: [0; CHUNK],
        scaled: [[[[0; 2]; 8]; 2]; CHUNK / 32],
        #[cfg(target_arch = "x86_64")]
        tiles: [[0; CHUNK]; 2],
        scale: [0.0; 16],
        min: [0.0; 8],
        int_scale: [0; 16],
        scale_twice: [[0; 2]; 16],
        scale_pairs: [[[0; 2]; 2]; CHUNK / 64],
        int_min: [0; 16],
        d: 0.0,
        dmin: 0.0,
    };
}

/// Whether sums of products of four codes with activations fit into 16 bits: the codes have six bits at most.
pub(crate) const fn small<W: Weight>() -> bool {
    W::BITS <= 6 && W::PLANES == 1
}

/// Values `4i..4i + 4` and `4i + 32..4i + 36` of a panel or of codes, in the order that kernels of [`small`] codes want, where they write them
/// in place of both: the first two of each, then the last two of each.
///
/// An instruction adds the products of two neighbours. The sum of two such vectors is then the sum of four products in each half of 32 bits, of which
/// the second belongs to the next group: another instruction multiplies both with their scales and adds them.
#[inline(always)]
pub(crate) fn paired<T: Copy>([a, b, c, d]: [T; 4], [e, f, g, h]: [T; 4]) -> [[T; 4]; 2] {
    [[a, b, e, f], [c, d, g, h]]
}

/// Unpacks up to 256 values; scales, minima and codes alike.
#[inline(always)]
pub(crate) fn unpack<W: Weight>(blocks: &[W], chunk: &mut Chunk) {
    let mut codes = Codes::new();
    for (i, block) in blocks.iter().enumerate() {
        block.expand(&mut codes);
        if matches!(W::KIND, Kind::Lanes) && !small::<W>() {
            scale_codes::<W>(&codes, &block.scales().0, 0, chunk);
            continue;
        }
        let at = i * W::LEN;
        for (to, from) in chunk.codes[at..at + W::LEN].iter_mut().zip(&codes.q[..W::LEN]) {
            *to = (*from as u8).wrapping_add(W::OFFSET);
        }
        if matches!(W::KIND, Kind::Groups) {
            chunk.scale[at / 16..(at + W::LEN) / 16].copy_from_slice(&codes.scale[..W::LEN / 16]);
        }
    }
    unpack_scales(blocks, chunk);
}

/// Writes the codes of a plane times their scales, for [`Kind::Lanes`].
#[inline(always)]
pub(crate) fn scale_codes<W: Weight>(codes: &Codes, scales: &[i8; 16], plane: usize, chunk: &mut Chunk) {
    for (b, to) in chunk.scaled.iter_mut().enumerate() {
        let mut values = [0i16; 32];
        for (v, value) in values.iter_mut().enumerate() {
            let at = 32 * b + v;
            let offset = if W::GROUP_OFFSET { i16::from(W::OFFSET) } else { 0 };
            let code = i16::from(W::code(codes.q[at], plane)) + offset;
            *value = code * i16::from(scales[at / W::GROUP]);
        }
        for lane in 0..8 {
            let [v0, v1, v2, v3] = [0, 1, 2, 3].map(|v| values[4 * lane + v]);
            to[0][lane] = [v0, v2];
            to[1][lane] = [v1, v3];
        }
    }
}

/// Unpacks the scales and minima of all kinds but [`Kind::Groups`].
#[inline(always)]
pub(crate) fn unpack_scales<W: Weight>(blocks: &[W], chunk: &mut Chunk) {
    match W::KIND {
        Kind::Blocks | Kind::LaneBlocks => {
            for (i, block) in blocks.iter().enumerate() {
                (chunk.scale[i], chunk.min[i]) = block.factors();
            }
        }
        Kind::Integer | Kind::Lanes => {
            let block = &blocks[0];
            (chunk.d, chunk.dmin) = block.factors();
            let (scales, mins) = block.scales();
            for i in 0..CHUNK / W::GROUP {
                chunk.int_scale[i] = i32::from(scales[i]);
                chunk.scale_twice[i] = [i16::from(scales[i]); 2];
                chunk.int_min[i] =
                    if W::MINS { i16::from(mins[i]) } else { -i16::from(W::OFFSET) * i16::from(scales[i]) };
            }
            for (p, halves) in chunk.scale_pairs.iter_mut().enumerate() {
                for (half, pair) in halves.iter_mut().enumerate() {
                    *pair = [0, 1].map(|i| i16::from(scales[(64 * p + 32 * i + 16 * half) / W::GROUP]));
                }
            }
        }
        Kind::Groups => {}
    }
}

//! Codes of each type in NEON registers.

use crate::kernels::matmul::weight::chunk::{CHUNK, Chunk, unpack_scales};
use crate::kernels::matmul::weight::types::{Kind, Weight};
use crate::simd::arm::widen4;
use rustorch_quant::{
    BlockIq4Nl, BlockIq4Xs, BlockMxfp4, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0,
    BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, BlockQ8_1, Codes, KVALUES_IQ4NL,
};
use std::arch::aarch64::*;

/// A block type whose codes can be unpacked in registers.
pub(crate) trait Vectored: Weight {
    /// Codes `32 * i..32 * i + 32`, without the offset, in order: products are of signed integers.
    ///
    /// # Safety
    /// The block has that many codes.
    unsafe fn codes(&self, i: usize) -> [int8x16_t; 2];

    /// Scales and minima of four blocks, as [`Weight::factors`].
    #[inline(always)]
    fn factors4(blocks: [&Self; 4]) -> (float32x4_t, float32x4_t) {
        let [a, b, c, d] = [blocks[0].halves(), blocks[1].halves(), blocks[2].halves(), blocks[3].halves()];
        (widen4([a.0, b.0, c.0, d.0]), widen4([a.1, b.1, c.1, d.1]))
    }

    /// The bits of scale and minimum as f16.
    fn halves(&self) -> (u16, u16);
}

/// What [`Kind::Lanes`] with [`Weight::GROUP_OFFSET`] multiplies: codes with their offset, which fit into signed bytes, since a lane
/// takes back the offsets of other values than its own.
pub(super) const fn raise<W: Weight>() -> i8 {
    if W::GROUP_OFFSET { W::OFFSET as i8 } else { 0 }
}

/// The blocks of a row as chunks, `step` apart, whose codes are signed.
///
/// # Safety
/// `w` has `k` values in blocks of `W`, and there is room for their chunks.
#[inline(always)]
pub(super) unsafe fn unpack_row<W: Vectored>(w: *const u8, k: usize, out: *mut Chunk, step: usize) {
    // SAFETY: this function's contract; blocks have alignment 1.
    let blocks = unsafe { std::slice::from_raw_parts(w.cast::<W>(), k / W::LEN) };
    for (c, blocks) in blocks.chunks(CHUNK / W::LEN).enumerate() {
        // SAFETY: this function's contract; a chunk holds 256 codes.
        unsafe {
            let chunk = &mut *out.add(c * step);
            let raise = vdupq_n_s8(raise::<W>());
            for (b, block) in blocks.iter().enumerate() {
                for i in 0..W::LEN / 32 {
                    let [low, high] = block.codes(i);
                    let to = chunk.codes.as_mut_ptr().add(b * W::LEN + 32 * i).cast::<i8>();
                    vst1q_s8(to, vaddq_s8(low, raise));
                    vst1q_s8(to.add(16), vaddq_s8(high, raise));
                }
            }
            unpack_scales(blocks, chunk);
        }
    }
}

/// The same for types whose codes are unpacked by portable code.
///
/// # Safety
/// As [`unpack_row`].
pub(super) unsafe fn plain_unpack_row<W: Weight>(w: *const u8, k: usize, out: *mut Chunk, step: usize) {
    let mut codes = Codes::new();
    // SAFETY: this function's contract; blocks have alignment 1.
    let blocks = unsafe { std::slice::from_raw_parts(w.cast::<W>(), k / W::LEN) };
    for (c, blocks) in blocks.chunks(CHUNK / W::LEN).enumerate() {
        // SAFETY: this function's contract.
        let chunk = unsafe { &mut *out.add(c * step) };
        for (b, block) in blocks.iter().enumerate() {
            block.expand(&mut codes);
            let at = b * W::LEN;
            for (to, &q) in chunk.codes[at..at + W::LEN].iter_mut().zip(&codes.q[..W::LEN]) {
                *to = (W::code(q, 0) + raise::<W>()) as u8;
            }
            if matches!(W::KIND, Kind::Groups) {
                chunk.scale[at / 16..(at + W::LEN) / 16].copy_from_slice(&codes.scale[..W::LEN / 16]);
            }
        }
        unpack_scales(blocks, chunk);
    }
}

/// Thirty-two bytes.
///
/// # Safety
/// They can be read.
#[inline(always)]
pub(super) unsafe fn load(from: *const u8) -> [uint8x16_t; 2] {
    // SAFETY: this function's contract.
    unsafe { [vld1q_u8(from), vld1q_u8(from.add(16))] }
}

/// Thirty-two activations.
///
/// # Safety
/// They can be read.
#[inline(always)]
pub(super) unsafe fn load_signed(from: *const i8) -> [int8x16_t; 2] {
    // SAFETY: this function's contract.
    unsafe { [vld1q_s8(from), vld1q_s8(from.add(16))] }
}

// SAFETY of the intrinsics below: every 64-bit Arm CPU has NEON.

/// Sixteen bytes as 32 nibbles: the low ones, then the high ones.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn nibbles(qs: *const u8) -> [uint8x16_t; 2] {
    // SAFETY: this function's contract.
    unsafe {
        let both = vld1q_u8(qs);
        [vandq_u8(both, vdupq_n_u8(15)), vshrq_n_u8::<4>(both)]
    }
}

/// Bits `at..` of each byte, as many as `mask` has.
#[inline(always)]
fn bits([low, high]: [uint8x16_t; 2], at: usize, mask: u8) -> [uint8x16_t; 2] {
    // SAFETY: see above. A shift to the left by a negative number is one to the right.
    unsafe {
        let (shift, mask) = (vdupq_n_s8(-(at as i8)), vdupq_n_u8(mask));
        [vandq_u8(vshlq_u8(low, shift), mask), vandq_u8(vshlq_u8(high, shift), mask)]
    }
}

/// `low` with `high` from bit `N` on.
#[inline(always)]
fn join<const N: i32>(low: [uint8x16_t; 2], high: [uint8x16_t; 2]) -> [uint8x16_t; 2] {
    // SAFETY: see above.
    unsafe { [vorrq_u8(low[0], vshlq_n_u8::<N>(high[0])), vorrq_u8(low[1], vshlq_n_u8::<N>(high[1]))] }
}

/// 16 added to each byte whose bit in `qh` is set.
#[inline(always)]
fn with_fifth_bits([low, high]: [uint8x16_t; 2], qh: [u8; 4]) -> [uint8x16_t; 2] {
    // SAFETY: see above.
    unsafe {
        let select = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
        let spread = |a: u8, b: u8| vcombine_u8(vdup_n_u8(a), vdup_n_u8(b));
        let (first, second) = (spread(qh[0], qh[1]), spread(qh[2], qh[3]));
        let sixteen = vdupq_n_u8(16);
        [
            vorrq_u8(low, vandq_u8(vtstq_u8(first, select), sixteen)),
            vorrq_u8(high, vandq_u8(vtstq_u8(second, select), sixteen)),
        ]
    }
}

/// Codes of which `offset` is taken.
#[inline(always)]
fn less([low, high]: [uint8x16_t; 2], offset: i8) -> [int8x16_t; 2] {
    // SAFETY: see above.
    unsafe {
        let offset = vdupq_n_s8(offset);
        [vsubq_s8(vreinterpretq_s8_u8(low), offset), vsubq_s8(vreinterpretq_s8_u8(high), offset)]
    }
}

/// The entries of a table of sixteen bytes.
#[inline(always)]
fn lookup(table: &[i8; 16], [low, high]: [uint8x16_t; 2]) -> [int8x16_t; 2] {
    // SAFETY: see above.
    unsafe {
        let table = vld1q_s8(table.as_ptr());
        [vqtbl1q_s8(table, low), vqtbl1q_s8(table, high)]
    }
}

/// The values of MXFP4's codes, doubled.
static E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

macro_rules! vectored {
    ($($block:ty: halves $halves:expr, |$b:ident, $i:ident| $codes:expr;)*) => {$(
        impl Vectored for $block {
            #[inline(always)]
            unsafe fn codes(&self, $i: usize) -> [int8x16_t; 2] {
                let $b = self;
                // SAFETY: the contract of the trait; fields have the bytes that are read.
                unsafe { $codes }
            }

            #[inline(always)]
            fn halves(&self) -> (u16, u16) {
                let halves: fn(&Self) -> (u16, u16) = $halves;
                halves(self)
            }
        }
    )*};
}

vectored! {
    BlockQ4_0: halves |b| (b.d.to_bits(), 0), |b, _i| less(nibbles(b.qs.as_ptr()), 8);
    BlockQ4_1: halves |b| (b.d.to_bits(), b.m.to_bits()), |b, _i| less(nibbles(b.qs.as_ptr()), 0);
    BlockQ5_0: halves |b| (b.d.to_bits(), 0), |b, _i| less(with_fifth_bits(nibbles(b.qs.as_ptr()), b.qh), 16);
    BlockQ5_1: halves |b| (b.d.to_bits(), b.m.to_bits()), |b, _i| {
        less(with_fifth_bits(nibbles(b.qs.as_ptr()), b.qh), 0)
    };
    BlockQ8_0: halves |b| (b.d.to_bits(), 0), |b, _i| load_signed(b.qs.as_ptr());
    BlockQ8_1: halves |b| (b.d.to_bits(), 0), |b, _i| load_signed(b.qs.as_ptr());
    BlockIq4Nl: halves |b| (b.d.to_bits(), 0), |b, _i| lookup(&KVALUES_IQ4NL, nibbles(b.qs.as_ptr()));
    BlockIq4Xs: halves |b| (b.d.to_bits(), 0), |b, i| {
        lookup(&KVALUES_IQ4NL, nibbles(b.qs.as_ptr().add(16 * i)))
    };
    BlockQ2K: halves |b| (b.d.to_bits(), b.dmin.to_bits()), |b, i| {
        less(bits(load(b.qs.as_ptr().add(32 * (i / 4))), 2 * (i % 4), 3), 0)
    };
    BlockQ3K: halves |b| (b.d.to_bits(), 0), |b, i| {
        let low = bits(load(b.qs.as_ptr().add(32 * (i / 4))), 2 * (i % 4), 3);
        less(join::<2>(low, bits(load(b.hmask.as_ptr()), i, 1)), 4)
    };
    BlockQ4K: halves |b| (b.d.to_bits(), b.dmin.to_bits()), |b, i| {
        less(bits(load(b.qs.as_ptr().add(32 * (i / 2))), 4 * (i % 2), 15), 0)
    };
    BlockQ5K: halves |b| (b.d.to_bits(), b.dmin.to_bits()), |b, i| {
        let low = bits(load(b.qs.as_ptr().add(32 * (i / 2))), 4 * (i % 2), 15);
        less(join::<4>(low, bits(load(b.qh.as_ptr()), i, 1)), 0)
    };
    BlockQ6K: halves |b| (b.d.to_bits(), 0), |b, i| {
        let low = bits(load(b.ql.as_ptr().add(64 * (i / 4) + 32 * (i % 2))), 4 * (i % 4 / 2), 15);
        let high = bits(load(b.qh.as_ptr().add(32 * (i / 4))), 2 * (i % 4), 3);
        less(join::<4>(low, high), 32)
    };
}

impl Vectored for BlockMxfp4 {
    #[inline(always)]
    unsafe fn codes(&self, _i: usize) -> [int8x16_t; 2] {
        // SAFETY: the contract of the trait; the field has sixteen bytes.
        unsafe { lookup(&E2M1, nibbles(self.qs.as_ptr())) }
    }

    #[inline(always)]
    fn factors4(blocks: [&Self; 4]) -> (float32x4_t, float32x4_t) {
        let scales =
            [blocks[0].factors().0, blocks[1].factors().0, blocks[2].factors().0, blocks[3].factors().0];
        // SAFETY: four floats.
        unsafe { (vld1q_f32(scales.as_ptr()), vdupq_n_f32(0.0)) }
    }

    fn halves(&self) -> (u16, u16) {
        (0, 0)
    }
}

//! The K types: superblocks of 256 values with quantized scales.

use bytemuck::{Pod, Zeroable};
use rustorch_core::QuantType;

use super::bits::{bit_planes, crumbs};
use super::{Block, Codes};
use crate::le::{F16Le, F32Le, I16Le};

/// Q2_K: `d * sc * q - dmin * m` in groups of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ2K {
    /// Per group: scale in the low, minimum in the high nibble.
    pub scales: [u8; 16],
    /// 2-bit codes: byte `l` of each 32 holds values `l`, `l+32`, `l+64`, `l+96` of a half.
    pub qs: [u8; 64],
    /// Scale of the scales.
    pub d: F16Le,
    /// Scale of the minima.
    pub dmin: F16Le,
}

impl Block for BlockQ2K {
    const TYPE: QuantType = QuantType::Q2_K;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        crumbs(&self.qs, &mut out.q);
        let (d, dmin) = (self.d.get(), self.dmin.get());
        for (g, &sc) in self.scales.iter().enumerate() {
            out.scale[g] = d * f32::from(sc & 15);
            out.min[g] = dmin * f32::from(sc >> 4);
        }
    }
}

/// Q3_K: `d * (sc - 32) * q` in groups of 16, `q` in -4..4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ3K {
    /// Third bits: bit `j` of byte `l` belongs to value `32 * j + l`; clear means -4.
    pub hmask: [u8; 32],
    /// Low two bits, laid out as in Q2_K.
    pub qs: [u8; 64],
    /// Sixteen 6-bit scales.
    pub scales: [u8; 12],
    /// Scale of the scales.
    pub d: F16Le,
}

impl Block for BlockQ3K {
    const TYPE: QuantType = QuantType::Q3_K;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        crumbs(&self.qs, &mut out.q);
        bit_planes(&self.hmask, 4, &mut out.q);
        out.q.iter_mut().for_each(|q| *q -= 4);
        let d = self.d.get();
        for (scale, sc) in out.scale.iter_mut().zip(self.unpack_scales()) {
            *scale = d * f32::from(sc);
        }
        out.min = [0.0; 16];
    }
}

/// Q4_K: `d * sc * q - dmin * m` in groups of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4K {
    /// Scale of the scales.
    pub d: F16Le,
    /// Scale of the minima.
    pub dmin: F16Le,
    /// Eight 6-bit scales and eight 6-bit minima.
    pub scales: [u8; 12],
    /// Nibbles: each 32 bytes hold 32 values low, then the next 32 high.
    pub qs: [u8; 128],
}

impl Block for BlockQ4K {
    const TYPE: QuantType = QuantType::Q4_K;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        nibbles_by_64(&self.qs, &mut out.q);
        affine_scales(self.d.get(), self.dmin.get(), &self.scales, out);
    }
}

/// Q5_K: `d * sc * q - dmin * m` in groups of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5K {
    /// Scale of the scales.
    pub d: F16Le,
    /// Scale of the minima.
    pub dmin: F16Le,
    /// Eight 6-bit scales and eight 6-bit minima.
    pub scales: [u8; 12],
    /// Fifth bits: bit `j` of byte `l` belongs to value `32 * j + l`.
    pub qh: [u8; 32],
    /// Low four bits, laid out as in Q4_K.
    pub qs: [u8; 128],
}

impl Block for BlockQ5K {
    const TYPE: QuantType = QuantType::Q5_K;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        nibbles_by_64(&self.qs, &mut out.q);
        bit_planes(&self.qh, 16, &mut out.q);
        affine_scales(self.d.get(), self.dmin.get(), &self.scales, out);
    }
}

/// Q6_K: `d * sc * (q - 32)` in groups of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ6K {
    /// Low four bits: each 64 bytes hold 64 values low, then the next 64 high.
    pub ql: [u8; 128],
    /// High two bits: byte `l` of each 32 holds values `l`, `l+32`, `l+64`, `l+96` of a half.
    pub qh: [u8; 64],
    /// Scale per group.
    pub scales: [i8; 16],
    /// Scale of the scales.
    pub d: F16Le,
}

impl Block for BlockQ6K {
    const TYPE: QuantType = QuantType::Q6_K;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        let mut high = [0; 256];
        crumbs(&self.qh, &mut high);
        for half in 0..2 {
            for l in 0..64 {
                let ql = self.ql[64 * half + l];
                let (lo, hi) = (128 * half + l, 128 * half + 64 + l);
                out.q[lo] = ((ql & 15) as i8 | high[lo] << 4) - 32;
                out.q[hi] = ((ql >> 4) as i8 | high[hi] << 4) - 32;
            }
        }
        let d = self.d.get();
        for (scale, &sc) in out.scale.iter_mut().zip(&self.scales) {
            *scale = d * f32::from(sc);
        }
        out.min = [0.0; 16];
    }
}

/// Q8_K: `d * q`; the activations that K types are multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8K {
    /// Scale.
    pub d: F32Le,
    /// The codes.
    pub qs: [i8; 256],
    /// Sum of the codes of each group of 16.
    pub bsums: [I16Le; 16],
}

impl Block for BlockQ8K {
    const TYPE: QuantType = QuantType::Q8_K;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        out.q = self.qs;
        out.set_scales(16, self.d.get());
    }
}

impl BlockQ3K {
    /// The sixteen scales, in -32..32.
    #[inline(always)]
    pub fn unpack_scales(&self) -> [i8; 16] {
        let mut scales = [0; 16];
        for (j, scale) in scales.iter_mut().enumerate() {
            let low = (self.scales[j % 8] >> (4 * (j / 8))) & 15;
            let high = (self.scales[8 + j % 4] >> (2 * (j / 4))) & 3;
            *scale = (low | high << 4) as i8 - 32;
        }
        scales
    }
}

/// The eight scales and eight minima, 6 bits each, that Q4_K and Q5_K pack into 12 bytes.
///
/// The first four of each are the low six bits of bytes 0..4 and 4..8; the others have their low four bits in bytes
/// 8..12 and their high two bits on top of the first four.
#[inline(always)]
pub fn unpack_scales_mins(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for j in 0..4 {
        scales[j] = packed[j] & 63;
        mins[j] = packed[4 + j] & 63;
        scales[4 + j] = (packed[8 + j] & 15) | (packed[j] >> 6) << 4;
        mins[4 + j] = (packed[8 + j] >> 4) | (packed[4 + j] >> 6) << 4;
    }
    (scales, mins)
}

/// The inverse of [`unpack_scales_mins`]. Only the low six bits of each number are kept.
pub fn pack_scales_mins(scales: &[u8; 8], mins: &[u8; 8]) -> [u8; 12] {
    let mut packed = [0; 12];
    for j in 0..4 {
        packed[j] = (scales[j] & 63) | (scales[4 + j] & 0x30) << 2;
        packed[4 + j] = (mins[j] & 63) | (mins[4 + j] & 0x30) << 2;
        packed[8 + j] = (scales[4 + j] & 15) | (mins[4 + j] & 15) << 4;
    }
    packed
}

#[inline(always)]
fn affine_scales(d: f32, dmin: f32, packed: &[u8; 12], out: &mut Codes) {
    let (scales, mins) = unpack_scales_mins(packed);
    for j in 0..8 {
        let (scale, min) = (d * f32::from(scales[j]), dmin * f32::from(mins[j]));
        out.scale[2 * j..2 * j + 2].fill(scale);
        out.min[2 * j..2 * j + 2].fill(min);
    }
}

/// Each 32 bytes are 32 values in the low nibbles, then the next 32 in the high ones.
#[inline(always)]
fn nibbles_by_64(qs: &[u8; 128], q: &mut [i8; 256]) {
    for part in 0..4 {
        for l in 0..32 {
            let byte = qs[32 * part + l];
            q[64 * part + l] = (byte & 15) as i8;
            q[64 * part + 32 + l] = (byte >> 4) as i8;
        }
    }
}

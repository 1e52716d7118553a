//! The 4-bit floating-point types (E2M1).

use bytemuck::{Pod, Zeroable};
use rustorch_core::QuantType;

use super::bits::nibbles;
use super::{Block, Codes};

/// MXFP4 of the OCP microscaling formats: `2^(e - 127) * e2m1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockMxfp4 {
    /// The exponent that the values share (E8M0).
    pub e: u8,
    /// E2M1 codes: values 0..16 in the low nibbles, 16..32 in the high ones.
    pub qs: [u8; 16],
}

impl Block for BlockMxfp4 {
    const TYPE: QuantType = QuantType::MXFP4;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        nibbles(&self.qs, &mut out.q);
        out.q[..32].iter_mut().for_each(|q| *q = e2m1_doubled(*q));
        out.set_scales(2, e8m0_halved(self.e));
    }
}

/// NVFP4: four groups of 16 values, `ue4m3 * e2m1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockNvfp4 {
    /// A scale per group: E4M3 without a sign.
    pub d: [u8; 4],
    /// E2M1 codes: each 8 bytes hold a group, 8 values in the low nibbles, 8 in the high ones.
    pub qs: [u8; 32],
}

impl Block for BlockNvfp4 {
    const TYPE: QuantType = QuantType::NVFP4;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        for (group, qs) in self.qs.chunks_exact(8).enumerate() {
            let q = &mut out.q[16 * group..][..16];
            for (i, &byte) in qs.iter().enumerate() {
                q[i] = (byte & 15) as i8;
                q[8 + i] = (byte >> 4) as i8;
            }
            out.scale[group] = ue4m3_halved(self.d[group]);
            out.min[group] = 0.0;
        }
        out.q[..64].iter_mut().for_each(|q| *q = e2m1_doubled(*q));
    }
}

/// Twice the value of a 4-bit E2M1 code, hence an integer: 0 1 2 3 4 6 8 12 and the negatives of these.
///
/// Computed, not looked up, so that a loop over it vectorises.
#[inline(always)]
pub(crate) fn e2m1_doubled(code: i8) -> i8 {
    let m = code & 7;
    let magnitude = m + (m - 4).max(0) + 2 * i8::from(m == 7);
    if code & 8 == 0 { magnitude } else { -magnitude }
}

/// Half of `2^(e - 127)`, which goes with the doubled values; the two smallest are subnormal.
#[inline(always)]
pub(crate) fn e8m0_halved(e: u8) -> f32 {
    let bits = if e < 2 { 0x0020_0000 << e } else { (u32::from(e) - 1) << 23 };
    f32::from_bits(bits)
}

/// Half of an unsigned E4M3 value, which goes with the doubled values. 0x7f, E4M3's NaN, counts as zero; the top bit
/// is ignored otherwise, as ggml does.
#[inline(always)]
pub(crate) fn ue4m3_halved(x: u8) -> f32 {
    if x == 0x7f {
        return 0.0;
    }
    let (exponent, mantissa) = (u32::from(x >> 3 & 15), u32::from(x & 7));
    if exponent == 0 {
        mantissa as f32 * f32::from_bits((127 - 10) << 23)
    } else {
        f32::from_bits((exponent + 127 - 8) << 23 | mantissa << 20)
    }
}

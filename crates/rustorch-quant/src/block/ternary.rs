//! The types of at most two bits with one scale a block.

use bytemuck::{Pod, Zeroable};
use rustorch_core::QuantType;

use super::bits::crumbs;
use super::{Block, Codes};
use crate::le::F16Le;

/// TQ1_0: `d * t`, `t` in {-1, 0, 1}, five to a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockTq1_0 {
    /// 240 values in base 3, as the fraction `byte / 256`.
    pub qs: [u8; 48],
    /// The last 16 values, four to a byte.
    pub qh: [u8; 4],
    /// Scale.
    pub d: F16Le,
}

impl Block for BlockTq1_0 {
    const TYPE: QuantType = QuantType::TQ1_0;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        // Multiplying the fraction by 3^n moves digit n to the front; the bits that overflow are the digits before it.
        let mut power = 1u8;
        for n in 0..5 {
            for i in 0..32 {
                out.q[32 * n + i] = first_trit(self.qs[i].wrapping_mul(power));
            }
            for i in 0..16 {
                out.q[160 + 16 * n + i] = first_trit(self.qs[32 + i].wrapping_mul(power));
            }
            if n < 4 {
                for i in 0..4 {
                    out.q[240 + 4 * n + i] = first_trit(self.qh[i].wrapping_mul(power));
                }
            }
            power = power.wrapping_mul(3);
        }
        out.set_scales(16, self.d.get());
    }
}

/// TQ2_0: `d * (q - 1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockTq2_0 {
    /// 2-bit codes: byte `l` of each 32 holds values `l`, `l+32`, `l+64`, `l+96` of a half.
    pub qs: [u8; 64],
    /// Scale.
    pub d: F16Le,
}

impl Block for BlockTq2_0 {
    const TYPE: QuantType = QuantType::TQ2_0;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        crumbs(&self.qs, &mut out.q);
        out.q.iter_mut().for_each(|q| *q -= 1);
        out.set_scales(16, self.d.get());
    }
}

/// Q1_0: `d` or `-d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ1_0 {
    /// Scale.
    pub d: F16Le,
    /// A bit per value, in order; set means positive.
    pub qs: [u8; 16],
}

impl Block for BlockQ1_0 {
    const TYPE: QuantType = QuantType::Q1_0;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        for (byte, q) in self.qs.iter().zip(out.q.chunks_exact_mut(8)) {
            for (bit, q) in q.iter_mut().enumerate() {
                *q = ((byte >> bit & 1) << 1) as i8 - 1;
            }
        }
        out.set_scales(8, self.d.get());
    }
}

/// Q2_0: `d * (q - 1)`, `q` in 0..4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ2_0 {
    /// Scale.
    pub d: F16Le,
    /// 2-bit codes, four consecutive values to a byte.
    pub qs: [u8; 16],
}

impl Block for BlockQ2_0 {
    const TYPE: QuantType = QuantType::Q2_0;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        for (byte, q) in self.qs.iter().zip(out.q.chunks_exact_mut(4)) {
            for (j, q) in q.iter_mut().enumerate() {
                *q = (byte >> (2 * j) & 3) as i8 - 1;
            }
        }
        out.set_scales(4, self.d.get());
    }
}

/// The first digit after the point, less one, of the base-3 fraction `byte / 256`.
#[inline(always)]
fn first_trit(byte: u8) -> i8 {
    ((u16::from(byte) * 3) >> 8) as i8 - 1
}

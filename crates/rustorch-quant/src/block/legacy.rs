//! The types of one scale per 32 values.

use bytemuck::{Pod, Zeroable};
use rustorch_core::QuantType;

use super::bits::{join_fifth_bits, nibbles};
use super::{Block, Codes};
use crate::le::F16Le;

/// Q4_0: `d * (nibble - 8)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4_0 {
    /// Scale.
    pub d: F16Le,
    /// Nibbles: values 0..16 low, 16..32 high.
    pub qs: [u8; 16],
}

impl Block for BlockQ4_0 {
    const TYPE: QuantType = QuantType::Q4_0;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        nibbles(&self.qs, &mut out.q);
        out.q[..32].iter_mut().for_each(|q| *q -= 8);
        out.set_scales(2, self.d.get());
    }
}

/// Q4_1: `d * nibble + m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4_1 {
    /// Scale.
    pub d: F16Le,
    /// Minimum, added.
    pub m: F16Le,
    /// Nibbles: values 0..16 low, 16..32 high.
    pub qs: [u8; 16],
}

impl Block for BlockQ4_1 {
    const TYPE: QuantType = QuantType::Q4_1;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        nibbles(&self.qs, &mut out.q);
        out.set_scales(2, self.d.get());
        out.min[..2].fill(-self.m.get());
    }
}

/// Q5_0: `d * (q - 16)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5_0 {
    /// Scale.
    pub d: F16Le,
    /// Fifth bits: bit `i` belongs to value `i`.
    pub qh: [u8; 4],
    /// Low four bits: values 0..16 low nibble, 16..32 high.
    pub qs: [u8; 16],
}

impl Block for BlockQ5_0 {
    const TYPE: QuantType = QuantType::Q5_0;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        nibbles(&self.qs, &mut out.q);
        join_fifth_bits(u32::from_le_bytes(self.qh), &mut out.q);
        out.q[..32].iter_mut().for_each(|q| *q -= 16);
        out.set_scales(2, self.d.get());
    }
}

/// Q5_1: `d * q + m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5_1 {
    /// Scale.
    pub d: F16Le,
    /// Minimum, added.
    pub m: F16Le,
    /// Fifth bits: bit `i` belongs to value `i`.
    pub qh: [u8; 4],
    /// Low four bits: values 0..16 low nibble, 16..32 high.
    pub qs: [u8; 16],
}

impl Block for BlockQ5_1 {
    const TYPE: QuantType = QuantType::Q5_1;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        nibbles(&self.qs, &mut out.q);
        join_fifth_bits(u32::from_le_bytes(self.qh), &mut out.q);
        out.set_scales(2, self.d.get());
        out.min[..2].fill(-self.m.get());
    }
}

/// Q8_0: `d * q`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8_0 {
    /// Scale.
    pub d: F16Le,
    /// The codes.
    pub qs: [i8; 32],
}

impl Block for BlockQ8_0 {
    const TYPE: QuantType = QuantType::Q8_0;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        out.q[..32].copy_from_slice(&self.qs);
        out.set_scales(2, self.d.get());
    }
}

/// Q8_1: `d * q`, with the sum that dot products with a minimum need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8_1 {
    /// Scale.
    pub d: F16Le,
    /// `d` times the sum of the codes.
    pub s: F16Le,
    /// The codes.
    pub qs: [i8; 32],
}

impl Block for BlockQ8_1 {
    const TYPE: QuantType = QuantType::Q8_1;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        out.q[..32].copy_from_slice(&self.qs);
        out.set_scales(2, self.d.get());
    }
}

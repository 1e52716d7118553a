//! The types of at most two bits with one scale a block.

use bytemuck::{Pod, Zeroable};

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

/// TQ2_0: `d * (q - 1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockTq2_0 {
    /// 2-bit levels: byte `l` of each 32 holds values `l`, `l+32`, `l+64`, `l+96` of a half.
    pub qs: [u8; 64],
    /// Scale.
    pub d: F16Le,
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

/// Q2_0: `d * (q - 1)`, `q` in 0..4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ2_0 {
    /// Scale.
    pub d: F16Le,
    /// 2-bit levels, four consecutive values to a byte.
    pub qs: [u8; 16],
}

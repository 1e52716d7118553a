//! The K types: superblocks of 256 values with quantized scales.

use bytemuck::{Pod, Zeroable};

use crate::le::{F16Le, F32Le, I16Le};

/// Q2_K: `d * sc * q - dmin * m` in groups of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ2K {
    /// Per group: scale in the low, minimum in the high nibble.
    pub scales: [u8; 16],
    /// 2-bit levels: byte `l` of each 32 holds values `l`, `l+32`, `l+64`, `l+96` of a half.
    pub qs: [u8; 64],
    /// Scale of the scales.
    pub d: F16Le,
    /// Scale of the minima.
    pub dmin: F16Le,
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

/// Q8_K: `d * q`; the activations that K types are multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8K {
    /// Scale.
    pub d: F32Le,
    /// Levels.
    pub qs: [i8; 256],
    /// Sum of the levels of each group of 16.
    pub bsums: [I16Le; 16],
}

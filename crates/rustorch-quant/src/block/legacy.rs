//! The types of one scale per 32 values.

use bytemuck::{Pod, Zeroable};

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

/// Q8_0: `d * q`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8_0 {
    /// Scale.
    pub d: F16Le,
    /// Levels.
    pub qs: [i8; 32],
}

/// Q8_1: `d * q`, with the sum that products with a minimum need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8_1 {
    /// Scale.
    pub d: F16Le,
    /// `d` times the sum of the levels.
    pub s: F16Le,
    /// Levels.
    pub qs: [i8; 32],
}

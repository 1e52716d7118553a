//! The IQ types: levels from a codebook or from a non-linear scale.

use bytemuck::{Pod, Zeroable};

use crate::le::{F16Le, U16Le};

/// IQ2_XXS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq2Xxs {
    /// Scale.
    pub d: F16Le,
    /// Per 32 values: four grid indices of 8 bits, four sign sets of 7 bits, a scale of 4 bits.
    pub qs: [U16Le; 32],
}

/// IQ2_XS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq2Xs {
    /// Scale.
    pub d: F16Le,
    /// Per 8 values: a grid index of 9 bits, a sign set of 7 bits.
    pub qs: [U16Le; 32],
    /// A 4-bit scale per 16 values.
    pub scales: [u8; 8],
}

/// IQ2_S.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq2S {
    /// Scale.
    pub d: F16Le,
    /// Low 8 bits of the grid index of each 8 values.
    pub qs: [u8; 32],
    /// A sign bit per value (ggml's struct has it as the second half of `qs`).
    pub signs: [u8; 32],
    /// High 2 bits of the grid indices.
    pub qh: [u8; 8],
    /// A 4-bit scale per 16 values.
    pub scales: [u8; 8],
}

/// IQ3_XXS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq3Xxs {
    /// Scale.
    pub d: F16Le,
    /// A grid index per 4 values.
    pub qs: [u8; 64],
    /// Per 32 values, 32 bits: four sign sets of 7 bits, a scale of 4 bits (ggml's struct has it as the end of `qs`).
    pub scales_and_signs: [u8; 32],
}

/// IQ3_S.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq3S {
    /// Scale.
    pub d: F16Le,
    /// Low 8 bits of the grid index of each 4 values.
    pub qs: [u8; 64],
    /// Ninth bits of the grid indices.
    pub qh: [u8; 8],
    /// A sign bit per value.
    pub signs: [u8; 32],
    /// A 4-bit scale per 32 values.
    pub scales: [u8; 4],
}

/// IQ1_S.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq1S {
    /// Scale.
    pub d: F16Le,
    /// Low 8 bits of the grid index of each 8 values.
    pub qs: [u8; 32],
    /// Per 32 values: four times 3 high index bits, a scale of 3 bits, the sign of the shift.
    pub qh: [U16Le; 8],
}

/// IQ1_M. Its scale is spread over the top nibbles of `scales`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq1M {
    /// Low 8 bits of the grid index of each 8 values.
    pub qs: [u8; 32],
    /// Per 8 values a nibble: 3 high index bits and the sign of the shift.
    pub qh: [u8; 16],
    /// Per 16 values 3 bits of scale; the top nibbles together are the f16 scale of the block.
    pub scales: [U16Le; 4],
}

/// IQ4_NL: `d * level[nibble]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq4Nl {
    /// Scale.
    pub d: F16Le,
    /// Nibbles: values 0..16 low, 16..32 high.
    pub qs: [u8; 16],
}

/// IQ4_XS: `d * (sc - 32) * level[nibble]` in groups of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq4Xs {
    /// Scale of the scales.
    pub d: F16Le,
    /// High 2 bits of the eight scales.
    pub scales_h: U16Le,
    /// Low 4 bits of the eight scales.
    pub scales_l: [u8; 4],
    /// Nibbles: each 16 bytes hold 16 values low, then 16 high.
    pub qs: [u8; 128],
}

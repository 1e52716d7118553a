//! The types of 4-bit floating-point numbers (E2M1).

use bytemuck::{Pod, Zeroable};

/// MXFP4 of the OCP microscaling formats: `2^(e - 127) * e2m1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockMxfp4 {
    /// The exponent that the values share (E8M0).
    pub e: u8,
    /// E2M1 codes: values 0..16 in the low nibbles, 16..32 in the high ones.
    pub qs: [u8; 16],
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

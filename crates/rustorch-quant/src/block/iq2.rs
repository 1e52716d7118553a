//! The IQ2 types: eight codes at a time from a codebook of the E8 lattice.

use bytemuck::{Pod, Zeroable};
use rustorch_core::QuantType;

use super::{Block, Codes};
use crate::grid::{self, even_signs, signed};
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

impl Block for BlockIq2Xxs {
    const TYPE: QuantType = QuantType::IQ2_XXS;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        let d = self.d.get();
        for (part, qs) in self.qs.chunks_exact(4).enumerate() {
            let indices = u32::from(qs[0].get()) | u32::from(qs[1].get()) << 16;
            let signs_and_scale = u32::from(qs[2].get()) | u32::from(qs[3].get()) << 16;
            for (j, index) in indices.to_le_bytes().into_iter().enumerate() {
                let codes = grid::IQ2_XXS[usize::from(index)];
                let signs = even_signs(signs_and_scale >> (7 * j));
                out.q[32 * part + 8 * j..][..8].copy_from_slice(&signed(codes, signs));
            }
            let scale = d * (0.5 + (signs_and_scale >> 28) as f32) * 0.25;
            out.scale[2 * part..2 * part + 2].fill(scale);
        }
        out.min = [0.0; 16];
    }
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

impl Block for BlockIq2Xs {
    const TYPE: QuantType = QuantType::IQ2_XS;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        for (part, qs) in self.qs.iter().enumerate() {
            let qs = qs.get();
            let codes = grid::IQ2_XS[usize::from(qs & 511)];
            out.q[8 * part..][..8].copy_from_slice(&signed(codes, even_signs(u32::from(qs >> 9))));
        }
        nibble_scales(self.d.get(), &self.scales, out);
    }
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

impl Block for BlockIq2S {
    const TYPE: QuantType = QuantType::IQ2_S;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        for part in 0..32 {
            let high = usize::from(self.qh[part / 4] >> (2 * (part % 4)) & 3);
            let codes = grid::IQ2_S[usize::from(self.qs[part]) | high << 8];
            out.q[8 * part..][..8].copy_from_slice(&signed(codes, self.signs[part]));
        }
        nibble_scales(self.d.get(), &self.scales, out);
    }
}

/// A scale of 4 bits per 16 values, the low nibble first.
#[inline(always)]
fn nibble_scales(d: f32, scales: &[u8; 8], out: &mut Codes) {
    for (j, &sc) in scales.iter().enumerate() {
        out.scale[2 * j] = d * (0.5 + f32::from(sc & 15)) * 0.25;
        out.scale[2 * j + 1] = d * (0.5 + f32::from(sc >> 4)) * 0.25;
    }
    out.min = [0.0; 16];
}

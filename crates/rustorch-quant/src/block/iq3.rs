//! The IQ3 types: four codes at a time from a codebook.

use bytemuck::{Pod, Zeroable};
use rustorch_core::QuantType;

use super::{Block, Codes};
use crate::grid::{self, even_signs, signed};
use crate::le::F16Le;

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

impl Block for BlockIq3Xxs {
    const TYPE: QuantType = QuantType::IQ3_XXS;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        let d = self.d.get();
        for part in 0..8 {
            let sas = &self.scales_and_signs[4 * part..][..4];
            let signs_and_scale = u32::from_le_bytes([sas[0], sas[1], sas[2], sas[3]]);
            for j in 0..4 {
                let qs = &self.qs[8 * part + 2 * j..][..2];
                let codes = pair(&grid::IQ3_XXS[usize::from(qs[0])], &grid::IQ3_XXS[usize::from(qs[1])]);
                let signs = even_signs(signs_and_scale >> (7 * j));
                out.q[32 * part + 8 * j..][..8].copy_from_slice(&signed(codes, signs));
            }
            let scale = d * (0.5 + (signs_and_scale >> 28) as f32) * 0.5;
            out.scale[2 * part..2 * part + 2].fill(scale);
        }
        out.min = [0.0; 16];
    }
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

impl Block for BlockIq3S {
    const TYPE: QuantType = QuantType::IQ3_S;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        for part in 0..32 {
            let high = usize::from(self.qh[part / 4] >> (2 * (part % 4)));
            let a = usize::from(self.qs[2 * part]) | (high & 1) << 8;
            let b = usize::from(self.qs[2 * part + 1]) | (high & 2) << 7;
            let codes = pair(&grid::IQ3_S[a], &grid::IQ3_S[b]);
            out.q[8 * part..][..8].copy_from_slice(&signed(codes, self.signs[part]));
        }
        let d = self.d.get();
        for (j, &sc) in self.scales.iter().enumerate() {
            out.scale[4 * j..4 * j + 2].fill(d * f32::from(1 + 2 * (sc & 15)));
            out.scale[4 * j + 2..4 * j + 4].fill(d * f32::from(1 + 2 * (sc >> 4)));
        }
        out.min = [0.0; 16];
    }
}

#[inline(always)]
fn pair(a: &[i8; 4], b: &[i8; 4]) -> [i8; 8] {
    [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]
}

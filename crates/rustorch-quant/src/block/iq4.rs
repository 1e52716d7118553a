//! The IQ4 types: 4-bit indices into a table of 16 non-linear codes.

use bytemuck::{Pod, Zeroable};
use rustorch_core::QuantType;

use super::bits::nibbles;
use super::{Block, Codes};
use crate::le::{F16Le, U16Le};

/// IQ4_NL: `d * kvalues[nibble]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq4Nl {
    /// Scale.
    pub d: F16Le,
    /// Nibbles: values 0..16 low, 16..32 high.
    pub qs: [u8; 16],
}

impl Block for BlockIq4Nl {
    const TYPE: QuantType = QuantType::IQ4_NL;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        nibbles(&self.qs, &mut out.q);
        out.q[..32].iter_mut().for_each(|q| *q = iq4_code(*q));
        out.set_scales(2, self.d.get());
    }
}

/// IQ4_XS: `d * (sc - 32) * kvalues[nibble]` in groups of 32.
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

impl Block for BlockIq4Xs {
    const TYPE: QuantType = QuantType::IQ4_XS;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        let (d, scales_h) = (self.d.get(), self.scales_h.get());
        for (part, qs) in self.qs.chunks_exact(16).enumerate() {
            for (i, &byte) in qs.iter().enumerate() {
                out.q[32 * part + i] = (byte & 15) as i8;
                out.q[32 * part + 16 + i] = (byte >> 4) as i8;
            }
            let low = self.scales_l[part / 2] >> (4 * (part % 2)) & 15;
            let high = (scales_h >> (2 * part) & 3) as u8;
            let scale = d * f32::from((low | high << 4) as i8 - 32);
            out.scale[2 * part..2 * part + 2].fill(scale);
        }
        out.q.iter_mut().for_each(|q| *q = iq4_code(*q));
        out.min = [0.0; 16];
    }
}

/// The sixteen codes of IQ4_NL and IQ4_XS, ggml's `kvalues_iq4nl`.
pub const KVALUES_IQ4NL: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The code at an index in 0..16. Computed by steps, not looked up, so that a loop over it vectorises.
#[inline(always)]
fn iq4_code(index: i8) -> i8 {
    let mut code = KVALUES_IQ4NL[0];
    for k in 0..15 {
        let step = KVALUES_IQ4NL[k + 1] - KVALUES_IQ4NL[k];
        code += if index > k as i8 { step } else { 0 };
    }
    code
}

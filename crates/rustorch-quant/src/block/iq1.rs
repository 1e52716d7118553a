//! The IQ1 types: eight ternary codes at a time from a codebook, shifted by an eighth.

use bytemuck::{Pod, Zeroable};
use rustorch_core::QuantType;

use super::{Block, Codes};
use crate::grid;
use crate::le::{F16Le, U16Le, f16_bits_to_f32};

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

impl Block for BlockIq1S {
    const TYPE: QuantType = QuantType::IQ1_S;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        let d = self.d.get();
        for (part, qh) in self.qh.iter().enumerate() {
            let qh = qh.get();
            let shift = if qh & 0x8000 == 0 { 1 } else { -1 };
            for j in 0..4 {
                let index = usize::from(self.qs[4 * part + j]) | usize::from(qh >> (3 * j) & 7) << 8;
                shifted(index, shift, &mut out.q[32 * part + 8 * j..][..8]);
            }
            let scale = d * f32::from(2 * (qh >> 12 & 7) + 1) * 0.125;
            out.scale[2 * part..2 * part + 2].fill(scale);
        }
        out.min = [0.0; 16];
    }
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

impl BlockIq1M {
    /// The bits of the f16 scale, gathered from the top nibbles of `scales`.
    #[inline(always)]
    pub fn d_bits(&self) -> u16 {
        let [a, b, c, d] = self.scales.map(|s| s.get());
        a >> 12 | b >> 8 & 0x00f0 | c >> 4 & 0x0f00 | d & 0xf000
    }
}

impl Block for BlockIq1M {
    const TYPE: QuantType = QuantType::IQ1_M;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        for part in 0..32 {
            let qh = self.qh[part / 2] >> (4 * (part % 2));
            let index = usize::from(self.qs[part]) | usize::from(qh & 7) << 8;
            let shift = if qh & 8 == 0 { 1 } else { -1 };
            shifted(index, shift, &mut out.q[8 * part..][..8]);
        }
        let d = f16_bits_to_f32(self.d_bits());
        for (group, scale) in out.scale.iter_mut().enumerate() {
            let sc = self.scales[group / 4].get() >> (3 * (group % 4)) & 7;
            *scale = d * f32::from(2 * sc + 1) * 0.125;
        }
        out.min = [0.0; 16];
    }
}

/// Eight codes `t + shift / 8`, `t` in {-1, 0, 1}, as integers eight times as large. The scale that goes with them is
/// an eighth of the stored one; both steps are exact.
#[inline(always)]
fn shifted(index: usize, shift: i8, q: &mut [i8]) {
    for (q, t) in q.iter_mut().zip(&grid::IQ1_EIGHTFOLD[index]) {
        *q = t + shift;
    }
}

//! Weights in blocks: integer codes, and a scale and an offset for each 16 or 32 of them. A value is `scale * (code - offset)`.

use crate::float::{FloatDtype, to_f16};
use rustorch_core::{QuantType, f16};
use rustorch_quant::Codes;

/// The dtype of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CodeDtype {
    I4,
    U4,
    I8,
}

impl CodeDtype {
    pub(crate) fn bits(self) -> usize {
        match self {
            CodeDtype::I4 | CodeDtype::U4 => 4,
            CodeDtype::I8 => 8,
        }
    }

    /// Appends codes, of an even number of 4 bits each.
    fn push(self, codes: &[i8], out: &mut Vec<u8>) {
        match self {
            CodeDtype::I8 => out.extend(codes.iter().map(|&q| q as u8)),
            // The first of two in the low bits.
            CodeDtype::I4 | CodeDtype::U4 => {
                out.extend(codes.chunks_exact(2).map(|two| two[0] as u8 & 15 | (two[1] as u8) << 4))
            }
        }
    }

    /// Its number in `weight.bin`.
    pub(crate) fn blob(self) -> u32 {
        match self {
            CodeDtype::I8 => 4,
            CodeDtype::I4 => 8,
            CodeDtype::U4 => 11,
        }
    }
}

/// What blocks of a type are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockForm {
    pub(crate) quant: QuantType,
    pub(crate) codes: CodeDtype,
    /// How many codes share a scale.
    pub(crate) group: usize,
    /// Whether there are offsets.
    pub(crate) has_offsets: bool,
    /// The dtype of scales and offsets, and of the values.
    pub(crate) float: FloatDtype,
}

/// A third of such a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Codes,
    Scales,
    Offsets,
}

impl BlockForm {
    /// Of a block type, if it has one: the others are dequantized.
    pub(crate) fn of(quant: QuantType, float: FloatDtype) -> Option<BlockForm> {
        let (codes, group, has_offsets) = match quant {
            QuantType::Q8_0 | QuantType::Q5_0 => (CodeDtype::I8, 32, false),
            QuantType::Q4_0 => (CodeDtype::I4, 32, false),
            QuantType::Q4_1 | QuantType::Q4_K => (CodeDtype::U4, 32, true),
            QuantType::Q5_1 | QuantType::Q5_K => (CodeDtype::I8, 32, true),
            QuantType::Q2_K => (CodeDtype::U4, 16, true),
            QuantType::Q3_K => (CodeDtype::I4, 16, false),
            QuantType::Q6_K => (CodeDtype::I8, 16, false),
            _ => return None,
        };
        Some(BlockForm { quant, codes, group, has_offsets, float })
    }

    /// The bytes of a part of so many values, a multiple of the block's length.
    pub(crate) fn bytes(&self, part: Part, count: usize) -> usize {
        match part {
            Part::Codes => count * self.codes.bits() / 8,
            Part::Scales | Part::Offsets => count / self.group * self.float.bytes(),
        }
    }

    /// Appends the parts of whole blocks.
    pub(crate) fn encode(&self, blocks: &[u8], parts: &mut Parts) -> Result<(), String> {
        let len = self.quant.block_len();
        let count = blocks.len() / self.quant.block_bytes() * len;
        parts.codes.reserve(self.bytes(Part::Codes, count));
        let mut codes = Codes::new();
        for block in blocks.chunks(self.quant.block_bytes()) {
            rustorch_quant::expand(self.quant, block, &mut codes).map_err(|error| error.to_string())?;
            for (i, q) in codes.q[..len].chunks_exact_mut(self.group).enumerate() {
                // `Codes` has a scale for each 16.
                let at = i * self.group / 16;
                let affine = Affine::new(codes.scale[at], codes.min[at], self.float);
                self.float.push(affine.scale, &mut parts.scales);
                if self.has_offsets {
                    self.float.push(affine.offset, &mut parts.offsets);
                }
                if affine.is_flat {
                    q.fill(0);
                }
                self.codes.push(q, &mut parts.codes);
            }
        }
        Ok(())
    }
}

/// Blocks apart, little-endian.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) codes: Vec<u8>,
    scales: Vec<u8>,
    offsets: Vec<u8>,
}

impl Parts {
    /// Room for the scales and offsets of so many values.
    pub(crate) fn of(form: &BlockForm, count: usize) -> Parts {
        let room = |part| Vec::with_capacity(form.bytes(part, count));
        let offsets = if form.has_offsets { room(Part::Offsets) } else { Vec::new() };
        Parts { codes: Vec::new(), scales: room(Part::Scales), offsets }
    }

    pub(crate) fn get(&self, part: Part) -> &[u8] {
        match part {
            Part::Codes => &self.codes,
            Part::Scales => &self.scales,
            Part::Offsets => &self.offsets,
        }
    }
}

/// A group's scale and offset, as they are written.
#[derive(Debug)]
struct Affine {
    scale: f32,
    offset: f32,
    /// Whether all of its codes are 0, since no scale and offset give its values otherwise.
    is_flat: bool,
}

impl Affine {
    /// Of a group whose values are `scale * code - min`.
    fn new(scale: f32, min: f32, float: FloatDtype) -> Affine {
        if min == 0.0 {
            let scale = if float == FloatDtype::F16 { to_f16(scale).to_f32() } else { scale };
            return Affine { scale, offset: 0.0, is_flat: false };
        }
        // As they will be read: an offset beyond the range of `f16` is infinite here.
        let (scale, min, offset) = match float {
            FloatDtype::F32 => (scale, min, min / scale),
            FloatDtype::F16 => {
                let scale = to_f16(scale).to_f32();
                (scale, to_f16(min).to_f32(), f16::from_f32(min / scale).to_f32())
            }
        };
        if min == 0.0 || scale.is_nan() {
            return Affine { scale, offset: 0.0, is_flat: false };
        }
        if offset.is_finite() {
            return Affine { scale, offset, is_flat: false };
        }
        // The scale is 0, or so small beside the minimum that all values are that: minus the minimum.
        Affine { scale: min, offset: 1.0, is_flat: true }
    }
}

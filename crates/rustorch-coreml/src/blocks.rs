//! Weights in blocks: integer codes, and a scale and an offset for each 16 or 32 of them. A value is `scale * (code - offset)`.

use crate::float::{FloatDtype, round_to_f16, round_to_f16_range};
use rustorch_core::QuantType;
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
        let start = out.len();
        out.resize(start + codes.len() * self.bits() / 8, 0);
        let out = &mut out[start..];
        match self {
            CodeDtype::I8 => out.iter_mut().zip(codes).for_each(|(byte, &q)| *byte = q as u8),
            // The first of two in the low bits.
            CodeDtype::I4 | CodeDtype::U4 => {
                let pairs = out.iter_mut().zip(codes.chunks_exact(2));
                pairs.for_each(|(byte, two)| *byte = two[0] as u8 & 15 | (two[1] as u8) << 4);
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
        let first = parts.codes.len();
        parts.codes.reserve(self.bytes(Part::Codes, count));
        let mut affine = Affine::default();
        affine.scales.reserve(count / self.group);
        affine.mins.reserve(count / self.group);
        let mut codes = Codes::new();
        for block in blocks.chunks(self.quant.block_bytes()) {
            rustorch_quant::expand(self.quant, block, &mut codes).map_err(|error| error.to_string())?;
            self.codes.push(&codes.q[..len], &mut parts.codes);
            // `Codes` has a scale for each 16.
            let places = (0..len / 16).step_by(self.group / 16);
            affine.scales.extend(places.clone().map(|at| codes.scale[at]));
            affine.mins.extend(places.map(|at| codes.min[at]));
        }
        let flat = affine.round(self.float);
        self.float.append(&affine.scales, &mut parts.scales);
        if self.has_offsets {
            self.float.append(&affine.offsets, &mut parts.offsets);
        }
        let bytes = self.bytes(Part::Codes, self.group);
        for group in flat {
            parts.codes[first + group * bytes..][..bytes].fill(0);
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

/// Scales and offsets of groups whose values are `scale * code - min`.
#[derive(Debug, Default)]
struct Affine {
    scales: Vec<f32>,
    mins: Vec<f32>,
    offsets: Vec<f32>,
}

impl Affine {
    /// Makes scales and offsets of what is written. Returns the groups whose codes have to be 0, since no scale and offset give their values otherwise.
    fn round(&mut self, float: FloatDtype) -> Vec<usize> {
        let is_f16 = float == FloatDtype::F16;
        if is_f16 {
            round_to_f16_range(&mut self.scales);
        }
        self.offsets.extend(self.mins.iter().zip(&self.scales).map(|(min, scale)| min / scale));
        if is_f16 {
            // As it will be read: an offset beyond the range of `f16` is infinite here.
            round_to_f16(&mut self.offsets);
        }
        if is_f16 {
            round_to_f16_range(&mut self.mins);
        }
        let mut flat = Vec::new();
        for (group, (scale, offset)) in self.scales.iter_mut().zip(&mut self.offsets).enumerate() {
            let min = self.mins[group];
            if min == 0.0 || scale.is_nan() {
                *offset = 0.0;
            } else if !offset.is_finite() {
                // The scale is 0, or so small beside the minimum that all values are that: minus the minimum.
                (*scale, *offset) = (min, 1.0);
                flat.push(group);
            }
        }
        flat
    }
}

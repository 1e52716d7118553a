//! The block types with kernels: offsets of codes and scales, and the arithmetic.
//!
//! Sums of products of codes are integers, hence exact; what remains are chains of fused multiply-adds over the blocks of a row,
//! in the order of `rustorch-cpu` (see its module `weight`), so that every device gives the same bits.

use rustorch_core::{DType, QuantType};

/// What activations are rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ActivationQuant {
    /// Blocks of 32 with an `f16` scale.
    Q8_0,
    /// The same, and the scaled sum of the codes.
    Q8_1,
    /// Blocks of 256 with an `f32` scale.
    Q8K,
}

impl ActivationQuant {
    /// Values in a block.
    pub(super) fn block(self) -> usize {
        match self {
            ActivationQuant::Q8_0 | ActivationQuant::Q8_1 => 32,
            ActivationQuant::Q8K => 256,
        }
    }
}

/// The chains of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A scale for each 32 values, one chain: `acc += (d·dx)·Σ q·x`.
    Blocks,
    /// The same in eight chains, of which chain `l` has values `4l..4l + 4` of each block; minima have another one.
    LaneBlocks,
    /// Integer scales within 256 values, one chain for codes and one for minima.
    Integer,
    /// The same with eight chains for codes.
    Lanes,
}

/// A block type.
pub(super) struct Format {
    /// The type.
    pub(super) quant: QuantType,
    /// The type to which activations are quantized.
    pub(super) activations: ActivationQuant,
    /// Its chains.
    pub(super) kind: Kind,
    /// Whether it has minima.
    pub(super) mins: bool,
    /// Values for each integer scale.
    pub(super) group: usize,
    /// Where in a block the scale is, an `f16` (of MXFP4 an exponent), and the minimum's.
    pub(super) d: usize,
    /// See `d`.
    pub(super) dmin: usize,
    /// Functions: `codes(at, g, i)`: four signed codes, values `4i..4i + 4` of group `g` of 32, of the block at byte `at`;
    /// of integer types, `scale(at, s)` and `minimum(at, s)` of group `s` of [`group`](Self::group).
    pub(super) text: &'static str,
    /// If the codes are not signed yet when they are multiplied: what the sums of activations take back, times the scale.
    /// Lane `l` takes back that of groups `2l` and `2l + 1` of 16.
    pub(super) group_offset: Option<i32>,
}

macro_rules! format {
    ($quant:ident, $activations:ident, $kind:ident, mins $mins:literal, group $group:literal, d $d:literal, $dmin:literal, $file:literal) => {
        Format {
            quant: QuantType::$quant,
            activations: ActivationQuant::$activations,
            kind: Kind::$kind,
            mins: $mins,
            group: $group,
            d: $d,
            dmin: $dmin,
            text: include_str!($file),
            group_offset: None,
        }
    };
}

/// Every type with a kernel.
pub(super) const FORMATS: &[Format] = &[
    format!(Q4_0, Q8_0, Blocks, mins false, group 32, d 0, 0, "q4_0.wgsl"),
    format!(Q4_1, Q8_1, LaneBlocks, mins true, group 32, d 0, 2, "q4_1.wgsl"),
    format!(Q5_0, Q8_0, LaneBlocks, mins false, group 32, d 0, 0, "q5_0.wgsl"),
    format!(Q5_1, Q8_1, LaneBlocks, mins true, group 32, d 0, 2, "q5_1.wgsl"),
    format!(Q8_0, Q8_0, LaneBlocks, mins false, group 32, d 0, 0, "q8_0.wgsl"),
    format!(IQ4_NL, Q8_0, Blocks, mins false, group 32, d 0, 0, "iq4_nl.wgsl"),
    format!(Q2_K, Q8K, Integer, mins true, group 16, d 80, 82, "q2_k.wgsl"),
    format!(Q3_K, Q8K, Lanes, mins false, group 16, d 108, 0, "q3_k.wgsl"),
    format!(Q4_K, Q8K, Integer, mins true, group 32, d 0, 2, "q4_k.wgsl"),
    format!(Q5_K, Q8K, Lanes, mins true, group 32, d 0, 2, "q5_k.wgsl"),
    Format {
        group_offset: Some(-32),
        ..format!(Q6_K, Q8K, Lanes, mins false, group 16, d 208, 0, "q6_k.wgsl")
    },
    format!(IQ4_XS, Q8K, Lanes, mins false, group 32, d 0, 0, "iq4_xs.wgsl"),
    format!(MXFP4, Q8_0, Blocks, mins false, group 32, d 0, 0, "mxfp4.wgsl"),
];

/// The types of [`FORMATS`].
pub(super) const TYPES: &[QuantType] = &{
    let mut types = [QuantType::Q4_0; FORMATS.len()];
    let mut i = 0;
    while i < types.len() {
        types[i] = FORMATS[i].quant;
        i += 1;
    }
    types
};

/// The format of a dtype, if it has kernels.
pub(super) fn format(dtype: DType) -> Option<&'static Format> {
    let DType::Quant(quant) = dtype else { return None };
    FORMATS.iter().find(|format| format.quant == quant)
}

impl Format {
    /// Bytes of a block.
    pub(super) fn bytes(&self) -> usize {
        self.quant.block_bytes()
    }

    /// Values of a block.
    pub(super) fn len(&self) -> usize {
        self.quant.block_len()
    }

    /// The expression of the scale of the block at byte `at`.
    pub(super) fn scale(&self) -> String {
        match self.quant {
            // Half of it, which goes with doubled codes.
            QuantType::MXFP4 => std::format!("e8m0_halved(byte_at(at + {}u))", self.d),
            _ => std::format!("f16_value(half_at(at + {}u))", self.d),
        }
    }

    /// Whether there are eight chains.
    pub(super) fn lanes(&self) -> bool {
        matches!(self.kind, Kind::LaneBlocks | Kind::Lanes)
    }
}

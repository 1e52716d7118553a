//! Rotary position embedding.

use super::{OpType, Operation, expect_args, float, in_elements, index_dtype, one};
use crate::{DType, Error, OutputMeta, Outputs, Result, TensorMeta};

/// Which elements of a head are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub enum RopeStyle {
    /// Elements 2i and 2i + 1: LLaMA's order in GGUF files.
    Adjacent,
    /// Elements i and i + rotated/2: GPT-NeoX's order.
    Halves,
}

/// Rotation of pairs of elements by angles `position · scale · base^(−2i/rotated)`, divided by the frequency factor `i`
/// where factors are given.
///
/// Su et al.: *RoFormer*, 2021. Elements beyond `rotated` pass unchanged.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct RopeParams {
    /// How elements pair up.
    pub style: RopeStyle,
    /// How many elements of a head are rotated; even.
    pub rotated: usize,
    /// The base of the frequencies, 10000 in the paper.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub base: f32,
    /// Multiplies positions: linear context extension by a factor f uses 1/f.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub scale: f32,
    /// YaRN's correction, if any.
    pub yarn: Option<Yarn>,
}

/// YaRN: interpolation of low frequencies only, and a correction of the magnitude.
///
/// Peng et al.: *YaRN: Efficient Context Window Extension of Large Language Models*, 2023.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Yarn {
    /// How much of the extrapolated angle is mixed in, usually 1.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub ext_factor: f32,
    /// Multiplies the rotated elements.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub attn_factor: f32,
    /// Rotations per original context above which frequencies are left alone, usually 32.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub beta_fast: f32,
    /// Rotations per original context below which frequencies are interpolated, usually 1.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub beta_slow: f32,
    /// The context length of the original training.
    pub original_context: usize,
}

impl RopeParams {
    /// The operation's name.
    pub const NAME: &'static str = "rope";
}

impl Operation for RopeParams {
    const CLASS: OpType = OpType::Attention;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let rotated = self.rotated;
        expect_args(Self::NAME, args, 2..=3)?;
        let (x, positions) = (&args[0], &args[1]);
        float(Self::NAME, x.dtype)?;
        index_dtype(Self::NAME, positions)?;
        let ndim = x.shape().ndim();
        if ndim < 2 || positions.dims() != [x.dims()[ndim - 2]] {
            return Err(Error::shape(
                Self::NAME,
                "takes x [.., seq, dim] and positions [seq]",
                [x.shape(), positions.shape()],
            ));
        }
        if rotated == 0 || !rotated.is_multiple_of(2) || rotated > x.dims()[ndim - 1] {
            return Err(Error::shape(
                Self::NAME,
                format!(
                    "cannot rotate {} elements of a head; the number must be even and at most the head's size",
                    rotated
                ),
                [x.shape()],
            ));
        }
        if let Some(factors) = args.get(2)
            && (factors.dims() != [rotated / 2] || factors.dtype != DType::F32)
        {
            return Err(Error::shape(
                Self::NAME,
                format!("frequency factors must be {} f32 values", rotated / 2),
                [factors.shape()],
            ));
        }
        one(x.dtype, x.shape().clone())
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        6 * in_elements(args)
    }
}

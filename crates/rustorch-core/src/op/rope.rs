//! Rotary position embedding.

use super::{expect_args, float, index_dtype, one};
use crate::{DType, Error, Outputs, Result, TensorMeta};

/// Which elements of a head are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
pub struct Rope {
    /// How elements pair up.
    pub style: RopeStyle,
    /// How many elements of a head are rotated; even.
    pub rotated: usize,
    /// The base of the frequencies, 10000 in the paper.
    pub base: f32,
    /// Multiplies positions: linear context extension by a factor f uses 1/f.
    pub scale: f32,
    /// YaRN's correction, if any.
    pub yarn: Option<Yarn>,
}

/// YaRN: interpolation of low frequencies only, and a correction of the magnitude.
///
/// Peng et al.: *YaRN: Efficient Context Window Extension of Large Language Models*, 2023.
#[derive(Clone, Debug, PartialEq)]
pub struct Yarn {
    /// How much of the extrapolated angle is mixed in, usually 1.
    pub ext_factor: f32,
    /// Multiplies the rotated elements.
    pub attn_factor: f32,
    /// Rotations per original context above which frequencies are left alone, usually 32.
    pub beta_fast: f32,
    /// Rotations per original context below which frequencies are interpolated, usually 1.
    pub beta_slow: f32,
    /// The context length of the original training.
    pub original_context: usize,
}

impl Rope {
    /// Whether results of a rotation of one dtype may be of another.
    pub fn gives(x: DType, to: DType) -> bool {
        to == x || x == DType::F32 && matches!(to, DType::F16 | DType::BF16)
    }

    pub(super) fn infer(&self, to: DType, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        const NAME: &str = "rope";
        expect_args(NAME, args, 2..=3)?;
        let (x, positions) = (&args[0], &args[1]);
        float(NAME, x.dtype)?;
        if !Rope::gives(x.dtype, to) {
            return Err(Error::dtype(
                NAME,
                "gives its argument's dtype, or f16 or bf16 of f32; cast to others",
                [x.dtype, to],
            ));
        }
        index_dtype(NAME, positions)?;
        let rank = x.shape().rank();
        if rank < 2 || positions.dims() != [x.dims()[rank - 2]] {
            return Err(Error::shape(
                NAME,
                "takes x [.., seq, dim] and positions [seq]",
                [x.shape(), positions.shape()],
            ));
        }
        if self.rotated == 0 || !self.rotated.is_multiple_of(2) || self.rotated > x.dims()[rank - 1] {
            return Err(Error::shape(
                NAME,
                format!(
                    "cannot rotate {} elements of a head; the number must be even and at most the head's size",
                    self.rotated
                ),
                [x.shape()],
            ));
        }
        if let Some(factors) = args.get(2)
            && (factors.dims() != [self.rotated / 2] || factors.dtype != DType::F32)
        {
            return Err(Error::shape(
                NAME,
                format!("frequency factors must be {} f32 values", self.rotated / 2),
                [factors.shape()],
            ));
        }
        one(to, x.shape().clone())
    }
}

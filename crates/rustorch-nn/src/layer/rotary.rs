//! Rotary position embedding.

use super::options::of_layer;
use crate::{ExtraRepr, Layer, Module};
use rustorch_tensor::{Error, Result, RopeParams, RopeStyle, Tensor};

/// How a [`RotaryEmbedding`] turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RotaryEmbeddingOptions {
    /// Which elements are a pair: neighbours, as in the paper, or those half a vector apart, as in GPT-NeoX and Hugging Face's models.
    pub style: RopeStyle,
    /// The base of the frequencies: 10000.
    pub base: f64,
    /// Positions are divided by this, for sequences so many times as long as those of training: 1. Chen et al.: *Extending Context Window of
    /// Large Language Models via Positional Interpolation*, 2023.
    pub position_scaling: f64,
    /// The base is multiplied with the (dim / (dim − 2))th power of this, so that the slowest frequency is divided by it and the fastest stays
    /// ("NTK-aware"): 1. Peng et al.: *YaRN: Efficient Context Window Extension of Large Language Models*, 2023, section 3.1.
    pub base_scaling: f64,
}

impl Default for RotaryEmbeddingOptions {
    /// The paper's.
    fn default() -> RotaryEmbeddingOptions {
        RotaryEmbeddingOptions {
            style: RopeStyle::Adjacent,
            base: 10_000.0,
            position_scaling: 1.0,
            base_scaling: 1.0,
        }
    }
}

/// Turns the pairs of elements of a vector at position `p` by the angles `p · base^(−2i / dim)`, `i` from 0 to `dim / 2`, so that products of
/// two turned vectors depend on the distance of their positions: `[.., l, head_dim] → [.., l, head_dim]`. Elements from `dim` on stay.
///
/// PyTorch has no such module. Base and scaling are computed with as `f32`.
///
/// Su et al.: *RoFormer: Enhanced Transformer with Rotary Position Embedding*, 2021.
///
/// ```
/// use rustorch_nn::{Layer, RotaryEmbedding};
/// use rustorch_tensor::Tensor;
/// let rotary = RotaryEmbedding::new(2)?;
/// let y = rotary.forward(&Tensor::new([[1.0f32, 0.0], [1.0, 0.0]])?)?;
/// assert!(y.allclose(&Tensor::new([[1.0f32, 0.0], [1f32.cos(), 1f32.sin()]])?, 1e-6, 1e-7, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
#[module(extra_repr = Self::describe)]
pub struct RotaryEmbedding(#[module(skip)] RopeParams);

impl RotaryEmbedding {
    /// Turns the first `dim` elements as the paper does.
    ///
    /// # Errors
    /// If `dim` is odd or 0.
    pub fn new(dim: usize) -> Result<RotaryEmbedding> {
        RotaryEmbedding::with(dim, RotaryEmbeddingOptions::default())
    }

    /// Turns the first `dim` elements.
    ///
    /// # Errors
    /// If `dim` is odd or 0, or base or scalings are not positive.
    pub fn with(dim: usize, options: RotaryEmbeddingOptions) -> Result<RotaryEmbedding> {
        const NAME: &str = "RotaryEmbedding";
        let RotaryEmbeddingOptions { style, base, position_scaling, base_scaling } = options;
        if dim == 0 || !dim.is_multiple_of(2) {
            return Err(Error::argument(NAME, format!("dim must be even and not 0, and is {dim}")));
        }
        for (what, value) in
            [("base", base), ("position_scaling", position_scaling), ("base_scaling", base_scaling)]
        {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::argument(NAME, format!("{what} must be positive, and is {value}")));
            }
        }
        // A single pair has the frequency 1, whatever the base.
        let exponent = if dim == 2 { 0.0 } else { dim as f64 / (dim - 2) as f64 };
        Ok(RotaryEmbedding(RopeParams {
            style,
            rotated: dim,
            base: (base * base_scaling.powf(exponent)) as f32,
            scale: (1.0 / position_scaling) as f32,
            yarn: None,
        }))
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        let RopeParams { rotated, base, scale, .. } = &self.0;
        extra.value(rotated).named("base", &f64::from(*base)).named_unless("scale", &f64::from(*scale), &1.0);
    }

    /// The result where the first vector's position is `start`: after so many that a cache holds.
    ///
    /// # Errors
    /// If the argument has fewer than two dimensions, or its vectors fewer than `dim` elements.
    #[rustorch_macros::observed]
    pub fn forward_from(&self, x: &Tensor, start: usize) -> Result<Tensor> {
        let &[.., len, _] = x.dims() else {
            return Err(Error::shape(self.type_name(), "takes [.., l, head_dim]", [x.shape()]));
        };
        let (start, end) = (start as i64, (start + len) as i64);
        let turn = || x.rope(&Tensor::arange(start, end, 1)?.to_device(x.device())?, &self.0, None);
        turn().map_err(of_layer(self.type_name()))
    }
}

impl Layer for RotaryEmbedding {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_from(x, 0)
    }
}

//! Normalization over trailing dimensions.

use crate::{Layer, Parameter};
use rustorch_tensor::{IntoShape, Result, Shape, Tensor, TensorOptions};

/// `(x − mean) / √(variance + eps) · weight + bias` over the trailing dimensions, as `torch.nn.LayerNorm`.
///
/// Ba, Kiros, Hinton: *Layer Normalization*, 2016.
///
/// ```
/// use rustorch_nn::{Layer, LayerNorm};
/// use rustorch_tensor::{DType, Tensor};
/// let norm = LayerNorm::new(2, 1e-5, DType::F32)?;
/// let y = norm.forward(&Tensor::new([[1.0f32, 3.0]])?)?;
/// assert!(y.allclose(&Tensor::new([[-1.0f32, 1.0]])?, 1e-4, 0.0, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
pub struct LayerNorm {
    /// Of the shape that is normalized; ones at first.
    pub weight: Parameter,
    /// Of the shape that is normalized; zeros at first.
    pub bias: Parameter,
    #[module(skip)]
    shape: Shape,
    eps: f64,
}

impl LayerNorm {
    /// A norm over trailing dimensions of these lengths. PyTorch's `eps` is 1e-5 unless given.
    ///
    /// # Errors
    /// If the dtype is none of floats, or memory does not suffice.
    pub fn new(shape: impl IntoShape, eps: f64, options: impl Into<TensorOptions>) -> Result<LayerNorm> {
        let (shape, options) = (shape.into_shape()?, options.into());
        let weight = Parameter::new(Tensor::ones(shape.clone(), options)?)?;
        let bias = Parameter::new(Tensor::zeros(shape.clone(), options)?)?;
        Ok(LayerNorm { weight, bias, shape, eps })
    }
}

impl Layer for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.layer_norm(self.shape.clone(), Some(&self.weight.tensor()), Some(&self.bias.tensor()), self.eps)
    }
}

//! Normalization over trailing dimensions.

use super::options::{of_layer, options};
use crate::{ExtraRepr, Layer, Module, Parameter};
use rustorch_tensor::{DType, IntoShape, Result, Shape, Tensor, TensorOptions};

options! {
    /// How a [`LayerNorm`] is made: the optional arguments of `torch.nn.LayerNorm` with their defaults.
    LayerNormOptions {
        /// What is added to the variance.
        eps: plain f64 = 1e-5;
        /// Whether it has a weight.
        elementwise_affine: plain bool = true;
        /// Whether it has a bias beside the weight.
        bias: plain bool = true;
    }
}

options! {
    /// How an [`RMSNorm`] is made: the optional arguments of `torch.nn.RMSNorm` with their defaults.
    RMSNormOptions {
        /// What is added to the mean of squares; `None` is the argument's machine epsilon.
        eps: into Option<f64> = None;
        /// Whether it has a weight.
        elementwise_affine: plain bool = true;
    }
}

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
#[module(extra_repr = Self::describe)]
pub struct LayerNorm {
    /// Of the shape that is normalized; ones at first.
    pub weight: Option<Parameter>,
    /// Of the shape that is normalized; zeros at first.
    pub bias: Option<Parameter>,
    #[module(skip, repr = value)]
    shape: Shape,
    #[module(repr)]
    eps: f64,
}

impl LayerNorm {
    /// A norm over trailing dimensions of these lengths, with a weight and a bias. PyTorch's `eps` is 1e-5 unless given.
    ///
    /// # Errors
    /// If the dtype is none of floats, or memory does not suffice.
    pub fn new(shape: impl IntoShape, eps: f64, options: impl Into<TensorOptions>) -> Result<LayerNorm> {
        LayerNorm::with(shape, LayerNormOptions::default().eps(eps).tensor(options))
    }

    /// A norm over trailing dimensions of these lengths.
    ///
    /// # Errors
    /// If the dtype is none of floats, or memory does not suffice.
    pub fn with(shape: impl IntoShape, options: LayerNormOptions) -> Result<LayerNorm> {
        let shape = shape.into_shape()?;
        let parameter = |there: bool, value: f64| match there {
            true => Parameter::new(Tensor::full(shape.clone(), value, options.tensor)?).map(Some),
            false => Ok(None),
        };
        let weight = parameter(options.elementwise_affine, 1.0)?;
        let bias = parameter(options.elementwise_affine && options.bias, 0.0)?;
        Ok(LayerNorm { weight, bias, shape, eps: options.eps })
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        extra.named("elementwise_affine", &self.weight.is_some()).named("bias", &self.bias.is_some());
    }
}

impl Layer for LayerNorm {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let weight = self.weight.as_ref().map(Parameter::tensor);
        let bias = self.bias.as_ref().map(Parameter::tensor);
        x.layer_norm(self.shape.clone(), weight.as_ref(), bias.as_ref(), self.eps)
            .map_err(of_layer(self.type_name()))
    }
}

/// `x / √(mean(x²) + eps) · weight` over the trailing dimensions, as `torch.nn.RMSNorm`.
///
/// Zhang, Sennrich: *Root Mean Square Layer Normalization*, 2019.
///
/// ```
/// use rustorch_nn::{Layer, RMSNorm};
/// use rustorch_tensor::Tensor;
/// let y = RMSNorm::new(2)?.forward(&Tensor::new([[1.0f32, 7.0]])?)?;
/// assert!(y.allclose(&Tensor::new([[0.2f32, 1.4]])?, 1e-5, 0.0, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(extra_repr = Self::describe)]
pub struct RMSNorm {
    /// Of the shape that is normalized; ones at first.
    pub weight: Option<Parameter>,
    #[module(skip, repr = value)]
    shape: Shape,
    #[module(skip, repr)]
    eps: Option<f64>,
}

impl RMSNorm {
    /// A norm over trailing dimensions of these lengths, with a weight.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(shape: impl IntoShape) -> Result<RMSNorm> {
        RMSNorm::with(shape, RMSNormOptions::default())
    }

    /// A norm over trailing dimensions of these lengths.
    ///
    /// # Errors
    /// If the dtype is none of floats, or memory does not suffice.
    pub fn with(shape: impl IntoShape, options: RMSNormOptions) -> Result<RMSNorm> {
        let shape = shape.into_shape()?;
        let weight = match options.elementwise_affine {
            true => Some(Parameter::new(Tensor::ones(shape.clone(), options.tensor)?)?),
            false => None,
        };
        Ok(RMSNorm { weight, shape, eps: options.eps })
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        extra.named("elementwise_affine", &self.weight.is_some());
    }
}

/// The distance of 1 to the next number of a dtype, that of `F32` where it has none.
fn machine_epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => rustorch_tensor::f16::EPSILON.to_f64(),
        DType::BF16 => rustorch_tensor::bf16::EPSILON.to_f64(),
        _ => f32::EPSILON.into(),
    }
}

impl Layer for RMSNorm {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let weight = self.weight.as_ref().map(Parameter::tensor);
        let eps = self.eps.unwrap_or_else(|| machine_epsilon(x.dtype()));
        x.rms_norm(self.shape.clone(), weight.as_ref(), eps).map_err(of_layer(self.type_name()))
    }
}

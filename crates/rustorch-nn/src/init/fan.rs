//! Distributions whose width follows from how many inputs and outputs a weight has.

use super::{normal_, uniform_};
use rustorch_tensor::{Error, Result, Tensor};

/// Which pass keeps its variance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FanMode {
    /// The forward pass.
    #[default]
    FanIn,
    /// The backward pass.
    FanOut,
}

/// What follows a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nonlinearity {
    /// Nothing, or another linear map or convolution.
    Linear,
    /// A sigmoid.
    Sigmoid,
    /// A hyperbolic tangent.
    Tanh,
    /// A rectified linear unit.
    Relu,
    /// A rectified linear unit with this slope below 0.
    LeakyRelu(f64),
    /// A scaled exponential linear unit.
    Selu,
}

/// By how much larger weights start because of what follows, as `torch.nn.init.calculate_gain`.
///
/// ```
/// use rustorch_nn::init::{Nonlinearity, calculate_gain};
/// assert_eq!(calculate_gain(Nonlinearity::Tanh), 5.0 / 3.0);
/// ```
pub fn calculate_gain(nonlinearity: Nonlinearity) -> f64 {
    match nonlinearity {
        Nonlinearity::Linear | Nonlinearity::Sigmoid => 1.0,
        Nonlinearity::Tanh => 5.0 / 3.0,
        Nonlinearity::Relu => std::f64::consts::SQRT_2,
        Nonlinearity::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
        Nonlinearity::Selu => 0.75,
    }
}

/// How many inputs an output of a weight has, and how many outputs an input: `[out, in, kernel..]`.
fn fans(op: &'static str, tensor: &Tensor) -> Result<[usize; 2]> {
    match tensor.dims() {
        [fan_out, fan_in, kernel @ ..] => {
            let elements: usize = kernel.iter().product();
            Ok([fan_in * elements, fan_out * elements])
        }
        _ => Err(Error::shape(op, "takes [out, in] or [out, in, kernel..]", [tensor.shape()])),
    }
}

/// The standard deviation that Glorot and Bengio propose.
fn xavier_std(op: &'static str, tensor: &Tensor, gain: f64) -> Result<f64> {
    let [fan_in, fan_out] = fans(op, tensor)?;
    Ok(gain * (2.0 / (fan_in + fan_out).max(1) as f64).sqrt())
}

/// The standard deviation that He et al. propose.
fn kaiming_std(op: &'static str, tensor: &Tensor, mode: FanMode, nonlinearity: Nonlinearity) -> Result<f64> {
    let [fan_in, fan_out] = fans(op, tensor)?;
    let fan = match mode {
        FanMode::FanIn => fan_in,
        FanMode::FanOut => fan_out,
    };
    Ok(calculate_gain(nonlinearity) / (fan.max(1) as f64).sqrt())
}

/// The bound of a uniform distribution around 0.
fn bound(std: f64) -> f64 {
    3f64.sqrt() * std
}

/// Uniform within ±gain · √(6 / (fan_in + fan_out)), as `torch.nn.init.xavier_uniform_`.
///
/// Glorot, Bengio: *Understanding the difficulty of training deep feedforward neural networks*, 2010.
///
/// # Errors
/// If there are fewer than two dimensions, or the dtype is none of floats.
pub fn xavier_uniform_(tensor: &Tensor, gain: f64) -> Result<()> {
    let bound = bound(xavier_std("xavier_uniform_", tensor, gain)?);
    uniform_(tensor, -bound, bound)
}

/// Normal with the standard deviation gain · √(2 / (fan_in + fan_out)), as `torch.nn.init.xavier_normal_`.
///
/// # Errors
/// If there are fewer than two dimensions, or the dtype is none of floats.
pub fn xavier_normal_(tensor: &Tensor, gain: f64) -> Result<()> {
    normal_(tensor, 0.0, xavier_std("xavier_normal_", tensor, gain)?)
}

/// Uniform within ±gain · √(3 / fan), as `torch.nn.init.kaiming_uniform_`; its `a` is the slope of [`Nonlinearity::LeakyRelu`].
///
/// He et al.: *Delving deep into rectifiers: Surpassing human-level performance on ImageNet classification*, 2015.
///
/// # Errors
/// If there are fewer than two dimensions, or the dtype is none of floats.
pub fn kaiming_uniform_(tensor: &Tensor, mode: FanMode, nonlinearity: Nonlinearity) -> Result<()> {
    let bound = bound(kaiming_std("kaiming_uniform_", tensor, mode, nonlinearity)?);
    uniform_(tensor, -bound, bound)
}

/// Normal with the standard deviation gain / √fan, as `torch.nn.init.kaiming_normal_`.
///
/// # Errors
/// If there are fewer than two dimensions, or the dtype is none of floats.
pub fn kaiming_normal_(tensor: &Tensor, mode: FanMode, nonlinearity: Nonlinearity) -> Result<()> {
    normal_(tensor, 0.0, kaiming_std("kaiming_normal_", tensor, mode, nonlinearity)?)
}

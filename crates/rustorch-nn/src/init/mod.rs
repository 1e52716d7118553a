//! First values of parameters, as `torch.nn.init`. They are drawn on the CPU by the process's generator and moved, so that a seed gives the
//! same bits on every device and number of threads.
//!
//! Functions whose names end in `_` write to a tensor, without a gradient.
//!
//! ```
//! use rustorch_nn::{Linear, init};
//! let linear = Linear::new(64, 32)?;
//! init::kaiming_normal_(&linear.weight.tensor(), init::FanMode::FanOut, init::Nonlinearity::Relu)?;
//! init::zeros_(&linear.bias.as_ref().expect("it has a bias by default").tensor())?;
//! # Ok::<(), rustorch_tensor::Error>(())
//! ```

mod fan;
mod matrix;

pub use fan::{
    FanMode, Nonlinearity, calculate_gain, kaiming_normal_, kaiming_uniform_, xavier_normal_, xavier_uniform_,
};
pub use matrix::{dirac_, eye_, orthogonal_, sparse_};

use crate::Parameter;
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{DType, Device, Error, IntoShape, Result, Scalar, Tensor, TensorOptions};

/// A tensor of what a function draws for these options on the CPU.
fn drawn(
    options: impl Into<TensorOptions>,
    draw: impl FnOnce(TensorOptions) -> Result<Tensor>,
) -> Result<Tensor> {
    let options = options.into();
    let on_cpu = TensorOptions { device: Some(Device::CPU), requires_grad: false, ..options };
    let values = draw(on_cpu)?;
    // Where new tensors of these options are.
    let here = Tensor::zeros([0], TensorOptions { requires_grad: false, ..options })?.device();
    let values = values.to_device(here)?;
    if options.requires_grad {
        values.requires_grad_(true)?;
    }
    Ok(values)
}

/// Numbers uniform in [low, high).
///
/// ```
/// use rustorch_nn::init;
/// use rustorch_tensor::{DType, manual_seed};
/// manual_seed(0);
/// let x = init::uniform([1000], -0.5, 0.5, DType::F32)?.to_vec::<f32>()?;
/// assert!(x.iter().all(|x| (-0.5..0.5).contains(x)));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If the dtype is none of floats.
pub fn uniform(
    shape: impl IntoShape,
    low: f64,
    high: f64,
    options: impl Into<TensorOptions>,
) -> Result<Tensor> {
    drawn(options, |options| Tensor::rand(shape, options)?.mul(high - low)?.add(low))
}

/// Normal numbers.
///
/// # Errors
/// If the dtype is none of floats.
pub fn normal(
    shape: impl IntoShape,
    mean: f64,
    std: f64,
    options: impl Into<TensorOptions>,
) -> Result<Tensor> {
    drawn(options, |options| Tensor::randn(shape, options)?.mul(std)?.add(mean))
}

/// Writes what a function draws on the CPU.
fn fill(tensor: &Tensor, draw: impl FnOnce(TensorOptions) -> Result<Tensor>) -> Result<()> {
    let values = draw((tensor.dtype(), Device::CPU).into())?;
    no_grad(|| tensor.copy_(&values.to_device(tensor.device())?))
}

/// Numbers uniform in [low, high).
///
/// # Errors
/// If the dtype is none of floats.
pub fn uniform_(tensor: &Tensor, low: f64, high: f64) -> Result<()> {
    fill(tensor, |options| uniform(tensor.shape(), low, high, options))
}

/// Normal numbers.
///
/// # Errors
/// If the dtype is none of floats.
pub fn normal_(tensor: &Tensor, mean: f64, std: f64) -> Result<()> {
    fill(tensor, |options| normal(tensor.shape(), mean, std, options))
}

/// Normal numbers of those in [low, high]: `mean + std · Φ⁻¹(u)` with u uniform in [Φ((low − mean) / std), Φ((high − mean) / std)).
///
/// ```
/// use rustorch_nn::init;
/// use rustorch_tensor::{DType, Tensor};
/// let x = Tensor::zeros([1000], DType::F32)?;
/// init::trunc_normal_(&x, 0.0, 1.0, -0.5, 2.0)?;
/// assert!(x.to_vec::<f32>()?.iter().all(|x| (-0.5..=2.0).contains(x)));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If `low` is not below `high`, `std` is not positive, or the dtype is none of floats.
pub fn trunc_normal_(tensor: &Tensor, mean: f64, std: f64, low: f64, high: f64) -> Result<()> {
    if low >= high || std <= 0.0 || [mean, std, low, high].iter().any(|x| x.is_nan()) {
        let message = format!("needs low < high and std > 0, and is {low}, {high} and {std}");
        return Err(Error::argument("trunc_normal_", message));
    }
    // Φ(z) = (1 + erf(z / √2)) / 2, and the inverse of erf takes 2 · Φ − 1.
    let scale = std * std::f64::consts::SQRT_2;
    let ends = Tensor::from_slice(&[(low - mean) / scale, (high - mean) / scale], [2])?;
    let ends = ends.to_device(Device::CPU)?.erf()?.to_vec::<f64>()?;
    fill(tensor, |options| {
        let wide = TensorOptions { dtype: DType::F64, ..options };
        let normal = uniform(tensor.shape(), ends[0], ends[1], wide)?.erfinv()?.mul(scale)?.add(mean)?;
        normal.to_dtype(options.dtype)?.clamp(low, high)
    })
}

/// One value everywhere.
///
/// # Errors
/// If the device fails.
pub fn constant_(tensor: &Tensor, value: impl Into<Scalar>) -> Result<()> {
    no_grad(|| tensor.fill_(value))
}

/// Ones.
///
/// # Errors
/// If the device fails.
pub fn ones_(tensor: &Tensor) -> Result<()> {
    constant_(tensor, 1)
}

/// Zeros.
///
/// # Errors
/// If the device fails.
pub fn zeros_(tensor: &Tensor) -> Result<()> {
    constant_(tensor, 0)
}

/// A parameter uniform within ±1/√fan_in: where most of PyTorch's layers start, weights by `kaiming_uniform_(weight, a=√5)`.
pub(crate) fn default_parameter(
    shape: impl IntoShape,
    fan_in: usize,
    options: impl Into<TensorOptions>,
) -> Result<Parameter> {
    let bound = if fan_in == 0 { 0.0 } else { 1.0 / (fan_in as f64).sqrt() };
    Parameter::new(uniform(shape, -bound, bound, options)?)
}

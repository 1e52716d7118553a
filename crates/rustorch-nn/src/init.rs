//! First values of parameters. They are drawn on the CPU by the process's generator and moved, so that a seed gives the same bits on every
//! device and number of threads.

use rustorch_tensor::{Device, IntoShape, Result, Tensor, TensorOptions};

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

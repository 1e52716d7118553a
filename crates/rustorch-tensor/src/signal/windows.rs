//! Window functions, as `torch.signal.windows`: weights of `m` points of a signal, before a Fourier transform.
//!
//! A symmetric window (`sym`) is for filters; a periodic one, the symmetric one of a point more without its last point, for spectra
//! ([`Tensor::stft`]). Values are computed in `f64` and rounded once.
//!
//! ```
//! use rustorch_tensor::{DType, signal::windows};
//! assert_eq!(windows::hann(4, false, DType::F32)?.to_vec::<f32>()?, [0.0, 0.5, 1.0, 0.5]);
//! assert_eq!(windows::bartlett(5, true, DType::F32)?.to_vec::<f32>()?, [0.0, 0.5, 1.0, 0.5, 0.0]);
//! # Ok::<(), rustorch_tensor::Error>(())
//! ```

use crate::{Tensor, TensorOptions};
use rustorch_core::{Error, Result};
use std::f64::consts::{PI, SQRT_2, TAU};

/// A window of one point is 1, one of none is empty.
fn window(
    name: &'static str,
    m: usize,
    options: impl Into<TensorOptions>,
    value: impl Fn(f64) -> f64,
) -> Result<Tensor> {
    let TensorOptions { dtype, device, requires_grad } = options.into();
    if !dtype.is_float() {
        return Err(Error::dtype(name, "the dtype of a window must be one of floats", [dtype]));
    }
    let values: Vec<f64> = if m == 1 { vec![1.0] } else { (0..m).map(|n| value(n as f64)).collect() };
    let x = Tensor::from_vec(values, m)?.to_dtype(dtype)?;
    let x = if let Some(device) = device { x.to_device(device)? } else { x };
    TensorOptions { dtype, device, requires_grad }.finish(x)
}

/// The intervals of a window of several points.
fn intervals(m: usize, sym: bool) -> f64 {
    (if sym { m.saturating_sub(1) } else { m }) as f64
}

/// That a parameter is above 0.
fn check_positive(name: &'static str, parameter: &str, value: f64) -> Result<()> {
    match value > 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(Error::argument(name, format!("{parameter} must be positive, and is {value}"))),
    }
}

/// A sum of cosines: a₀ − a₁·cos(k) + a₂·cos(2k) − …, for k from 0 to 2π.
///
/// # Errors
/// If there are no coefficients, or the dtype is none of floats.
pub fn general_cosine(m: usize, a: &[f64], sym: bool, options: impl Into<TensorOptions>) -> Result<Tensor> {
    let name = "signal.windows.general_cosine";
    if a.is_empty() {
        return Err(Error::argument(name, "needs one coefficient at least"));
    }
    cosines(name, m, a, sym, options)
}

fn cosines(
    name: &'static str,
    m: usize,
    a: &[f64],
    sym: bool,
    options: impl Into<TensorOptions>,
) -> Result<Tensor> {
    let step = TAU / intervals(m, sym);
    window(name, m, options, |n| {
        let term = |(i, a): (usize, &f64)| if i % 2 == 0 { *a } else { -a } * (i as f64 * (step * n)).cos();
        a.iter().enumerate().map(term).sum()
    })
}

/// α − (1 − α)·cos(k), for k from 0 to 2π.
///
/// # Errors
/// If the dtype is none of floats.
pub fn general_hamming(m: usize, alpha: f64, sym: bool, options: impl Into<TensorOptions>) -> Result<Tensor> {
    cosines("signal.windows.general_hamming", m, &[alpha, 1.0 - alpha], sym, options)
}

/// 0.54 − 0.46·cos(k), for k from 0 to 2π.
///
/// # Errors
/// If the dtype is none of floats.
pub fn hamming(m: usize, sym: bool, options: impl Into<TensorOptions>) -> Result<Tensor> {
    cosines("signal.windows.hamming", m, &[0.54, 0.46], sym, options)
}

/// ½ − ½·cos(k), for k from 0 to 2π: the window of most spectrograms.
///
/// # Errors
/// If the dtype is none of floats.
pub fn hann(m: usize, sym: bool, options: impl Into<TensorOptions>) -> Result<Tensor> {
    cosines("signal.windows.hann", m, &[0.5, 0.5], sym, options)
}

/// 0.42 − 0.5·cos(k) + 0.08·cos(2k), for k from 0 to 2π.
///
/// # Errors
/// If the dtype is none of floats.
pub fn blackman(m: usize, sym: bool, options: impl Into<TensorOptions>) -> Result<Tensor> {
    cosines("signal.windows.blackman", m, &[0.42, 0.5, 0.08], sym, options)
}

/// Four cosines with low side lobes, by Nuttall.
///
/// # Errors
/// If the dtype is none of floats.
pub fn nuttall(m: usize, sym: bool, options: impl Into<TensorOptions>) -> Result<Tensor> {
    let a = [0.3635819, 0.4891775, 0.1365995, 0.0106411];
    cosines("signal.windows.nuttall", m, &a, sym, options)
}

/// Linear up to the middle, and down again.
///
/// # Errors
/// If the dtype is none of floats.
pub fn bartlett(m: usize, sym: bool, options: impl Into<TensorOptions>) -> Result<Tensor> {
    let intervals = intervals(m, sym);
    window("signal.windows.bartlett", m, options, |n| 1.0 - (2.0 * n / intervals - 1.0).abs())
}

/// Half a wave of a sine.
///
/// # Errors
/// If the dtype is none of floats.
pub fn cosine(m: usize, sym: bool, options: impl Into<TensorOptions>) -> Result<Tensor> {
    let length = (if sym { m } else { m + 1 }) as f64;
    window("signal.windows.cosine", m, options, |n| ((n + 0.5) * (PI / length)).sin())
}

/// exp(−|n − middle| / τ).
///
/// # Errors
/// If `tau` is not positive, or the dtype is none of floats.
pub fn exponential(m: usize, tau: f64, sym: bool, options: impl Into<TensorOptions>) -> Result<Tensor> {
    let name = "signal.windows.exponential";
    check_positive(name, "tau", tau)?;
    let middle = intervals(m, sym) / 2.0;
    window(name, m, options, |n| (-(n - middle).abs() / tau).exp())
}

/// exp(−½·((n − middle) / `std`)²).
///
/// # Errors
/// If `std` is not positive, or the dtype is none of floats.
pub fn gaussian(m: usize, std: f64, sym: bool, options: impl Into<TensorOptions>) -> Result<Tensor> {
    let name = "signal.windows.gaussian";
    check_positive(name, "std", std)?;
    let middle = intervals(m, sym) / 2.0;
    window(name, m, options, |n| (-((n - middle) / (std * SQRT_2)).powi(2)).exp())
}

/// I₀(√(β² − k²)) / I₀(β), for k from −β to β, of the modified Bessel function I₀.
///
/// # Errors
/// If `beta` is negative or not finite, or the dtype is none of floats.
pub fn kaiser(m: usize, beta: f64, sym: bool, options: impl Into<TensorOptions>) -> Result<Tensor> {
    let name = "signal.windows.kaiser";
    if !(beta >= 0.0 && beta.is_finite()) {
        return Err(Error::argument(name, format!("beta must be 0 or positive, and is {beta}")));
    }
    let intervals = intervals(m, sym);
    window(name, m, options, |n| {
        let k = 2.0 * n / intervals - 1.0;
        let x = beta * ((1.0 - k) * (1.0 + k)).max(0.0).sqrt();
        // Scaled, since I₀ of large arguments overflows.
        scaled_i0(x) / scaled_i0(beta) * (x - beta).exp()
    })
}

/// e⁻ˣ·I₀(x), for x from 0 on: the mean of exp(x·(cos t − 1)) over a period, which the trapezoidal rule integrates to all digits.
fn scaled_i0(x: f64) -> f64 {
    let points = 40 + 12 * x.sqrt().ceil() as usize;
    let sum: f64 = (0..points).map(|i| (x * ((TAU * i as f64 / points as f64).cos() - 1.0)).exp()).sum();
    sum / points as f64
}

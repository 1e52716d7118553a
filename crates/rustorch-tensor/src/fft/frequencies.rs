//! Which frequencies coefficients belong to, and their order.

use crate::{Tensor, TensorOptions};
use rustorch_core::{Error, Result};

/// The frequencies of the coefficients of [`fft`](super::fft) of `n` points that are `d` apart: `[0, 1, .., −2, −1] / (n·d)`.
///
/// ```
/// # use rustorch_tensor::{DType, fft};
/// assert_eq!(fft::fftfreq(5, 0.5, DType::F32)?.to_vec::<f32>()?, [0.0, 0.4, 0.8, -0.8, -0.4]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If the dtype is not floating-point.
pub fn fftfreq(n: usize, d: f64, options: impl Into<TensorOptions>) -> Result<Tensor> {
    let name = "fft.fftfreq";
    let below = points(name, n)? / 2;
    frequencies(name, [(0, n.div_ceil(2) as i64), (-below, 0)], n as f64 * d, options.into())
}

/// The frequencies of the coefficients of [`rfft`](super::rfft) of `n` points that are `d` apart: `[0, 1, .., n / 2] / (n·d)`.
///
/// ```
/// # use rustorch_tensor::{DType, fft};
/// assert_eq!(fft::rfftfreq(4, 1.0, DType::F32)?.to_vec::<f32>()?, [0.0, 0.25, 0.5]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`fftfreq`].
pub fn rfftfreq(n: usize, d: f64, options: impl Into<TensorOptions>) -> Result<Tensor> {
    let name = "fft.rfftfreq";
    frequencies(name, [(0, points(name, n)? / 2 + 1)], n as f64 * d, options.into())
}

/// With the coefficient of frequency 0, the first in each of the dimensions, in the middle; all dimensions if none are given.
///
/// ```
/// # use rustorch_tensor::{DType, Tensor, fft};
/// let x = fft::fftfreq(4, 0.25, DType::F32)?;
/// assert_eq!(fft::fftshift(&x, None)?.to_vec::<f32>()?, [-2.0, -1.0, 0.0, 1.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If there is no such dimension, or the tensor has none.
pub fn fftshift(x: &Tensor, dims: Option<&[isize]>) -> Result<Tensor> {
    shifted("fft.fftshift", x, dims, |len| len / 2)
}

/// The inverse of [`fftshift`].
///
/// ```
/// # use rustorch_tensor::{Tensor, fft};
/// let x = Tensor::new([0i32, 1, 2])?;
/// assert_eq!(fft::ifftshift(&x, None)?.to_vec::<i32>()?, [1, 2, 0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`fftshift`].
pub fn ifftshift(x: &Tensor, dims: Option<&[isize]>) -> Result<Tensor> {
    shifted("fft.ifftshift", x, dims, |len| len.div_ceil(2))
}

fn shifted(
    name: &'static str,
    x: &Tensor,
    dims: Option<&[isize]>,
    by: impl Fn(usize) -> usize,
) -> Result<Tensor> {
    let dims: Vec<isize> = match dims {
        Some(dims) => dims.to_vec(),
        None if x.ndim() == 0 => return Err(Error::argument(name, "a 0-d tensor has no dimension to shift")),
        None => (0..x.ndim() as isize).collect(),
    };
    let shifts: Vec<isize> =
        dims.iter().map(|&dim| Ok(by(x.dims()[x.dimension(name, dim)?]) as isize)).collect::<Result<_>>()?;
    x.roll(&shifts, &dims)
}

/// Whole numbers of ranges, divided by the span of all points.
fn frequencies<const N: usize>(
    name: &'static str,
    ranges: [(i64, i64); N],
    span: f64,
    options: TensorOptions,
) -> Result<Tensor> {
    if !options.dtype.is_float() {
        return Err(Error::dtype(name, "frequencies need a floating-point dtype", [options.dtype]));
    }
    let plain = options.requires_grad(false);
    let parts: Vec<Tensor> = ranges
        .iter()
        .map(|&(start, end)| Tensor::arange_with(start, end, 1, plain))
        .collect::<Result<_>>()?;
    let all = if let [one] = &parts[..] { one.clone() } else { Tensor::cat(&parts, 0)? };
    options.finish(all.mul(1.0 / span)?)
}

/// The number of points as a signed integer.
fn points(name: &'static str, n: usize) -> Result<i64> {
    i64::try_from(n).map_err(|_| Error::argument(name, format!("{n} points are more than can be counted")))
}

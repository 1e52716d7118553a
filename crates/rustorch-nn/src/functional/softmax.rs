//! Activations along a dimension.

use super::{expect_float, rounded};
use rustorch_tensor::{Error, Result, Tensor};

/// `exp(x) / Σ exp(x)` along a dimension, as `torch.nn.functional.softmax`.
///
/// # Errors
/// If there is no such dimension, or the dtype is none of floats.
pub fn softmax(x: &Tensor, dim: isize) -> Result<Tensor> {
    x.softmax(dim)
}

/// `softmax(−x)` along a dimension, as `torch.nn.functional.softmin`.
///
/// # Errors
/// If there is no such dimension, or the dtype is none of floats.
pub fn softmin(x: &Tensor, dim: isize) -> Result<Tensor> {
    expect_float("softmin", x)?;
    x.neg()?.softmax(dim)
}

/// `x − log Σ exp(x)` along a dimension, as `torch.nn.functional.log_softmax`.
///
/// # Errors
/// If there is no such dimension, or the dtype is none of floats.
pub fn log_softmax(x: &Tensor, dim: isize) -> Result<Tensor> {
    x.log_softmax(dim)
}

/// [`softmax`] over the channels of `[n, channels, height, width]` or `[channels, height, width]`, as `torch.nn.Softmax2d`.
///
/// # Errors
/// If the input has other than 3 or 4 dimensions, or the dtype is none of floats.
pub fn softmax2d(x: &Tensor) -> Result<Tensor> {
    if !(3..=4).contains(&x.ndim()) {
        return Err(Error::shape(
            "softmax2d",
            "needs [n, channels, height, width] or [channels, height, width]",
            [x.shape()],
        ));
    }
    x.softmax(-3)
}

/// `a · sigmoid(b)` with the halves `a` and `b` of the input along a dimension, as `torch.nn.functional.glu`.
///
/// # Errors
/// If the dimension has odd length or there is none, or the dtype is none of floats.
pub fn glu(x: &Tensor, dim: isize) -> Result<Tensor> {
    const NAME: &str = "glu";
    expect_float(NAME, x)?;
    let length = x.size(dim)?;
    if x.ndim() == 0 || length % 2 != 0 {
        let message =
            format!("dimension {dim} must have an even length to be split in halves, and has {length}");
        return Err(Error::shape(NAME, message, [x.shape()]));
    }
    let half = length / 2;
    rounded([&x.narrow(dim, 0, half)?, &x.narrow(dim, half, half)?], |[a, b]| a * b.sigmoid())
}

//! Rectified linear units and their variants: the identity above 0.

use super::{expect_float, hardtanh, pointwise, rounded};
use rustorch_tensor::{Error, Expr, Result, Tensor};

/// `max(x, 0)`, as `torch.nn.functional.relu`. NaN stays.
///
/// # Errors
/// If the dtype is boolean or complex.
pub fn relu(x: &Tensor) -> Result<Tensor> {
    x.relu()
}

/// `min(max(x, 0), 6)`, as `torch.nn.functional.relu6`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn relu6(x: &Tensor) -> Result<Tensor> {
    hardtanh(x, 0.0, 6.0)
}

/// `x` where it is positive, else `negative_slope · x`, as `torch.nn.functional.leaky_relu`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn leaky_relu(x: &Tensor, negative_slope: f64) -> Result<Tensor> {
    pointwise("leaky_relu", x, |x| x.gt(0).where_cond(x, x * negative_slope))
}

/// `x` where it is positive, else `scale · (exp(x / width) − 1)`.
fn exponential<'t>(x: Expr<'t>, scale: f64, width: f64) -> Expr<'t> {
    let positive = x.gt(0);
    // The exponential of a large x is infinite, and so would be its derivative, which zero does not hide.
    let below = positive.where_cond(0, x);
    positive.where_cond(x, (below / width).expm1() * scale)
}

/// `x` where it is positive, else `alpha · (exp(x) − 1)`, as `torch.nn.functional.elu`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn elu(x: &Tensor, alpha: f64) -> Result<Tensor> {
    pointwise("elu", x, |x| exponential(x, alpha, 1.0))
}

/// `scale · elu(x, alpha)` with the constants that keep mean and variance, as `torch.nn.functional.selu`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn selu(x: &Tensor) -> Result<Tensor> {
    const ALPHA: f64 = 1.673_263_242_354_377_2;
    const SCALE: f64 = 1.050_700_987_355_480_5;
    pointwise("selu", x, |x| exponential(x, ALPHA, 1.0) * SCALE)
}

/// `max(x, 0) + min(alpha · (exp(x / alpha) − 1), 0)`, as `torch.nn.functional.celu`.
///
/// # Errors
/// If alpha is 0, or the dtype is none of floats.
pub fn celu(x: &Tensor, alpha: f64) -> Result<Tensor> {
    const NAME: &str = "celu";
    if alpha == 0.0 {
        return Err(Error::argument(NAME, "alpha must not be 0, because x is divided by it"));
    }
    pointwise(NAME, x, |x| exponential(x, alpha, alpha))
}

/// `x` where it is positive, else `slope · x`.
fn sloped(x: &Tensor, slope: &Tensor) -> Result<Tensor> {
    // Where x is positive the slope has no gradient, also if x is infinite.
    rounded([x, slope], |[x, slope]| {
        let positive = x.gt(0);
        positive.where_cond(x, positive.where_cond(0, x) * slope)
    })
}

/// `x` where it is positive, else `weight · x`, as `torch.nn.functional.prelu`: with one weight, or one for each index of
/// dimension 1.
///
/// # Errors
/// If `weight` is not 1-D or 0-D or does not have one element or that many, or the dtypes are not the same float.
pub fn prelu(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    const NAME: &str = "prelu";
    expect_float(NAME, x)?;
    if weight.dtype() != x.dtype() {
        let message = "weight must have the dtype of the input; convert one of them with to_dtype";
        return Err(Error::dtype(NAME, message, [x.dtype(), weight.dtype()]));
    }
    let channels = x.dims().get(1).copied().unwrap_or(1);
    if weight.ndim() > 1 || weight.numel() != 1 && (weight.numel() != channels || x.ndim() == 0) {
        let message =
            format!("weight must have 1 element, or one for each of the input's {channels} channels");
        return Err(Error::shape(NAME, message, [x.shape(), weight.shape()]));
    }
    if weight.numel() == 1 || x.ndim() < 2 {
        return sloped(x, &weight.reshape([0usize; 0])?);
    }
    let mut dims = vec![1; x.ndim()];
    dims[1] = weight.numel() as isize;
    sloped(x, &weight.reshape(dims)?)
}

/// `x` where it is positive, else `slope · x`, as `torch.nn.functional.rrelu`: in training the slope of each element is random,
/// uniform in `[lower, upper)`, else it is `(lower + upper) / 2`.
///
/// # Errors
/// If `lower` is above `upper` or either is not finite, or the dtype is none of floats.
pub fn rrelu(x: &Tensor, lower: f64, upper: f64, training: bool) -> Result<Tensor> {
    const NAME: &str = "rrelu";
    expect_slopes(NAME, lower, upper)?;
    expect_float(NAME, x)?;
    if !training {
        return leaky_relu(x, (lower + upper) / 2.0);
    }
    sloped(x, &x.rand_like()?.mul(upper - lower)?.add(lower)?)
}

/// Checks the bounds of random slopes.
pub(crate) fn expect_slopes(name: &'static str, lower: f64, upper: f64) -> Result<()> {
    if lower <= upper && lower.is_finite() && upper.is_finite() {
        return Ok(());
    }
    let message =
        format!("lower and upper must be finite, lower not above upper, but they are {lower} and {upper}");
    Err(Error::argument(name, message))
}

//! Piecewise linear activations with bounds.

use super::pointwise;
use rustorch_tensor::{Error, Expr, Result, Tensor};

/// `min(max(x, min_val), max_val)`, as `torch.nn.functional.hardtanh`. At the bounds the gradient is 0.
///
/// # Errors
/// If `min_val` is above `max_val`, or the dtype is none of floats.
pub fn hardtanh(x: &Tensor, min_val: f64, max_val: f64) -> Result<Tensor> {
    const NAME: &str = "hardtanh";
    if min_val > max_val || min_val.is_nan() || max_val.is_nan() {
        let message = format!("min_val must not be above max_val, but they are {min_val} and {max_val}");
        return Err(Error::argument(NAME, message));
    }
    pointwise(NAME, x, |x| x.clamp(min_val, max_val))
}

/// `x · min(max(x + 3, 0), 6) / 6`, as `torch.nn.functional.hardswish`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn hardswish(x: &Tensor) -> Result<Tensor> {
    pointwise("hardswish", x, |x| x * (x + 3).clamp(0, 6) / 6)
}

/// `min(max(x + 3, 0), 6) / 6`, as `torch.nn.functional.hardsigmoid`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn hardsigmoid(x: &Tensor) -> Result<Tensor> {
    pointwise("hardsigmoid", x, |x| (x + 3).clamp(0, 6) / 6)
}

/// Whether −λ ≤ x ≤ λ; not of NaN.
fn within<'t>(x: Expr<'t>, lambd: f64) -> Expr<'t> {
    x.ge(-lambd).logical_and(x.le(lambd))
}

/// 0 where −λ ≤ x ≤ λ, else `x`, as `torch.nn.functional.hardshrink`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn hardshrink(x: &Tensor, lambd: f64) -> Result<Tensor> {
    pointwise("hardshrink", x, |x| within(x, lambd).where_cond(0, x))
}

/// 0 where −λ ≤ x ≤ λ, else `x − λ · sign(x)`, as `torch.nn.functional.softshrink`.
///
/// # Errors
/// If λ is negative, or the dtype is none of floats.
pub fn softshrink(x: &Tensor, lambd: f64) -> Result<Tensor> {
    const NAME: &str = "softshrink";
    if lambd < 0.0 || lambd.is_nan() {
        return Err(Error::argument(NAME, format!("lambd must not be negative, and is {lambd}")));
    }
    pointwise(NAME, x, |x| within(x, lambd).where_cond(0, x - x.sign() * lambd))
}

/// `x` where it is above a threshold, else `value`, as `torch.nn.functional.threshold`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn threshold(x: &Tensor, threshold: f64, value: f64) -> Result<Tensor> {
    pointwise("threshold", x, |x| x.le(threshold).where_cond(value, x))
}

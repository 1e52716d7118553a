//! Losses of differences.

use super::pointwise;
use rustorch_tensor::{Error, Reduction, Result, Tensor};

/// `|input − target|`, as `torch.nn.functional.l1_loss`.
///
/// # Errors
/// If the shapes differ (PyTorch broadcasts them with a warning), or the input is none of floats.
pub fn l1_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    pointwise("l1_loss", [input, target], reduction, |[x, y]| (x - y).abs())
}

/// `(input − target)²`, as `torch.nn.functional.mse_loss`.
///
/// # Errors
/// If the shapes differ (PyTorch broadcasts them with a warning), or the input is none of floats.
pub fn mse_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    pointwise("mse_loss", [input, target], reduction, |[x, y]| (x - y).square())
}

/// With `d = |input − target|`: `d² / (2 · beta)` where `d < beta`, else `d − beta / 2`, as `torch.nn.functional.smooth_l1_loss`.
///
/// # Errors
/// If beta is negative, the shapes differ (PyTorch broadcasts them with a warning), or the input is none of floats.
pub fn smooth_l1_loss(input: &Tensor, target: &Tensor, beta: f64, reduction: Reduction) -> Result<Tensor> {
    const NAME: &str = "smooth_l1_loss";
    if beta < 0.0 || beta.is_nan() {
        return Err(Error::argument(NAME, format!("beta must not be negative, and is {beta}")));
    }
    if beta == 0.0 {
        return pointwise(NAME, [input, target], reduction, |[x, y]| (x - y).abs());
    }
    pointwise(NAME, [input, target], reduction, |[x, y]| {
        let d = (x - y).abs();
        // d² alone would overflow where it is not taken.
        let near = d.clamp_max(beta);
        near.square() * (0.5 / beta) + (d - near)
    })
}

/// With `d = |input − target|`: `d² / 2` where `d ≤ delta`, else `delta · (d − delta / 2)`, as `torch.nn.functional.huber_loss`.
///
/// # Errors
/// If delta is not positive, the shapes differ (PyTorch broadcasts them with a warning), or the input is none of floats.
pub fn huber_loss(input: &Tensor, target: &Tensor, delta: f64, reduction: Reduction) -> Result<Tensor> {
    const NAME: &str = "huber_loss";
    if delta <= 0.0 || delta.is_nan() {
        return Err(Error::argument(NAME, format!("delta must be positive, and is {delta}")));
    }
    pointwise(NAME, [input, target], reduction, |[x, y]| {
        let d = (x - y).abs();
        let near = d.clamp_max(delta);
        near.square() * 0.5 + (d - near) * delta
    })
}

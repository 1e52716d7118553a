//! Smooth activations.

use super::{expect_float, pointwise};
use crate::Repr;
use rustorch_tensor::{Expr, Result, Tensor};

/// How [`gelu`] is computed, PyTorch's `approximate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GeluApproximation {
    /// By the error function, PyTorch's `"none"`.
    #[default]
    None,
    /// By tanh, as GPT-2 has it.
    Tanh,
}

impl Repr for GeluApproximation {
    fn repr(&self) -> String {
        match self {
            GeluApproximation::None => "none".repr(),
            GeluApproximation::Tanh => "tanh".repr(),
        }
    }
}

/// `x · Φ(x)` with the normal distribution Φ, as `torch.nn.functional.gelu`; with [`GeluApproximation::Tanh`]
/// `x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn gelu(x: &Tensor, approximate: GeluApproximation) -> Result<Tensor> {
    expect_float("gelu", x)?;
    match approximate {
        GeluApproximation::None => x.gelu(),
        GeluApproximation::Tanh => x.gelu_tanh(),
    }
}

/// `x · sigmoid(x)`, as `torch.nn.functional.silu`. Integers give `F32`.
///
/// # Errors
/// If the dtype is one of blocks.
pub fn silu(x: &Tensor) -> Result<Tensor> {
    x.silu()
}

/// `x · tanh(softplus(x))`, as `torch.nn.functional.mish`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn mish(x: &Tensor) -> Result<Tensor> {
    pointwise("mish", x, |x| x * x.softplus().tanh())
}

/// `1 / (1 + exp(−x))`, as `torch.nn.functional.sigmoid`. Integers give `F32`.
///
/// # Errors
/// If the dtype is one of blocks.
pub fn sigmoid(x: &Tensor) -> Result<Tensor> {
    x.sigmoid()
}

/// The hyperbolic tangent, as `torch.nn.functional.tanh`. Integers give `F32`.
///
/// # Errors
/// If the dtype is one of blocks.
pub fn tanh(x: &Tensor) -> Result<Tensor> {
    x.tanh()
}

/// `x − tanh(x)`, as `torch.nn.functional.tanhshrink`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn tanhshrink(x: &Tensor) -> Result<Tensor> {
    pointwise("tanhshrink", x, |x| x - x.tanh())
}

/// `x / (1 + |x|)`, as `torch.nn.functional.softsign`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn softsign(x: &Tensor) -> Result<Tensor> {
    pointwise("softsign", x, |x| x / (x.abs() + 1))
}

/// `log(1 + exp(−|x|))`, whose derivatives do not overflow.
pub(super) fn log1p_exp_neg_abs(x: Expr<'_>) -> Expr<'_> {
    (-x.abs()).exp().log1p()
}

/// `log(1 + exp(beta · x)) / beta`, and `x` where `beta · x` is above the threshold, as `torch.nn.functional.softplus`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn softplus(x: &Tensor, beta: f64, threshold: f64) -> Result<Tensor> {
    pointwise("softplus", x, |x| {
        let scaled = x * beta;
        let smooth = scaled.maximum(0) + log1p_exp_neg_abs(scaled);
        scaled.gt(threshold).where_cond(x, smooth / beta)
    })
}

/// `log(sigmoid(x))`, as `torch.nn.functional.logsigmoid`.
///
/// # Errors
/// If the dtype is none of floats.
pub fn logsigmoid(x: &Tensor) -> Result<Tensor> {
    pointwise("logsigmoid", x, log_sigmoid)
}

/// `log(sigmoid(x))`.
pub(super) fn log_sigmoid(x: Expr<'_>) -> Expr<'_> {
    x.minimum(0) - log1p_exp_neg_abs(x)
}

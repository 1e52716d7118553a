//! Losses as functions.

mod binary;
mod ctc;
mod embedding;
mod likelihood;
mod margin;
mod regression;

pub use binary::{
    binary_cross_entropy, binary_cross_entropy_with_logits, multilabel_soft_margin_loss, soft_margin_loss,
};
pub use ctc::ctc_loss;
pub use embedding::{
    TripletMarginOptions, cosine_embedding_loss, pairwise_distance, triplet_margin_loss,
    triplet_margin_with_distance_loss,
};
pub use likelihood::{KLDivReduction, cross_entropy, gaussian_nll_loss, kl_div, nll_loss, poisson_nll_loss};
pub use margin::{hinge_embedding_loss, margin_ranking_loss, multi_margin_loss, multilabel_margin_loss};
pub use regression::{huber_loss, l1_loss, mse_loss, smooth_l1_loss};

use super::{expect_float, half_dtype, wide};
use rustorch_tensor::autograd::Autocast;
use rustorch_tensor::{Error, Expr, Reduction, Result, Tensor};

/// What becomes of losses, in the dtype of the inputs that they were computed of.
fn reduce(losses: Tensor, reduction: Reduction, inputs: &[&Tensor]) -> Result<Tensor> {
    let loss = match reduction {
        Reduction::None => losses,
        Reduction::Mean => losses.mean_all()?,
        Reduction::Sum => losses.sum_all()?,
    };
    finish(loss, inputs)
}

/// A loss in the dtype of the inputs that it was computed of: those of 16 bits are computed in `F32`, where mixed precision leaves them.
fn finish(loss: Tensor, inputs: &[&Tensor]) -> Result<Tensor> {
    match half_dtype(inputs) {
        Some(dtype) if Autocast::current().is_none() => loss.to_dtype(dtype),
        _ => Ok(loss),
    }
}

/// Checks that a target has the shape of the input.
fn expect_same_shape(name: &'static str, input: &Tensor, target: &Tensor) -> Result<()> {
    if input.shape() == target.shape() {
        return Ok(());
    }
    let message = format!("the target must have the input's shape {}", input.shape());
    Err(Error::shape(name, message, [input.shape(), target.shape()]))
}

/// The losses of elements of an input of floats and a target of its shape, by a pointwise expression.
fn elements(
    name: &'static str,
    [input, target]: [&Tensor; 2],
    f: impl for<'t> FnOnce([Expr<'t>; 2]) -> Expr<'t>,
) -> Result<Tensor> {
    expect_float(name, input)?;
    expect_same_shape(name, input, target)?;
    wide([input, target], f)
}

/// What becomes of the losses of elements.
fn pointwise(
    name: &'static str,
    inputs: [&Tensor; 2],
    reduction: Reduction,
    f: impl for<'t> FnOnce([Expr<'t>; 2]) -> Expr<'t>,
) -> Result<Tensor> {
    reduce(elements(name, inputs, f)?, reduction, &inputs)
}

//! Activations, losses, padding and sampling as functions of tensors, as `torch.nn.functional`.
//!
//! Of 16-bit floats they are computed in `F32` and rounded once; in the scope of [`autocast`](rustorch_tensor::autograd::autocast), losses
//! stay `F32`.
//!
//! ```
//! use rustorch_nn::functional as F;
//! use rustorch_tensor::Tensor;
//! let x = Tensor::new([-4.0f32, -1.0, 0.5, 7.0])?;
//! assert_eq!(F::relu6(&x)?.to_vec::<f32>()?, [0.0, 0.0, 0.5, 6.0]);
//! assert_eq!(F::leaky_relu(&x, 0.25)?.to_vec::<f32>()?, [-1.0, -0.25, 0.5, 7.0]);
//! # Ok::<(), rustorch_tensor::Error>(())
//! ```

mod grid;
mod hard;
mod linear_unit;
mod loss;
mod pad;
mod smooth;
mod softmax;

pub use grid::{GridSampleMode, GridSampleOptions, GridSamplePadding, affine_grid, grid_sample};
pub use hard::{hardshrink, hardsigmoid, hardswish, hardtanh, softshrink, threshold};
pub(crate) use linear_unit::expect_slopes;
pub use linear_unit::{celu, elu, leaky_relu, prelu, relu, relu6, rrelu, selu};
pub use loss::{
    KLDivReduction, TripletMarginOptions, binary_cross_entropy, binary_cross_entropy_with_logits,
    cosine_embedding_loss, cross_entropy, ctc_loss, gaussian_nll_loss, hinge_embedding_loss, huber_loss,
    kl_div, l1_loss, margin_ranking_loss, mse_loss, multi_margin_loss, multilabel_margin_loss,
    multilabel_soft_margin_loss, nll_loss, pairwise_distance, poisson_nll_loss, smooth_l1_loss,
    soft_margin_loss, triplet_margin_loss, triplet_margin_with_distance_loss,
};
pub use pad::pad;
pub use smooth::{
    GeluApproximation, gelu, logsigmoid, mish, sigmoid, silu, softplus, softsign, tanh, tanhshrink,
};
pub use softmax::{glu, log_softmax, softmax, softmax2d, softmin};

use rustorch_tensor::{DType, Error, Expr, Result, Tensor, fuse};

/// Applies a pointwise expression to a tensor of floats, in one pass over memory, and rounds its result once.
fn pointwise(name: &'static str, x: &Tensor, f: impl for<'t> FnOnce(Expr<'t>) -> Expr<'t>) -> Result<Tensor> {
    expect_float(name, x)?;
    rounded([x], |[x]| f(x))
}

/// The value of a pointwise expression in the dtype of its inputs, rounded once.
fn rounded<const N: usize>(
    inputs: [&Tensor; N],
    f: impl for<'t> FnOnce([Expr<'t>; N]) -> Expr<'t>,
) -> Result<Tensor> {
    let half = half_dtype(&inputs);
    wide(inputs, |inputs| match half {
        Some(dtype) => f(inputs).to_dtype(dtype),
        None => f(inputs),
    })
}

/// The value of a pointwise expression that is computed in `F32` where inputs are 16-bit floats: those would be rounded at each step.
fn wide<const N: usize>(
    inputs: [&Tensor; N],
    f: impl for<'t> FnOnce([Expr<'t>; N]) -> Expr<'t>,
) -> Result<Tensor> {
    let half = inputs.map(|x| is_half(x.dtype()));
    let fused = fuse(|mut inputs: [Expr<'_>; N]| {
        for (x, _) in inputs.iter_mut().zip(half).filter(|(_, half)| *half) {
            *x = x.to_dtype(DType::F32);
        }
        f(inputs)
    })?;
    fused.apply(&inputs)
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// The 16-bit float that all inputs are which are floats.
fn half_dtype(inputs: &[&Tensor]) -> Option<DType> {
    let mut floats = inputs.iter().map(|x| x.dtype()).filter(|dtype| dtype.is_float());
    let first = floats.next().filter(|&dtype| is_half(dtype))?;
    floats.all(|dtype| dtype == first).then_some(first)
}

/// Checks that the input of a function has real floats.
fn expect_float(name: &'static str, x: &Tensor) -> Result<()> {
    if x.dtype().is_float() {
        return Ok(());
    }
    Err(Error::dtype(name, "needs a floating-point input; convert it with to_dtype(F32)", [x.dtype()]))
}

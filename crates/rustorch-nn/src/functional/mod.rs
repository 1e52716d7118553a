//! Activations and losses as functions of tensors, as `torch.nn.functional`.
//!
//! ```
//! use rustorch_nn::functional as F;
//! use rustorch_tensor::Tensor;
//! let x = Tensor::new([-4.0f32, -1.0, 0.5, 7.0])?;
//! assert_eq!(F::relu6(&x)?.to_vec::<f32>()?, [0.0, 0.0, 0.5, 6.0]);
//! assert_eq!(F::leaky_relu(&x, 0.25)?.to_vec::<f32>()?, [-1.0, -0.25, 0.5, 7.0]);
//! # Ok::<(), rustorch_tensor::Error>(())
//! ```

mod hard;
mod linear_unit;
mod loss;
mod smooth;
mod softmax;

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
pub use smooth::{
    GeluApproximation, gelu, logsigmoid, mish, sigmoid, silu, softplus, softsign, tanh, tanhshrink,
};
pub use softmax::{glu, log_softmax, softmax, softmax2d, softmin};

use rustorch_tensor::{Error, Expr, Result, Tensor, fuse};

/// Applies a pointwise expression to a tensor of floats, in one pass over memory.
fn pointwise(name: &'static str, x: &Tensor, f: impl for<'t> FnOnce(Expr<'t>) -> Expr<'t>) -> Result<Tensor> {
    expect_float(name, x)?;
    fuse(|[x]| f(x))?.apply(&[x])
}

/// Checks that the input of a function has real floats.
fn expect_float(name: &'static str, x: &Tensor) -> Result<()> {
    if x.dtype().is_float() {
        return Ok(());
    }
    Err(Error::dtype(name, "needs a floating-point input; convert it with to_dtype(F32)", [x.dtype()]))
}

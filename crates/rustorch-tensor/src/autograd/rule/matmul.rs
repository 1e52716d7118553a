//! Matmuls.

use super::{Gradient, Recording, Rule, if_needed};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::node::Kind;
use crate::autograd::saved::{Saves, Which};
use rustorch_core::{DType, MatMul, MulMatId, Numerics, Result, ViewOp};

impl Rule for MatMul {
    fn gradient(&self, _: &[&Tensor]) -> Gradient {
        // The activation's gradient needs what it was applied to.
        if self.activation.is_some() { Gradient::Steps } else { Gradient::Exists }
    }

    fn saves(&self, recording: &Recording<'_>) -> Saves {
        if_needed(recording, &[(0, &[Which::Arg(1)]), (1, &[Which::Arg(0)])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let grad = cx.grad()?;
        cx.each(|arg| {
            Ok(Some(match arg {
                0 => grad.matmul(&adjoint(cx.arg(1)?, grad.dtype())?)?,
                // Of a transposed matrix, such as a layer's weight, the gradient lies as the matrix does, not as its view.
                1 if is_transposed(cx, 1) => {
                    let x = adjoint(cx.arg(0)?, grad.dtype())?.transpose(-2, -1)?;
                    grad.transpose(-2, -1)?.matmul(&x)?.transpose(-2, -1)?
                }
                1 => adjoint(cx.arg(0)?, grad.dtype())?.matmul(grad)?,
                // The bias was broadcast over rows, over which the pass sums.
                _ => grad.clone(),
            }))
        })
    }
}

/// Whether an argument's matrices are transposed views.
fn is_transposed(cx: &Context<'_>, arg: usize) -> bool {
    let ndim = cx.input(arg).shape.ndim();
    match cx.node.inputs[arg].as_ref().map(|edge| &edge.node.kind) {
        Some(Kind::View(ViewOp::Transpose { axes: [a, b] })) => a.min(b) + 2 == ndim && a.max(b) + 1 == ndim,
        _ => false,
    }
}

/// The conjugate transpose of matrices, in a dtype: a weight of another one is decoded for the gradient alone.
fn adjoint(x: &Tensor, dtype: DType) -> Result<Tensor> {
    let transposed = x.transpose(-2, -1)?;
    if transposed.dtype() == dtype { transposed.conj() } else { transposed.to_dtype(dtype) }
}

impl Rule for MulMatId {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        if_needed(recording, &[(0, &[Which::Arg(1), Which::Arg(2)]), (1, &[Which::Arg(0), Which::Arg(2)])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let grad = cx.grad()?;
        cx.each(|arg| match arg {
            0 => {
                let weights = cx.arg(1)?;
                let weights = match weights.dtype() == grad.dtype() {
                    true => weights.clone(),
                    false => weights.to_dtype(grad.dtype())?,
                };
                let transposed = weights.transpose(1, 2)?.contiguous()?;
                grad.mul_mat_id(&transposed, cx.arg(2)?, Numerics::F32).map(Some)
            }
            1 => {
                let (x, ids) = (cx.arg(0)?, cx.arg(2)?);
                let [tokens, chosen, out] = *grad.dims() else {
                    unreachable!("the result has three dimensions")
                };
                let experts = cx.input(1).shape.dims()[0];
                let rows = [tokens * chosen, 1];
                // For each expert the rows that chose it, the others zero.
                let all = Tensor::arange_with(0, experts as i64, 1, (ids.dtype(), ids.device()))?;
                let chose = ids.reshape(rows)?.eq(&all)?.to_dtype(grad.dtype())?.t()?.unsqueeze(-1)?;
                let grads = grad.reshape([tokens * chosen, out])?.unsqueeze(0)?.mul(&chose)?;
                let inputs = x.to_dtype(grad.dtype())?;
                let width = inputs.dims()[2];
                let inputs =
                    inputs.broadcast_to([tokens, chosen, width])?.reshape([tokens * chosen, width])?;
                grads.transpose(1, 2)?.matmul(&inputs).map(Some)
            }
            _ => Ok(None),
        })
    }
}

//! View ops: the gradient of each is another view, or zeros around it.

use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::dispatch::run;
use rustorch_core::{C128, DType, Dims, Op, Pad, Result, Scalar, ViewOp};

/// The gradient of the tensor that was viewed.
pub(crate) fn backward(op: &ViewOp, cx: &Context<'_>) -> Result<Grads> {
    cx.first(|| {
        let (grad, meta) = (cx.grad()?, cx.input(0));
        match op {
            ViewOp::Reshape(_) => grad.reshape_to(meta.shape.clone()),
            &ViewOp::Squeeze { axis } => grad.unsqueeze(axis as isize),
            &ViewOp::Unsqueeze { axis } => grad.squeeze(axis as isize),
            ViewOp::Permute(axes) => grad.permute(inverse(axes.iter().copied())),
            &ViewOp::Transpose { axes: [a, b] } => grad.transpose(a as isize, b as isize),
            // The pass sums what was repeated.
            ViewOp::Expand(_) => Ok(grad.clone()),
            &ViewOp::Slice { axis, start, len, step } => {
                slice(grad, axis, start, len, step, meta.shape.dims()[axis])
            }
            &ViewOp::Select { axis, index } => {
                slice(&grad.unsqueeze(axis as isize)?, axis, index, 1, 1, meta.shape.dims()[axis])
            }
            ViewOp::Diagonal { .. } | ViewOp::Unfold { .. } => scattered(op, grad, cx),
            ViewOp::AsComplex => grad.contiguous()?.view_as_real(),
            ViewOp::AsReal => grad.contiguous()?.view_as_complex(),
            // The pass makes complex numbers of them.
            ViewOp::Real => Ok(grad.clone()),
            ViewOp::Imag => grad.to_dtype(meta.dtype)?.mul(C128::new(0.0, 1.0)),
        }
    })
}

/// The permutation that undoes another.
pub(super) fn inverse(axes: impl ExactSizeIterator<Item = usize>) -> Vec<isize> {
    let mut inverse = vec![0; axes.len()];
    for (to, from) in axes.enumerate() {
        inverse[from] = to as isize;
    }
    inverse
}

/// Zeros around a gradient along an axis.
pub(super) fn pad(grad: &Tensor, axis: usize, before: usize, after: usize) -> Result<Tensor> {
    if before == 0 && after == 0 {
        return Ok(grad.clone());
    }
    let widths = (0..grad.ndim()).map(|i| if i == axis { (before, after) } else { (0, 0) }).collect();
    run(&Op::Pad(Pad { widths, value: Scalar::Int(0) }), &[grad])
}

/// Of `len` elements of an axis of length `whole` from `start`, `step` apart.
fn slice(grad: &Tensor, axis: usize, start: usize, len: usize, step: usize, whole: usize) -> Result<Tensor> {
    if step == 1 || len <= 1 {
        return pad(grad, axis, start, whole - start - len);
    }
    // Zeros behind each element, of which those behind the last are too many or too few.
    let apart = pad(&grad.unsqueeze(axis as isize + 1)?, axis + 1, 0, step - 1)?;
    let mut dims: Dims = grad.dims().into();
    dims[axis] = len * step;
    let spread = apart.reshape(&dims[..])?.narrow(axis as isize, 0, (len - 1) * step + 1)?;
    pad(&spread, axis, start, whole - start - ((len - 1) * step + 1))
}

/// Of any view: each element is added where it came from.
fn scattered(op: &ViewOp, grad: &Tensor, cx: &Context<'_>) -> Result<Tensor> {
    let meta = cx.input(0);
    let count = meta.shape.numel();
    let places = Tensor::arange_with(0, count as i64, 1, (DType::I64, grad.device()))?;
    let places = crate::dispatch::view(&places.reshape_to(meta.shape.clone())?, op)?.reshape([-1])?;
    let zeros = Tensor::zeros([count], (grad.dtype(), grad.device()))?;
    zeros.scatter_add_(0, &places, &grad.reshape([-1])?)?;
    zeros.reshape_to(meta.shape.clone())
}

//! Reductions and scans.

use super::index::added_at;
use super::pointwise::zeros;
use super::view::inverse;
use super::{Gradient, Recording, Rule, if_needed, nothing};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::{Saves, Which};
use rustorch_core::{Reduce, ReduceOp, Result, Scan, ScanOp, Shape};

/// A reduction with what its gradients need.
struct Reduction<'a>(&'a Reduce);

impl Reduction<'_> {
    /// A tensor of the result's shape with the reduced axes of length 1, or one that broadcasts as that does.
    fn restored(&self, x: &Tensor) -> Result<Tensor> {
        if self.0.keepdim || x.ndim() == 0 {
            return Ok(x.clone());
        }
        self.0.axes.iter().try_fold(x.clone(), |x, &axis| x.unsqueeze(axis as isize))
    }

    fn list(&self) -> Vec<isize> {
        self.0.axes.iter().map(|&axis| axis as isize).collect()
    }

    /// How many elements make one.
    fn count(&self, shape: &Shape) -> f64 {
        self.0.axes.iter().map(|&axis| shape.dims()[axis]).product::<usize>() as f64
    }

    /// The sum over the reduced axes, which stay with length 1.
    fn sum_of(&self, x: &Tensor) -> Result<Tensor> {
        if self.0.axes.is_empty() { Ok(x.clone()) } else { x.sum(self.list(), true) }
    }

    /// Of the variance.
    fn variance(&self, grad: &Tensor, x: &Tensor, correction: f64) -> Result<Tensor> {
        let n = self.count(x.shape());
        if x.ndim() == 0 && n <= correction {
            // PyTorch's constant: what is infinite times nothing does not depend on the number.
            let slope = Tensor::full(x.shape().clone(), f64::INFINITY, (x.dtype(), x.device()))?;
            return grad.mul(&slope.masked_fill(&x.eq(x)?, f64::NAN)?);
        }
        let mean = if self.0.axes.is_empty() { x.clone() } else { x.mean(self.list(), true)? };
        // PyTorch's order: infinite where nothing is left to divide by.
        x.sub(&mean)?.mul(2.0 / (n - correction))?.mul(&self.restored(grad)?)
    }
}

impl Rule for Reduce {
    fn gradient(&self, _: &[&Tensor]) -> Gradient {
        match self.op {
            ReduceOp::ArgMax | ReduceOp::ArgMin | ReduceOp::Any | ReduceOp::All => Gradient::None,
            _ => Gradient::Exists,
        }
    }

    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let which: &[Which] = match self.op {
            ReduceOp::Sum | ReduceOp::Mean => return nothing(),
            ReduceOp::Var { .. } | ReduceOp::Prod => &[Which::Arg(0)],
            _ => &[Which::Arg(0), Which::Result(0)],
        };
        if_needed(recording, &[(0, which)])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let this = Reduction(self);
        cx.first(|| {
            let (grad, shape) = (cx.grad()?, &cx.input(0).shape);
            match self.op {
                ReduceOp::Sum => this.restored(grad)?.broadcast_to(shape),
                // Of no elements there is nothing to divide.
                ReduceOp::Mean => this.restored(&grad.div(this.count(shape).max(1.0))?)?.broadcast_to(shape),
                ReduceOp::Prod => product(self, &this.restored(grad)?, cx.arg(0)?),
                ReduceOp::Max | ReduceOp::Min => {
                    let x = cx.arg(0)?;
                    // Equals share.
                    let chosen = x.eq(&this.restored(cx.result(0)?)?)?.to_dtype(x.dtype())?;
                    this.restored(grad)?.mul(&chosen)?.div(&this.sum_of(&chosen)?)
                }
                ReduceOp::LogSumExp => {
                    let weights = cx.arg(0)?.sub(&this.restored(cx.result(0)?)?)?.exp()?;
                    this.restored(grad)?.mul(&weights)
                }
                ReduceOp::Norm => {
                    let norm = this.restored(cx.result(0)?)?;
                    // PyTorch's: zero where the norm is.
                    cx.arg(0)?.div(&norm)?.masked_fill(&norm.eq(0)?, 0)?.mul(&this.restored(grad)?)
                }
                ReduceOp::Var { correction } => this.variance(grad, cx.arg(0)?, correction),
                ReduceOp::Std { correction } => {
                    let std = cx.result(0)?;
                    let grad = grad.div(&std.mul(2)?)?.masked_fill(&std.eq(0)?, 0)?;
                    this.variance(&grad, cx.arg(0)?, correction)
                }
                ReduceOp::ArgMax | ReduceOp::ArgMin | ReduceOp::Any | ReduceOp::All => zeros(cx.input(0)),
            }
        })
    }
}

/// Of a product: the product of all others, those before and those behind, so that zeros need no division.
fn product(reduce: &Reduce, grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    if x.numel() == 0 || reduce.axes.is_empty() {
        return grad.broadcast_to(x.shape());
    }
    // The reduced axes last, as one.
    let kept: Vec<usize> = (0..x.ndim()).filter(|axis| !reduce.axes.contains(axis)).collect();
    let order: Vec<isize> = kept.iter().chain(&reduce.axes).map(|&axis| axis as isize).collect();
    let ordered = x.permute(&order)?;
    let mut flat: Vec<usize> = kept.iter().map(|&axis| x.dims()[axis]).collect();
    flat.push(reduce.axes.iter().map(|&axis| x.dims()[axis]).product());
    let rows = ordered.reshape(flat)?;
    let before = exclusive(&rows)?;
    let behind = exclusive(&rows.flip([-1])?)?.flip([-1])?;
    let others = before.mul(&behind)?.conj()?.reshape_to(ordered.shape().clone())?;
    others.permute(inverse(order.iter().map(|&axis| axis as usize)))?.mul(grad)
}

/// The products of the elements before each, along the last axis.
fn exclusive(x: &Tensor) -> Result<Tensor> {
    let first = x.narrow(-1, 0, 1)?.ones_like()?;
    let rest = x.narrow(-1, 0, x.dims()[x.ndim() - 1] - 1)?;
    Tensor::cat(&[&first, &rest], -1)?.cumprod(-1)
}

impl Rule for Scan {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        match self.op {
            ScanOp::Sum => nothing(),
            ScanOp::Prod => if_needed(recording, &[(0, &[Which::Arg(0), Which::Result(0)])]),
            ScanOp::Max | ScanOp::Min => if_needed(recording, &[(0, &[Which::Result(1)])]),
        }
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| {
            let grad = cx.grad()?;
            if grad.ndim() == 0 || grad.numel() == 0 || grad.dims()[self.axis] == 1 {
                return Ok(grad.clone());
            }
            match self.op {
                ScanOp::Sum => reversed_cumsum(grad, self.axis),
                ScanOp::Prod => cumprod(grad, cx.arg(0)?, cx.result(0)?, self.axis),
                ScanOp::Max | ScanOp::Min => added_at(cx.input(0), self.axis, cx.result(1)?, grad),
            }
        })
    }
}

fn reversed_cumsum(x: &Tensor, axis: usize) -> Result<Tensor> {
    let axis = axis as isize;
    x.flip([axis])?.cumsum(axis)?.flip([axis])
}

/// Of running products: Σ over later results of the gradient times the product without the element.
fn cumprod(grad: &Tensor, x: &Tensor, result: &Tensor, axis: usize) -> Result<Tensor> {
    if !x.eq(0)?.any_all()?.item()?.to_bool() {
        return reversed_cumsum(&result.conj()?.mul(grad)?, axis)?.div(&x.conj()?);
    }
    // With zeros nothing can be divided by: element by element, as PyTorch does where a second derivative is to exist.
    let (dim, len) = (axis as isize, x.dims()[axis]);
    let mut parts = Vec::new();
    for k in 0..len {
        let later = grad.narrow(dim, k, len - k)?;
        let behind = x.narrow(dim, k + 1, len - k - 1)?.cumprod(dim)?;
        let mut products = Tensor::cat(&[&x.narrow(dim, k, 1)?.ones_like()?, &behind], dim)?;
        if k > 0 {
            products = products.mul(&x.narrow(dim, 0, k)?.prod(dim, true)?)?;
        }
        parts.push(later.mul(&products.conj()?)?.sum(dim, true)?);
    }
    Tensor::cat(&parts, dim)
}

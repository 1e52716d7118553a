//! Indexing, joining, padding, triangles.

use super::view::pad;
use super::{Recording, Rule, if_needed, nothing};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::node::Meta;
use crate::autograd::saved::{Saves, Which};
use crate::dispatch::run;
use rustorch_core::{
    Concat, DType, Embedding, Gather, IndexSelect, Op, Pad, Result, Scatter, ScatterMode, ScatterReduce,
    ScatterReduction, Tri,
};

/// Zeros of the shape of an argument, to which a gradient is added at an index.
pub(super) fn added_at(meta: &Meta, axis: usize, index: &Tensor, grad: &Tensor) -> Result<Tensor> {
    let zeros = Tensor::zeros(meta.shape.clone(), (grad.dtype(), grad.device()))?;
    zeros.scatter_add_(axis as isize, index, grad)?;
    Ok(zeros)
}

impl Rule for IndexSelect {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        if_needed(recording, &[(0, &[Which::Arg(1)])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| {
            let (grad, index) = (cx.grad()?, cx.arg(1)?);
            let mut dims = vec![1; grad.ndim()];
            dims[self.axis] = index.numel();
            let index = index.reshape(dims)?.broadcast_to(grad.shape())?;
            added_at(cx.input(0), self.axis, &index, grad)
        })
    }
}

impl Rule for Gather {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        if_needed(recording, &[(0, &[Which::Arg(1)])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| added_at(cx.input(0), self.axis, cx.arg(1)?, cx.grad()?))
    }
}

impl Rule for Embedding {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        if_needed(recording, &[(0, &[Which::Arg(1)])])
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| {
            let (grad, ids) = (cx.grad()?, cx.arg(1)?);
            let width = cx.input(0).shape.dims()[1];
            let rows = grad.reshape([ids.numel(), width])?;
            let index = ids.reshape([ids.numel(), 1])?.broadcast_to([ids.numel(), width])?;
            added_at(cx.input(0), 0, &index, &rows)
        })
    }
}

/// The part of a gradient at an index, as the gradient of a source that may be larger than the index.
fn gathered(grad: &Tensor, axis: usize, index: &Tensor, source: &Meta) -> Result<Tensor> {
    enlarged(grad.gather(axis as isize, index)?, index, source)
}

/// With zeros where a source is larger than the index.
fn enlarged(part: Tensor, index: &Tensor, source: &Meta) -> Result<Tensor> {
    let lengths = source.shape.dims().iter().zip(index.dims()).enumerate();
    lengths.into_iter().try_fold(part, |part, (i, (&len, &covered))| pad(&part, i, 0, len - covered))
}

/// Whether the element of each place of an index is the one that stays where the index repeats.
fn stays(axis: usize, index: &Tensor, whole: &Meta) -> Result<Tensor> {
    let number = Tensor::arange_with(0, index.numel() as i64, 1, (DType::I64, index.device()))?;
    let number = number.reshape_to(index.shape().clone())?;
    let last = Tensor::zeros(whole.shape.clone(), (DType::I64, index.device()))?;
    last.scatter(axis as isize, index, &number)?.gather(axis as isize, index)?.eq(&number)
}

impl Rule for Scatter {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let index: &[Which] = &[Which::Arg(1)];
        match self.mode {
            ScatterMode::Replace => if_needed(recording, &[(0, index), (2, index)]),
            ScatterMode::Add => if_needed(recording, &[(2, index)]),
        }
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let (grad, axis) = (cx.grad()?, self.axis);
        cx.each(|arg| {
            Ok(Some(match (arg, self.mode) {
                (0, ScatterMode::Add) => grad.clone(),
                (0, ScatterMode::Replace) => grad.scatter(axis as isize, cx.arg(1)?, 0)?,
                (2, ScatterMode::Add) => gathered(grad, axis, cx.arg(1)?, cx.input(2))?,
                (2, ScatterMode::Replace) => {
                    let index = cx.arg(1)?;
                    let stays = stays(axis, index, cx.input(0))?;
                    let part = grad.gather(axis as isize, index)?;
                    enlarged(stays.where_cond(&part, &part.zeros_like()?)?, index, cx.input(2))?
                }
                _ => return Ok(None),
            }))
        })
    }
}

impl Rule for ScatterReduce {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let index = Which::Arg(1);
        match self.reduction {
            ScatterReduction::Sum | ScatterReduction::Mean => {
                if_needed(recording, &[(0, &[index]), (2, &[index])])
            }
            ScatterReduction::Prod => {
                let all: &[Which] = &[Which::Arg(0), index, Which::Arg(2)];
                if_needed(recording, &[(0, all), (2, all)])
            }
            ScatterReduction::Max | ScatterReduction::Min => {
                let all: &[Which] = &[Which::Arg(0), index, Which::Arg(2), Which::Result(0)];
                if_needed(recording, &[(0, all), (2, all)])
            }
        }
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let (grad, index, axis) = (cx.grad()?, cx.arg(1)?, self.axis as isize);
        // As much of a source as the index covers.
        let covered = |source: &Tensor| {
            (0..source.ndim()).try_fold(source.clone(), |part, i| part.narrow(i as isize, 0, index.dims()[i]))
        };
        // Of the elements in place, before they are told from those that sources replaced, and of the sources.
        let [own, theirs] = match self.reduction {
            ScatterReduction::Sum => [grad.clone(), grad.gather(axis, index)?],
            ScatterReduction::Mean => {
                let ones = Tensor::ones(index.shape().clone(), (grad.dtype(), grad.device()))?;
                let start = match self.include_self {
                    true => grad.ones_like()?,
                    false => grad.zeros_like()?,
                };
                let count = start.scatter_add(axis, index, &ones)?.clamp_min(1)?;
                let share = grad.div(&count)?;
                [share.clone(), share.gather(axis, index)?]
            }
            ScatterReduction::Prod => {
                let (x, source) = (cx.arg(0)?, covered(cx.arg(2)?)?);
                products(grad, x, index, &source, axis, self.include_self)?
            }
            ScatterReduction::Max | ScatterReduction::Min => {
                let (x, source, result) = (cx.arg(0)?, covered(cx.arg(2)?)?, cx.result(0)?);
                let own = x.eq(result)?.to_dtype(grad.dtype())?;
                let own = if self.include_self { own } else { own.scatter(axis, index, 0)? };
                let theirs = source.eq(&result.gather(axis, index)?)?.to_dtype(grad.dtype())?;
                let count = own.scatter_add(axis, index, &theirs)?.clamp_min(1)?;
                let share = grad.div(&count)?;
                [share.mul(&own)?, share.gather(axis, index)?.mul(&theirs)?]
            }
        };
        cx.each(|arg| match arg {
            0 if self.include_self => Ok(Some(own.clone())),
            0 => untouched(&own, grad, index, axis).map(Some),
            2 => enlarged(theirs.clone(), index, cx.input(2)).map(Some),
            _ => Ok(None),
        })
    }
}

/// Of elements in place that take no part where sources come: zero there, the result's gradient elsewhere.
fn untouched(own: &Tensor, grad: &Tensor, index: &Tensor, axis: isize) -> Result<Tensor> {
    let keep = grad.ones_like()?.scatter(axis, index, 0)?;
    keep.ne(0)?.where_cond(own, &grad.zeros_like()?)
}

/// Of products, of the elements in place and of the sources: the product of all others.
fn products(
    grad: &Tensor,
    x: &Tensor,
    index: &Tensor,
    source: &Tensor,
    axis: isize,
    include_self: bool,
) -> Result<[Tensor; 2]> {
    let start = |x: Tensor, empty: i64| if include_self { Ok(x) } else { x.scatter(axis, index, empty) };
    let (own, theirs) = (Factor::new(x)?, Factor::new(source)?);
    // The product of what is not zero, how many zeros there are, and their sum: zero, but differentiable.
    let nonzero = start(own.nonzero.clone(), 1)?.scatter_reduce(
        axis,
        index,
        &theirs.nonzero,
        ScatterReduction::Prod,
        true,
    )?;
    let count = start(own.count.clone(), 0)?.scatter_add(axis, index, &theirs.count)?;
    let zeros = start(own.zero.clone(), 0)?.scatter_add(axis, index, &theirs.zero)?;
    let at = |x: &Tensor| x.gather(axis, index);
    Ok([
        grad.mul(&own.others(&nonzero, &count, &zeros)?)?,
        at(grad)?.mul(&theirs.others(&at(&nonzero)?, &at(&count)?, &at(&zeros)?)?)?,
    ])
}

/// Elements of products, those that are not zero apart from those that are.
struct Factor {
    /// The elements, 1 in place of zeros.
    nonzero: Tensor,
    /// The zeros, and zeros in place of the others.
    zero: Tensor,
    /// Which are zero, as 1.
    count: Tensor,
}

impl Factor {
    fn new(x: &Tensor) -> Result<Factor> {
        let is_zero = x.eq(0)?;
        Ok(Factor {
            nonzero: x.masked_fill(&is_zero, 1)?,
            zero: x.masked_fill(&is_zero.logical_not()?, 0)?,
            count: is_zero.to_dtype(x.dtype())?,
        })
    }

    /// The product of all others. One zero among them makes it zero, with a derivative; two make its derivative zero, too.
    fn others(&self, nonzero: &Tensor, count: &Tensor, zeros: &Tensor) -> Result<Tensor> {
        let left = count.sub(&self.count)?;
        let factor = zeros.sub(&self.zero)?.masked_fill(&left.gt(1)?, 0)?.masked_fill(&left.eq(0)?, 1)?;
        nonzero.div(&self.nonzero)?.mul(&factor)
    }
}

impl Rule for Concat {
    fn saves(&self, _: &Recording<'_>) -> Saves {
        nothing()
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let grad = cx.grad()?;
        let mut start = 0;
        (0..cx.inputs())
            .map(|arg| {
                let len = cx.input(arg).shape.dims()[self.axis];
                start += len;
                if cx.needs(arg) {
                    grad.narrow(self.axis as isize, start - len, len).map(Some)
                } else {
                    Ok(None)
                }
            })
            .collect()
    }
}

impl Rule for Pad {
    fn saves(&self, _: &Recording<'_>) -> Saves {
        nothing()
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| {
            let dims = cx.input(0).shape.dims();
            let mut widths = self.widths.iter().enumerate();
            widths.try_fold(cx.grad()?.clone(), |grad, (i, &(before, _))| {
                grad.narrow(i as isize, before, dims[i])
            })
        })
    }
}

impl Rule for Tri {
    fn saves(&self, _: &Recording<'_>) -> Saves {
        nothing()
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| run(&Op::Tri(self.clone()), &[cx.grad()?]))
    }
}

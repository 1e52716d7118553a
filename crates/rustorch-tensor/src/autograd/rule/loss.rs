//! Losses.

use super::norm::wide;
use super::{Recording, Rule, if_needed};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::is_grad_enabled;
use crate::autograd::saved::{Saves, Which};
use crate::dispatch::{run_into, run_many};
use rustorch_core::{CrossEntropy, CrossEntropyBackward, Op, Result, Shape};
use smallvec::SmallVec;

/// The target of a cross entropy, as tensor operations see it.
struct Smoothed {
    axis: usize,
    /// `(1 − label_smoothing) · y + label_smoothing / classes`, zeros in rows that are ignored; as wide as the logits.
    coefficients: Tensor,
    /// Broadcasts to the logits.
    weight: Option<Tensor>,
}

impl Smoothed {
    fn new(op: &CrossEntropy, logits: &Tensor, target: &Tensor, weight: Option<&Tensor>) -> Result<Smoothed> {
        let axis = op.axis as isize;
        let (factor, spread) = (1.0 - op.label_smoothing, op.label_smoothing / logits.dims()[op.axis] as f64);
        let coefficients = if target.dtype().is_float() {
            wide(target)?.mul(factor)?.add(spread)?
        } else {
            let ignored = target.eq(op.ignore_index)?;
            let classes = target.masked_fill(&ignored, 0)?.unsqueeze(axis)?;
            let y = wide(logits)?.zeros_like()?.scatter(axis, &classes, factor)?;
            y.add(spread)?.masked_fill(&ignored.unsqueeze(axis)?, 0)?
        };
        let weight = weight.map(|weight| along(&wide(weight)?, op.axis, logits.shape())).transpose()?;
        Ok(Smoothed { axis: op.axis, coefficients, weight })
    }

    /// Times the weight.
    fn weighted(&self, x: &Tensor) -> Result<Tensor> {
        match &self.weight {
            Some(weight) => x.mul(weight),
            None => Ok(x.clone()),
        }
    }

    /// The sum over rows of what a weight is multiplied with, times the coefficients.
    fn of_weight(&self, x: &Tensor) -> Result<Tensor> {
        // What has no share of a row counts nothing there, and be it infinite.
        let absent = self.coefficients.eq(0)?;
        let product = self.coefficients.mul(x)?.masked_fill(&absent, 0)?;
        let rows: Vec<isize> = (0..x.ndim()).filter(|&d| d != self.axis).map(|d| d as isize).collect();
        if rows.is_empty() { Ok(product) } else { product.sum(&rows[..], false) }
    }
}

/// A value for each class, as it broadcasts to a shape.
fn along(weight: &Tensor, axis: usize, shape: &Shape) -> Result<Tensor> {
    let mut dims = vec![1; shape.ndim()];
    dims[axis] = weight.numel();
    weight.reshape(dims)
}

/// A gradient of a value for each row, as it broadcasts to the logits.
fn column(x: &Tensor, axis: usize) -> Result<Tensor> {
    wide(x)?.unsqueeze(axis as isize)
}

/// The distributions of rows, from logits and the two parts of logsumexp.
fn shares(logits: &Tensor, logsumexp: &Tensor, rest: &Tensor, axis: usize) -> Result<Tensor> {
    wide(logits)?.sub(&column(logsumexp, axis)?)?.sub(&column(rest, axis)?)?.exp()
}

/// The gradient of the logits.
fn of_logits(op: &CrossEntropy, cx: &Context<'_>, grad: &Tensor) -> Result<Tensor> {
    let (logits, logsumexp, rest) = (cx.arg(0)?, cx.result(1)?, cx.result(2)?);
    let CrossEntropy { axis, ignore_index, label_smoothing } = *op;
    let op = Op::CrossEntropyBackward(CrossEntropyBackward { axis, ignore_index, label_smoothing });
    let grad = grad.to_dtype(logsumexp.dtype())?;
    let weight = if cx.inputs() > 2 { Some(cx.arg(2)?) } else { None };
    let args: SmallVec<[&Tensor; 6]> =
        [&grad, logits, logsumexp, rest, cx.arg(1)?].into_iter().chain(weight).collect();
    // The logits' memory is free for their gradient where nothing else has it: no tensor, no node that keeps it for its own
    // gradient or for another pass. Their handle here is the last one, so nobody can make another meanwhile.
    let only_logits = cx.needed.iter().filter(|needed| **needed).count() == 1 && cx.grads[1].is_none();
    let storage = logits.storage();
    let is_free = storage.handles() == 1 && !storage.is_read_only() && logits.is_contiguous();
    if only_logits && is_free && !is_grad_enabled() {
        run_into(&op, &args, logits)?;
        return Ok(logits.clone());
    }
    run_many(&op, &args)
}

impl Rule for CrossEntropy {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let (logits, target, logsumexp, rest) =
            (Which::Arg(0), Which::Arg(1), Which::Result(1), Which::Result(2));
        if recording.args.len() < 3 {
            return if_needed(
                recording,
                &[(0, &[logits, logsumexp, rest, target]), (1, &[logits, logsumexp])],
            );
        }
        let weight = Which::Arg(2);
        if_needed(
            recording,
            &[
                (0, &[logits, logsumexp, rest, target, weight]),
                (1, &[logits, logsumexp, weight]),
                (2, &[logits, logsumexp, target]),
            ],
        )
    }

    /// What rounding took from logsumexp has none.
    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let [of_loss, of_logsumexp] = [0, 1].map(|i| cx.grads[i].as_ref());
        let of_weight = cx.grads.get(3).and_then(Option::as_ref);
        let axis = self.axis;
        cx.each(|arg| match arg {
            0 => {
                let mut sum = of_loss.map(|grad| of_logits(self, cx, grad)).transpose()?;
                if let Some(grad) = of_logsumexp {
                    let shares = shares(cx.arg(0)?, cx.result(1)?, cx.result(2)?, axis)?;
                    let term = shares.mul(&column(grad, axis)?)?;
                    sum = Some(match sum {
                        Some(sum) => sum.add(&term)?,
                        None => term,
                    });
                }
                Ok(sum)
            }
            1 => {
                let Some(grad) = of_loss else { return Ok(None) };
                let terms = column(cx.result(1)?, axis)?.sub(&wide(cx.arg(0)?)?)?;
                let grad = terms.mul(&column(grad, axis)?)?.mul(1.0 - self.label_smoothing)?;
                match cx.inputs() > 2 {
                    true => grad.mul(&along(&wide(cx.arg(2)?)?, axis, &cx.input(0).shape)?).map(Some),
                    false => Ok(Some(grad)),
                }
            }
            _ => {
                let (logits, target) = (wide(cx.arg(0)?)?, cx.arg(1)?);
                let mut sum = None;
                if let Some(grad) = of_loss {
                    let terms = column(cx.result(1)?, axis)?.sub(&logits)?.mul(&column(grad, axis)?)?;
                    sum = Some(Smoothed::new(self, &logits, target, None)?.of_weight(&terms)?);
                }
                if let Some(grad) = of_weight {
                    // Of each row the weight of its class.
                    let rows = CrossEntropy { label_smoothing: 0.0, ..self.clone() };
                    let term = Smoothed::new(&rows, &logits, target, None)?
                        .of_weight(&column(grad, axis)?.expand(logits.shape())?)?;
                    sum = Some(match sum {
                        Some(sum) => sum.add(&term)?,
                        None => term,
                    });
                }
                Ok(sum)
            }
        })
    }
}

impl Rule for CrossEntropyBackward {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let all: Vec<Which> = (0..recording.args.len()).map(Which::Arg).collect();
        if_needed(recording, &[(0, &all), (1, &all), (2, &all), (3, &all), (4, &all), (5, &all)])
    }

    /// With `p = e^(logits − logsumexp − rest)`, coefficients `c`, `q = c · weight` and `s = Σ q`, the result is `(p · s − q) · grad`. For
    /// its gradient `u`, those of the arguments are:
    ///
    /// - of `grad`: `Σ u · (p · s − q)`,
    /// - of the logits: `u · grad · p · s`, and of `logsumexp` and `rest` the sum of these, negative,
    /// - of `q`: `v = grad · (Σ u · p − u)`, hence of probabilities `v · weight · (1 − label_smoothing)`, and of the weight `v · c`,
    ///   summed over rows.
    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let CrossEntropyBackward { axis, ignore_index, label_smoothing } = *self;
        let op = CrossEntropy { axis, ignore_index, label_smoothing };
        let (u, logits) = (wide(cx.grad()?)?, wide(cx.arg(1)?)?);
        let grad = column(cx.arg(0)?, axis)?;
        let p = shares(&logits, cx.arg(2)?, cx.arg(3)?, axis)?;
        let weight = if cx.inputs() > 5 { Some(cx.arg(5)?) } else { None };
        let target = Smoothed::new(&op, &logits, cx.arg(4)?, weight)?;
        let q = target.weighted(&target.coefficients)?;
        let axis = axis as isize;
        let s = q.sum(axis, true)?;
        let of_shares = || u.mul(&grad)?.mul(&s)?.mul(&p);
        let of_q = || grad.mul(&u.mul(&p)?.sum(axis, true)?.sub(&u)?);
        cx.each(|arg| {
            Ok(Some(match arg {
                0 => u.mul(&p.mul(&s)?.sub(&q)?)?.sum(axis, false)?,
                1 => of_shares()?,
                2 | 3 => of_shares()?.sum(axis, false)?.neg()?,
                4 => target.weighted(&of_q()?)?.mul(1.0 - label_smoothing)?,
                _ => target.of_weight(&of_q()?)?,
            }))
        })
    }
}

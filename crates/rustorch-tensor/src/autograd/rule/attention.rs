//! Scaled dot-product attention, by the matrices of its weights.

use super::norm::wide;
use super::{Recording, Rule, Saves};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::Which;
use rustorch_core::{Attention, DType, Result};

impl Rule for Attention {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        (0..recording.args.len()).map(Which::Arg).collect()
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let grad = wide(cx.grad()?)?;
        let dtype = grad.dtype();
        let (q, k, v) =
            (cx.arg(0)?.to_dtype(dtype)?, cx.arg(1)?.to_dtype(dtype)?, cx.arg(2)?.to_dtype(dtype)?);
        let (heads, kv_heads) = (q.dims()[q.ndim() - 3], k.dims()[k.ndim() - 3]);
        // [.., kv_heads, heads that share it, rows, columns]
        let group = |x: &Tensor| x.reshape(split(x, kv_heads, heads / kv_heads.max(1)));
        let (q, grad) = (group(&q)?, group(&grad)?);
        let (k, v) = (k.unsqueeze(-3)?, v.unsqueeze(-3)?);
        let raw = q.matmul(&k.transpose(-2, -1)?)?.mul(self.scale)?;
        let capped = match self.softcap {
            Some(cap) => raw.div(cap)?.tanh()?.mul(cap)?,
            None => raw.clone(),
        };
        let (scores, added) = masked(self, cx, &capped, group)?;
        // A row without a key has no weights: made zeros before the softmax, which has no answer for it.
        let none = scores.amax(-1, true)?.eq(f64::NEG_INFINITY)?;
        let weights = scores.masked_fill(&none, 0)?.softmax(-1)?.masked_fill(&none, 0)?;
        let of_weights = grad.matmul(&v.transpose(-2, -1)?)?;
        let along = of_weights.mul(&weights)?.sum(-1, true)?;
        let of_scores = weights.mul(&of_weights.sub(&along)?)?;
        let of_raw = match self.softcap {
            Some(cap) => of_scores.mul(&capped.div(cap)?.square()?.rsub(1)?)?,
            None => of_scores.clone(),
        }
        .mul(self.scale)?;
        cx.each(|arg| {
            let shape = cx.input(arg).shape.clone();
            Ok(Some(match arg {
                0 => of_raw.matmul(&k)?.reshape_to(shape)?,
                1 => of_raw.transpose(-2, -1)?.matmul(&q)?.sum(-3, false)?,
                2 => weights.transpose(-2, -1)?.matmul(&grad)?.sum(-3, false)?,
                // The mask was broadcast over heads: the pass sums.
                _ if added => {
                    let mut dims = of_scores.dims().to_vec();
                    let at = dims.len() - 4;
                    dims.splice(at..at + 2, [heads]);
                    of_scores.reshape(dims)?
                }
                _ => return Ok(None),
            }))
        })
    }
}

/// The dimensions of `[.., heads, rows, columns]` with heads split in two.
fn split(x: &Tensor, outer: usize, inner: usize) -> Vec<usize> {
    let mut dims = x.dims().to_vec();
    let at = dims.len() - 3;
    dims.splice(at..=at, [outer, inner]);
    dims
}

/// The scores behind all masks, and whether one was added.
fn masked(
    attention: &Attention,
    cx: &Context<'_>,
    scores: &Tensor,
    group: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<(Tensor, bool)> {
    let (mut scores, mut added) = (scores.clone(), false);
    let (rows, columns) = (scores.dims()[scores.ndim() - 2], scores.dims()[scores.ndim() - 1]);
    if cx.inputs() > 3 {
        let mask = cx.arg(3)?;
        let mut dims = cx.input(0).shape.dims().to_vec();
        let last = dims.len() - 1;
        dims[last] = columns;
        let mask = group(&mask.broadcast_to(dims)?)?;
        if mask.dtype() == DType::Bool {
            scores = scores.masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)?;
        } else {
            scores = scores.add(&mask.to_dtype(scores.dtype())?)?;
            added = true;
        }
    }
    if attention.causal.is_some() || attention.window.is_some() {
        let offset = attention.causal.unwrap_or(0) as i64;
        let options = (DType::I64, scores.device());
        let row = Tensor::arange_with(offset, offset + rows as i64, 1, options)?.unsqueeze(-1)?;
        let column = Tensor::arange_with(0, columns as i64, 1, options)?;
        if attention.causal.is_some() {
            scores = scores.masked_fill(&column.gt(&row)?, f64::NEG_INFINITY)?;
        }
        if let Some(window) = attention.window {
            let first = row.sub(i64::try_from(window).unwrap_or(i64::MAX / 2))?;
            scores = scores.masked_fill(&column.le(&first)?, f64::NEG_INFINITY)?;
        }
    }
    Ok((scores, added))
}

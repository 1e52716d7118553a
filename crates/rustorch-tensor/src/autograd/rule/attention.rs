//! Scaled dot-product attention.
//!
//! Recorded attention also returns its log-sum-exp, from which one operation computes its gradients. Where that operation has no
//! say, for the gradient of a mask, that of the log-sum-exp, and arithmetic with roundings, they are composed of tensor operations on
//! the matrices of scores.

use super::norm::wide;
use super::{Gradient, Recording, Rule, Saves};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::record::is_tracked;
use crate::autograd::saved::Which;
use crate::dispatch::{run, run_all};
use rustorch_core::{Attention, AttentionBackward, DType, Dropout, Op, Result};
use smallvec::SmallVec;

impl Rule for Attention {
    fn gradient(&self, args: &[&Tensor]) -> Gradient {
        let [q, k, v, ..] = args else { return Gradient::Exists };
        let fused = !self.lse && !self.rounds_to_f16(q.dtype(), k.dtype()) && is_tracked(&[q, k, v]);
        if fused { Gradient::Steps } else { Gradient::Exists }
    }

    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let mut saves: Saves = (0..recording.args.len()).map(Which::Arg).collect();
        if self.lse {
            saves.extend([Which::Result(0), Which::Result(1)]);
        }
        saves
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let of_lse = cx.grads.get(1).and_then(Option::as_ref);
        let fits = !self.rounds_to_f16(cx.input(0).dtype, cx.input(1).dtype);
        match self.lse && fits && of_lse.is_none() && !cx.needs(3) {
            true => fused(self, cx),
            false => composed(self, cx, of_lse),
        }
    }
}

fn fused(attention: &Attention, cx: &Context<'_>) -> Result<Grads> {
    let [q, k, v] = [0, 1, 2].map(|arg| cx.needs(arg));
    let grad = cx.grad()?.to_dtype(cx.input(0).dtype)?;
    let mut args: SmallVec<[&Tensor; 7]> =
        SmallVec::from_slice(&[&grad, cx.arg(0)?, cx.arg(1)?, cx.arg(2)?, cx.result(0)?, cx.result(1)?]);
    if cx.inputs() > 3 {
        args.push(cx.arg(3)?);
    }
    let op = AttentionBackward { attention: attention.clone(), q, k, v };
    let mut outs = run_all(&Op::AttentionBackward(op), &args)?.into_iter();
    cx.each(|_| Ok(outs.next()))
}

/// The gradients from the matrices of scores and of weights.
fn composed(attention: &Attention, cx: &Context<'_>, of_lse: Option<&Tensor>) -> Result<Grads> {
    let mask = if cx.inputs() > 3 { Some(cx.arg(3)?) } else { None };
    let scores = Scores::new(attention, [cx.arg(0)?, cx.arg(1)?, cx.arg(2)?], mask)?;
    let weights = scores.softmax()?;
    let grad = match cx.grads.first() {
        Some(Some(grad)) => Some(scores.group(&wide(grad)?)?),
        _ => None,
    };
    let mut of_scores = match &grad {
        Some(grad) => {
            let of_weights = scores.drop_out(&grad.matmul(&scores.v.transpose(-2, -1)?)?)?;
            let along = of_weights.mul(&weights)?.sum(-1, true)?;
            weights.mul(&of_weights.sub(&along)?)?
        }
        None => weights.zeros_like()?,
    };
    if let Some(of_lse) = of_lse {
        let of_lse = scores.group(&wide(of_lse)?.unsqueeze(-1)?)?;
        of_scores = of_scores.add(&weights.mul(&of_lse)?)?;
    }
    let of_raw = scores.times_slope(&of_scores)?;
    cx.each(|arg| {
        let shape = cx.input(arg).shape.clone();
        Ok(Some(match arg {
            0 => of_raw.matmul(&scores.k)?.reshape_to(shape)?,
            1 => of_raw.transpose(-2, -1)?.matmul(&scores.q)?.sum(-3, false)?,
            2 => match &grad {
                Some(grad) => scores.drop_out(&weights)?.transpose(-2, -1)?.matmul(grad)?.sum(-3, false)?,
                None => return Ok(None),
            },
            // The mask was broadcast over heads: the pass sums.
            _ => scores.ungroup(&of_scores)?,
        }))
    })
}

/// The scores of attention, with the heads of queries in groups that share keys: `[.., kv_heads, group, rows, columns]`.
pub(super) struct Scores {
    pub(super) q: Tensor,
    /// With a dimension for the group.
    pub(super) k: Tensor,
    pub(super) v: Tensor,
    /// Behind all masks.
    pub(super) masked: Tensor,
    /// The derivative of scaled and capped scores by the products of queries and keys, where it is not the scale.
    slope: Option<Tensor>,
    /// The hyperbolic tangent in a capped score.
    pub(super) tanh: Option<Tensor>,
    scale: f32,
    dropout: Option<Dropout>,
    heads: usize,
    kv_heads: usize,
}

impl Scores {
    /// In the dtype in which gradients are summed.
    pub(super) fn new(
        attention: &Attention,
        [q, k, v]: [&Tensor; 3],
        mask: Option<&Tensor>,
    ) -> Result<Scores> {
        let q = wide(q)?;
        let (k, v) = (k.to_dtype(q.dtype())?, v.to_dtype(q.dtype())?);
        let (heads, kv_heads) = (q.dims()[q.ndim() - 3], k.dims()[k.ndim() - 3]);
        let mut scores = Scores {
            masked: q.clone(),
            q,
            k: k.unsqueeze(-3)?,
            v: v.unsqueeze(-3)?,
            slope: None,
            tanh: None,
            scale: attention.scale,
            dropout: attention.dropout.clone(),
            heads,
            kv_heads,
        };
        let mut dims = scores.q.dims().to_vec();
        scores.q = scores.group(&scores.q)?;
        let raw = scores.q.matmul(&scores.k.transpose(-2, -1)?)?.mul(attention.scale)?;
        scores.masked = match attention.softcap {
            Some(cap) => {
                let tanh = raw.div(cap)?.tanh()?;
                scores.slope = Some(tanh.square()?.rsub(1)?.mul(attention.scale)?);
                let capped = tanh.mul(cap)?;
                scores.tanh = Some(tanh);
                capped
            }
            None => raw,
        };
        if let Some(mask) = mask {
            let last = dims.len() - 1;
            dims[last] = k.dims()[k.ndim() - 2];
            let mask = scores.group(&mask.broadcast_to(dims)?)?;
            scores.masked = if mask.dtype() == DType::Bool {
                scores.masked.masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)?
            } else {
                scores.masked.add(&mask.to_dtype(scores.masked.dtype())?)?
            };
        }
        scores.masked = hidden(attention, &scores.masked)?;
        Ok(scores)
    }

    /// A tensor `[.., heads, rows, columns]` with heads in groups.
    pub(super) fn group(&self, x: &Tensor) -> Result<Tensor> {
        let mut dims = x.dims().to_vec();
        let at = dims.len() - 3;
        dims.splice(at..=at, [self.kv_heads, self.heads / self.kv_heads.max(1)]);
        x.reshape(dims)
    }

    /// The other way round.
    pub(super) fn ungroup(&self, x: &Tensor) -> Result<Tensor> {
        let mut dims = x.dims().to_vec();
        let at = dims.len() - 4;
        dims.splice(at..at + 2, [self.heads]);
        x.reshape(dims)
    }

    /// Weights, or their gradients, times the mask of dropout. Elements have the positions that they have with heads not in groups.
    pub(super) fn drop_out(&self, x: &Tensor) -> Result<Tensor> {
        match &self.dropout {
            Some(dropout) => run(&Op::Dropout(dropout.clone()), &[x]),
            None => Ok(x.clone()),
        }
    }

    /// The gradient of products of queries and keys, from that of scores.
    pub(super) fn times_slope(&self, x: &Tensor) -> Result<Tensor> {
        match &self.slope {
            Some(slope) => x.mul(slope),
            None => x.mul(self.scale),
        }
    }

    /// The weights. A row without a key has none: made zeros before the softmax, which has no answer for it.
    fn softmax(&self) -> Result<Tensor> {
        let none = self.masked.amax(-1, true)?.eq(f64::NEG_INFINITY)?;
        self.masked.masked_fill(&none, 0)?.softmax(-1)?.masked_fill(&none, 0)
    }

    /// The weights by the log-sum-exp, `[.., heads, rows]`.
    pub(super) fn weights(&self, lse: &Tensor) -> Result<Tensor> {
        let lse = self.group(&lse.unsqueeze(-1)?)?;
        let lse = lse.masked_fill(&lse.eq(f64::NEG_INFINITY)?, 0)?;
        self.masked.sub(&lse)?.exp()
    }
}

/// The scores, −∞ where a causal mask or a window hides a key.
fn hidden(attention: &Attention, scores: &Tensor) -> Result<Tensor> {
    let mut scores = scores.clone();
    if attention.causal.is_none() && attention.window.is_none() {
        return Ok(scores);
    }
    let (rows, columns) = (scores.dims()[scores.ndim() - 2], scores.dims()[scores.ndim() - 1]);
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
    Ok(scores)
}

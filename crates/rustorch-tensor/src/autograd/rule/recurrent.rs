//! Recurrences: the gradients are those of their positions one by one, as tensor operations.

use super::{Recording, Rule, all_if_needed, unfused};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::Saves;
use rustorch_core::{CausalConv1d, GatedDeltaRule, HeadBroadcast, Result, RwkvWkv7, SsmScan};

impl Rule for CausalConv1d {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        all_if_needed(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        unfused(cx, |args| {
            let [x, weight, state, bias @ ..] = args else { unreachable!("inferred") };
            let (seq, kernel) = (x.dims()[1], weight.dims()[1]);
            let all = Tensor::cat(&[state, x], 1)?;
            let mut y = x.zeros_like()?;
            for i in 0..kernel {
                y = y.add(&all.narrow(1, i, seq)?.mul(&weight.select(1, i as isize)?)?)?;
            }
            if let [bias] = bias {
                y = y.add(bias)?;
            }
            Ok(vec![if self.silu { y.silu()? } else { y }, all.narrow(1, seq, kernel - 1)?])
        })
    }
}

impl Rule for GatedDeltaRule {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        all_if_needed(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        unfused(cx, |args| {
            let [q, k, v, g, beta, state] = args else { unreachable!("inferred") };
            let heads = v.dims()[2];
            let q = spread(q, heads, self.broadcast)?.mul(1.0 / (q.dims()[3] as f64).sqrt())?;
            let k = spread(k, heads, self.broadcast)?;
            // A decay for each row, or for all.
            let decay = if g.ndim() == 3 { g.unsqueeze(-1)? } else { g.clone() }.exp()?;
            positions(v, state, |t, state| {
                let [q, k, decay] = [at(&q, t)?, at(&k, t)?, at(&decay, t)?].map(|x| x.unsqueeze(-1));
                let (k, state) = (k?, state.mul(&decay?)?);
                let missing = at(v, t)?.sub(&state.mul(&k)?.sum(-2, false)?)?;
                let delta = missing.mul(&at(beta, t)?.unsqueeze(-1)?)?;
                let state = state.add(&k.mul(&delta.unsqueeze(-2)?)?)?;
                Ok((state.mul(&q?)?.sum(-2, false)?, state))
            })
        })
    }
}

impl Rule for SsmScan {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        all_if_needed(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        unfused(cx, |args| {
            let [x, dt, a, b, c, state] = args else { unreachable!("inferred") };
            let heads = x.dims()[2];
            let [b, c] = [b, c].map(|x| spread(x, heads, HeadBroadcast::Interleaved));
            let (b, c) = (b?, c?);
            // `[heads, n]`, or as it broadcasts to that.
            let a = if a.ndim() == 1 { a.unsqueeze(-1)? } else { a.clone() };
            positions(x, state, |t, state| {
                let dt = at(dt, t)?.unsqueeze(-1)?;
                let decay = dt.mul(&a)?.exp()?.unsqueeze(-2)?;
                let step = dt.mul(&at(x, t)?)?.unsqueeze(-1)?.mul(&at(&b, t)?.unsqueeze(-2)?)?;
                let state = state.mul(&decay)?.add(&step)?;
                Ok((state.mul(&at(&c, t)?.unsqueeze(-2)?)?.sum(-1, false)?, state))
            })
        })
    }
}

impl Rule for RwkvWkv7 {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        all_if_needed(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        unfused(cx, |args| {
            let [r, w, k, v, a, b, state] = args else { unreachable!("inferred") };
            positions(v, state, |t, state| {
                let column = |x: &Tensor| at(x, t)?.unsqueeze(-1);
                let along = state.mul(&column(a)?)?.sum(-2, true)?;
                let added = column(k)?.mul(&at(v, t)?.unsqueeze(-2)?)?.add(&column(b)?.mul(&along)?)?;
                let state = state.mul(&column(w)?)?.add(&added)?;
                Ok((state.mul(&column(r)?)?.sum(-2, false)?, state))
            })
        })
    }
}

/// What a sequence has at a position.
fn at(x: &Tensor, t: usize) -> Result<Tensor> {
    x.select(1, t as isize)
}

/// An operand `[batch, seq, heads, d]` with the head for each of so many.
fn spread(x: &Tensor, of: usize, broadcast: HeadBroadcast) -> Result<Tensor> {
    let heads = x.dims()[2];
    if heads == of {
        return Ok(x.clone());
    }
    let index: Vec<i64> = (0..of).map(|h| broadcast.head(h, heads, of) as i64).collect();
    x.index_select(2, &Tensor::from_vec(index, [of])?)
}

/// The results of a step from each position's state to the next one's, along a sequence of results like `like`; and the last state.
fn positions(
    like: &Tensor,
    state: &Tensor,
    step: impl Fn(usize, &Tensor) -> Result<(Tensor, Tensor)>,
) -> Result<Vec<Tensor>> {
    let mut state = state.clone();
    let mut outs = Vec::with_capacity(like.dims()[1]);
    for t in 0..like.dims()[1] {
        let (out, next) = step(t, &state)?;
        outs.push(out);
        state = next;
    }
    Ok(vec![if outs.is_empty() { like.clone() } else { Tensor::stack(&outs, 1)? }, state])
}

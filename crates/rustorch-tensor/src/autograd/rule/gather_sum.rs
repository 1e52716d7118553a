//! Weighted sums of elements at indices.

use super::{Recording, Rule, all_if_needed, unfused};
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::Saves;
use crate::dispatch::run_all;
use rustorch_core::{GatherSum, GatherSumBackward, Op, Result};

impl Rule for GatherSum {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        all_if_needed(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let (x, weight) = (cx.needs(0), cx.needs(2));
        let op = Op::GatherSumBackward(GatherSumBackward { x, weight });
        let mut grads = run_all(&op, &[cx.grad()?, cx.arg(0)?, cx.arg(1)?, cx.arg(2)?])?.into_iter();
        cx.each(|arg| Ok(if arg == 1 { None } else { grads.next() }))
    }
}

impl Rule for GatherSumBackward {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        all_if_needed(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        unfused(cx, |args| {
            let [grad, x, index, weight] = args else { unreachable!("inferred") };
            let mut results = Vec::new();
            let [batch, channels, n] = [x.dims()[0], x.dims()[1], x.dims()[2]];
            let [terms, points] = [index.dims()[1], index.dims()[2]];
            if n == 0 {
                // There is no element, so that all is zero whatever the arguments.
                let zeros = [(self.x, x), (self.weight, weight)].into_iter().filter(|(wanted, _)| *wanted);
                return zeros.map(|(_, like)| like.mul(0)).collect();
            }
            let gaps = index.lt(0)?.unsqueeze(1)?;
            let all = [batch, channels, terms, points];
            let flat = [batch, channels, terms * points];
            let places = index.clamp_min(0)?.unsqueeze(1)?.broadcast_to(all)?.reshape(flat)?;
            let grad = grad.unsqueeze(2)?;
            if self.x {
                let added = grad.mul(&weight.unsqueeze(1)?)?;
                let added = gaps.where_cond(&added.zeros_like()?, &added)?.reshape(flat)?;
                results.push(x.zeros_like()?.scatter_add(2, &places, &added)?);
            }
            if self.weight {
                let chosen = x.gather(2, &places)?.reshape(all)?;
                let products = grad.mul(&chosen)?;
                results.push(gaps.where_cond(&products.zeros_like()?, &products)?.sum(1, false)?);
            }
            Ok(results)
        })
    }
}

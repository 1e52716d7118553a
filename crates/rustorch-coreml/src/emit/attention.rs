//! Scaled dot-product attention, of matmuls and a softmax.

use super::{Emit, Emitter};
use crate::builder::Var;
use rustorch_core::{Attention, DType, Node};

impl Emitter<'_> {
    pub(super) fn attention(&mut self, op: &Attention, node: &Node) -> Emit {
        if op.lse {
            return Err("the log-sum-exp is for gradients; capture the function without them".into());
        }
        if op.dropout.is_some() {
            return Err("dropout draws random numbers; switch the model to evaluation first".into());
        }
        let (q, k, v) = (self.arg(node, 0)?, self.arg(node, 1)?, self.arg(node, 2)?);
        let lead = q.ndim() - 3;
        let (heads, m, kv_heads, n) = (q.dims[lead], q.dims[lead + 1], k.dims[lead], k.dims[lead + 1]);
        let with = |heads: usize, rows: usize, columns: usize| {
            let mut dims = q.dims[..lead].to_vec();
            dims.extend([heads, rows, columns]);
            dims
        };
        // Consecutive query heads share a head of keys: their rows follow each other.
        let rows = heads / kv_heads * m;
        let grouped = self.reshape(&q, &with(kv_heads, rows, q.dims[lead + 2]));
        let scores = self.product(&grouped, false, &k, true, &with(kv_heads, rows, n));
        let scores = self.reshape(&scores, &with(heads, m, n));
        let mut scores = self.bin_f32("mul", &scores, op.scale);
        if let Some(cap) = op.softcap {
            let scaled = self.bin_f32("mul", &scores, 1.0 / cap);
            let tanh = self.un("tanh", &scaled);
            scores = self.bin_f32("mul", &tanh, cap);
        }
        // A query that sees nothing gives zeros, of which a softmax knows nothing.
        let mut may_see_nothing = false;
        if op.causal.is_some() || op.window.is_some() {
            let offset = op.causal.unwrap_or(0);
            let sees = |i: usize, j: usize| {
                let is_past = op.causal.is_none_or(|offset| j <= i.saturating_add(offset));
                let end = op.window.map(|window| j.saturating_add(window));
                is_past && end.is_none_or(|end| end > i.saturating_add(offset))
            };
            may_see_nothing |= (0..m).any(|i| !(0..n).any(|j| sees(i, j)));
            let mask = self.mask(m, n, sees)?;
            scores = self.masked(&scores, &mask);
        }
        if node.args.len() > 3 {
            let mask = self.broadcast_arg(node, 3)?;
            may_see_nothing = true;
            scores = match mask.dtype {
                DType::Bool => self.masked(&scores, &mask),
                _ => self.bin("add", &scores, &mask),
            };
        }
        let axis = lead + 2;
        let weights =
            if may_see_nothing { self.weights(&scores, axis) } else { self.softmax_of(&scores, axis) };
        let weights = self.reshape(&weights, &with(kv_heads, rows, n));
        let e = v.dims[lead + 2];
        let out = self.product(&weights, false, &v, false, &with(kv_heads, rows, e));
        Ok(self.reshape(&out, &with(heads, m, e)))
    }

    /// Scores where a mask holds, else −∞.
    fn masked(&mut self, scores: &Var, mask: &Var) -> Var {
        let never = self.b.f32(f32::NEG_INFINITY);
        self.select(mask, scores, &never, &scores.dims)
    }

    /// A softmax that is 0 where all scores are −∞.
    fn weights(&mut self, scores: &Var, axis: usize) -> Var {
        let most = self.reduced("reduce_max", scores, &[axis], true);
        let (zero, one) = (self.b.f32(0.0), self.b.f32(1.0));
        let never = self.b.f32(f32::NEG_INFINITY);
        let dims = most.dims.clone();
        let sees = self.b.op("greater", &[("x", &most), ("y", &never)], DType::Bool, &dims);
        let most = self.select(&sees, &most, &zero, &dims);
        let below = self.bin("sub", scores, &most);
        let exp = self.un("exp", &below);
        let sum = self.reduced("reduce_sum", &exp, &[axis], true);
        let sum = self.select(&sees, &sum, &one, &dims);
        self.bin("real_div", &exp, &sum)
    }
}

//! Scaled dot-product attention, of matmuls and a softmax.

use super::{Emit, Emitter, MAX_MADE};
use crate::builder::{Data, Var};
use crate::support::Condition;
use rustorch_core::{Attention, CachedAttention, DType, Node};

/// The shape of an attention.
struct Heads {
    /// The dimensions before the heads.
    lead: Vec<usize>,
    heads: usize,
    kv_heads: usize,
    m: usize,
    n: usize,
}

impl Heads {
    fn of(q: &Var, k: &Var) -> Heads {
        let lead = q.ndim() - 3;
        let (heads, m, kv_heads, n) = (q.dims[lead], q.dims[lead + 1], k.dims[lead], k.dims[lead + 1]);
        Heads { lead: q.dims[..lead].to_vec(), heads, kv_heads, m, n }
    }

    fn each(&self, columns: usize) -> Vec<usize> {
        let mut dims = self.lead.clone();
        dims.extend([self.heads, self.m, columns]);
        dims
    }

    /// Consecutive query heads share a head of keys: their rows follow each other.
    fn grouped(&self, columns: usize) -> Vec<usize> {
        let mut dims = self.lead.clone();
        dims.extend([self.kv_heads, self.heads / self.kv_heads * self.m, columns]);
        dims
    }
}

impl Emitter<'_> {
    pub(super) fn attention(&mut self, op: &Attention, node: &Node) -> Emit {
        if op.lse {
            return Err(Condition::NoLogSumExp.into());
        }
        if op.dropout.is_some() {
            return Err(Condition::NoDropout.into());
        }
        if op.rounds_to_f16(node.args[0].dtype, node.args[1].dtype) {
            return Err(Condition::ExactNumerics.into());
        }
        let (q, k, v) = (self.arg(node, 0)?, self.arg(node, 1)?, self.arg(node, 2)?);
        // A cache of fewer bits than the queries.
        let (k, v) = (self.float_as(&k, q.dtype), self.float_as(&v, q.dtype));
        let heads = Heads::of(&q, &k);
        let mut scores = self.scores(op, &q, &k, &heads);
        let (m, n) = (heads.m, heads.n);
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
                _ => {
                    let mask = self.as_f32(&mask);
                    self.bin("add", &scores, &mask)
                }
            };
        }
        Ok(self.attend(&scores, may_see_nothing, &v, &heads))
    }

    /// Attention over a cache, where the position of the first query is data.
    pub(super) fn cached_attention(&mut self, op: &CachedAttention, node: &Node) -> Emit {
        let op = &op.attention;
        if op.lse {
            return Err(Condition::NoLogSumExp.into());
        }
        if op.rounds_to_f16(node.args[0].dtype, node.args[1].dtype) {
            return Err(Condition::ExactNumerics.into());
        }
        let (q, k, v) = (self.arg(node, 0)?, self.arg(node, 1)?, self.arg(node, 2)?);
        let (k, v) = (self.float_as(&k, q.dtype), self.float_as(&v, q.dtype));
        let heads = Heads::of(&q, &k);
        let scores = self.scores(op, &q, &k, &heads);
        let (m, n) = (heads.m, heads.n);
        if m > MAX_MADE || n > MAX_MADE {
            return Err(Condition::MadeConstant.into());
        }
        // Query `i` is at `position + i`.
        let position = self.index_arg(node, 3, n)?;
        let zero = self.int(0);
        let position = self.bin("maximum", &position, &zero);
        let counted = |len: usize| (0..len as i32).collect::<Vec<i32>>();
        let (rows, columns) =
            (self.b.tensor(Data::I32(counted(m)), &[m, 1]), self.b.tensor(Data::I32(counted(n)), &[1, n]));
        let at = self.bin("add", &rows, &position);
        let mut sees = self.b.op("less_equal", &[("x", &columns), ("y", &at)], DType::Bool, &[m, n]);
        if let Some(window) = op.window {
            let window = i32::try_from(window.min(n + m)).map_err(|_| Condition::MadeConstant)?;
            let window = self.int(window);
            let end = self.bin("add", &columns, &window);
            let is_near = self.b.op("greater", &[("x", &end), ("y", &at)], DType::Bool, &[m, n]);
            sees = self.bin("logical_and", &sees, &is_near);
        }
        let scores = self.masked(&scores, &sees);
        // Behind the cache's end, a window may hold no key.
        Ok(self.attend(&scores, op.window.is_some(), &v, &heads))
    }

    /// Scaled scores in `f32`, `[.., heads, m, n]`.
    fn scores(&mut self, op: &Attention, q: &Var, k: &Var, heads: &Heads) -> Var {
        let grouped = self.reshape(q, &heads.grouped(q.dims[heads.lead.len() + 2]));
        // In `f16` the scores may be too large before they are scaled.
        let first = if q.dtype == DType::F16 { self.bin_float("mul", &grouped, op.scale) } else { grouped };
        let scores = self.product(&first, false, k, true, &heads.grouped(heads.n));
        let scores = self.as_f32(&scores);
        let scores = self.reshape(&scores, &heads.each(heads.n));
        let scores = if q.dtype == DType::F16 { scores } else { self.bin_float("mul", &scores, op.scale) };
        let Some(cap) = op.softcap else { return scores };
        let scaled = self.bin_float("mul", &scores, 1.0 / cap);
        let tanh = self.un("tanh", &scaled);
        self.bin_float("mul", &tanh, cap)
    }

    /// Values weighted by the softmax of scores.
    fn attend(&mut self, scores: &Var, may_see_nothing: bool, v: &Var, heads: &Heads) -> Var {
        let axis = heads.lead.len() + 2;
        let weights =
            if may_see_nothing { self.weights(scores, axis) } else { self.softmax_of(scores, axis) };
        let weights = self.float_as(&weights, v.dtype);
        let weights = self.reshape(&weights, &heads.grouped(heads.n));
        let e = v.dims[axis];
        let out = self.product(&weights, false, v, false, &heads.grouped(e));
        self.reshape(&out, &heads.each(e))
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

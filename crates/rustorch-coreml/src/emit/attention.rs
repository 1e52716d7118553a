//! Scaled dot-product attention: MIL's operation where a program may have it, else matmuls and a softmax.

use super::pointwise::broadcast;
use super::{Emit, Emitter, MAX_MADE};
use crate::AttentionForm;
use crate::builder::{Data, Specification, Var};
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

/// What hides keys from queries: values that broadcast to `[.., heads, m, n]`.
#[derive(Default)]
struct Masks {
    /// Where a query sees a key.
    sees: Option<Var>,
    /// What is added to scores.
    bias: Option<Var>,
    /// Whether all keys may be hidden from a query. Its result is 0, of which a softmax knows nothing.
    may_hide_all: bool,
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
        let (m, n) = (heads.m, heads.n);
        let mut masks = Masks::default();
        if op.causal.is_some() || op.window.is_some() {
            let offset = op.causal.unwrap_or(0);
            let sees = |i: usize, j: usize| {
                let is_past = op.causal.is_none_or(|offset| j <= i.saturating_add(offset));
                let end = op.window.map(|window| j.saturating_add(window));
                is_past && end.is_none_or(|end| end > i.saturating_add(offset))
            };
            masks.may_hide_all = (0..m).any(|i| !(0..n).any(|j| sees(i, j)));
            masks.sees = Some(self.mask(m, n, sees)?);
        }
        if node.args.len() > 3 {
            let mask = self.broadcast_arg(node, 3)?;
            masks.may_hide_all = true;
            if mask.dtype != DType::Bool {
                masks.bias = Some(mask);
            } else if let Some(sees) = masks.sees {
                masks.sees = Some(self.bin("logical_and", &sees, &mask));
            } else {
                masks.sees = Some(mask);
            }
        }
        Ok(self.attend(op, &q, &k, &v, &heads, &masks))
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
        // Behind the cache's end, a window may hold no key.
        let masks = Masks { sees: Some(sees), bias: None, may_hide_all: op.window.is_some() };
        Ok(self.attend(op, &q, &k, &v, &heads, &masks))
    }

    fn attend(&mut self, op: &Attention, q: &Var, k: &Var, v: &Var, heads: &Heads, masks: &Masks) -> Var {
        if self.is_fused(op, q) {
            return self.fused_attention(op.scale, q, k, v, heads, masks);
        }
        let mut scores = self.scores(op, q, k, heads);
        if let Some(sees) = &masks.sees {
            scores = self.masked(&scores, sees);
        }
        if let Some(bias) = &masks.bias {
            let bias = self.as_f32(bias);
            scores = self.bin("add", &scores, &bias);
        }
        self.weighted(&scores, masks.may_hide_all, v, heads)
    }

    /// Whether it becomes MIL's operation, which has no soft-cap.
    fn is_fused(&mut self, op: &Attention, q: &Var) -> bool {
        if op.softcap.is_some() {
            return false;
        }
        match self.options.attention {
            AttentionForm::Composed => false,
            // Its scores and softmax are of the operands' dtype.
            AttentionForm::Auto => q.dtype == DType::F32 && self.b.specification() >= Specification::V9,
            AttentionForm::Fused => {
                self.b.requires(Specification::V9);
                true
            }
        }
    }

    /// MIL's operation. It has as many heads of keys as of queries, so that query heads which share one are rows of one head.
    fn fused_attention(
        &mut self,
        scale: f32,
        q: &Var,
        k: &Var,
        v: &Var,
        heads: &Heads,
        masks: &Masks,
    ) -> Var {
        let axis = heads.lead.len() + 2;
        let (width, out_width) = (q.dims[axis], v.dims[axis]);
        // It scales scores by 1/√width itself.
        let factor = f64::from(scale) * (width as f64).sqrt();
        let is_usual = (factor - 1.0).abs() <= f64::from(f32::EPSILON);
        let q = if is_usual { q.clone() } else { self.bin_float("mul", q, factor as f32) };
        let grouped = self.reshape(&q, &heads.grouped(width));
        let mask = match (&masks.sees, &masks.bias) {
            (None, None) => None,
            (Some(sees), None) => Some(sees.clone()),
            (sees, Some(bias)) => {
                let bias = self.float_as(bias, q.dtype);
                Some(match sees {
                    Some(sees) => {
                        let never = self.b.float(f32::NEG_INFINITY, &bias);
                        let dims = broadcast(&sees.dims, &bias.dims);
                        self.select(sees, &bias, &never, &dims)
                    }
                    None => bias,
                })
            }
        };
        let of_groups = mask.as_ref().map(|mask| self.mask_of_groups(mask, heads));
        let mut inputs = vec![("query", &grouped), ("key", k), ("value", v)];
        inputs.extend(of_groups.iter().map(|mask| ("attn_mask", mask)));
        let out = self.b.op("scaled_dot_product_attention", &inputs, q.dtype, &heads.grouped(out_width));
        let out = self.reshape(&out, &heads.each(out_width));
        match mask.filter(|_| masks.may_hide_all) {
            Some(mask) => self.zero_where_nothing_is_seen(&out, &mask),
            None => out,
        }
    }

    /// A mask that broadcasts to `[.., heads, m, n]` as one for grouped rows: `[.., kv_heads, heads / kv_heads * m, n]`.
    fn mask_of_groups(&mut self, mask: &Var, heads: &Heads) -> Var {
        let rank = heads.lead.len() + 3;
        let mut dims = vec![1; rank - mask.ndim()];
        dims.extend_from_slice(&mask.dims);
        // MIL does not broadcast the last dimension.
        dims[rank - 1] = heads.n;
        let group = heads.heads / heads.kv_heads;
        if group == 1 || (dims[rank - 3] == 1 && dims[rank - 2] == 1) {
            return self.expand(mask, &dims[rank - mask.ndim()..]);
        }
        let mut rows = dims.clone();
        rows[rank - 2] = heads.m;
        if dims[rank - 3] == 1 {
            // Once for each query head of a group.
            let mask = self.expand(mask, &rows[rank - mask.ndim()..]);
            let mut repeats = vec![1; mask.ndim()];
            repeats[mask.ndim() - 2] = group;
            return self.tile(&mask, &repeats);
        }
        let mask = self.expand(mask, &rows);
        (rows[rank - 3], rows[rank - 2]) = (heads.kv_heads, group * heads.m);
        self.reshape(&mask, &rows)
    }

    /// Zeros for queries that a mask hides all keys from, of which MIL's operation makes NaN.
    fn zero_where_nothing_is_seen(&mut self, out: &Var, mask: &Var) -> Var {
        let axis = mask.ndim() - 1;
        let sees = if mask.dtype == DType::Bool {
            let ones = self.convert(mask, DType::I32, "int32");
            let most = self.reduced("reduce_max", &ones, &[axis], true);
            let zero = self.int(0);
            self.b.op("greater", &[("x", &most), ("y", &zero)], DType::Bool, &most.dims)
        } else {
            let most = self.reduced("reduce_max", mask, &[axis], true);
            let never = self.b.float(f32::NEG_INFINITY, mask);
            self.b.op("greater", &[("x", &most), ("y", &never)], DType::Bool, &most.dims)
        };
        let zero = self.b.float(0.0, out);
        self.select(&sees, out, &zero, &out.dims)
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
    fn weighted(&mut self, scores: &Var, may_hide_all: bool, v: &Var, heads: &Heads) -> Var {
        let axis = heads.lead.len() + 2;
        let weights = if may_hide_all { self.weights(scores, axis) } else { self.softmax_of(scores, axis) };
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

//! From arguments to heads, and from heads to the result.

use super::{MultiheadAttention, MultiheadAttentionCall};
use crate::{Module, Parameter};
use rustorch_tensor::{AttentionOptions, Error, Result, Tensor};

/// What attention is computed of, `[n, heads, l, head_dim]`, and what is added to its scores.
struct Projected {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Option<Tensor>,
}

/// The parts of what is packed for queries, keys and values.
fn thirds(packed: &Tensor) -> Result<[Tensor; 3]> {
    let len = packed.dims()[0] / 3;
    Ok([packed.narrow(0, 0, len)?, packed.narrow(0, len, len)?, packed.narrow(0, 2 * len, len)?])
}

impl MultiheadAttention {
    /// Attention whose weights are a tensor.
    pub(super) fn attend(
        &self,
        arguments: [&Tensor; 3],
        call: &MultiheadAttentionCall<'_>,
    ) -> Result<(Tensor, Tensor)> {
        let is_single = arguments[0].ndim() == 2;
        let Projected { q, k, v, mask } = self.project(arguments, call)?;
        let scale = 1.0 / ((self.embed_dim / self.num_heads) as f64).sqrt();
        let mut scores = q.mul(scale)?.matmul(&k.transpose(-2, -1)?)?;
        if let Some(mask) = mask {
            scores = scores.add(&mask)?;
        }
        let mut weights = scores.softmax(-1)?;
        weights = weights.dropout(self.dropout, self.training.get())?;
        let y = self.join(&weights.matmul(&v)?, is_single)?;
        if call.average_attn_weights {
            weights = weights.mean(1, false)?;
        }
        Ok((y, if is_single { weights.squeeze(0)? } else { weights }))
    }

    /// Attention in one operation.
    pub(super) fn attend_fused(
        &self,
        arguments: [&Tensor; 3],
        call: &MultiheadAttentionCall<'_>,
    ) -> Result<Tensor> {
        let is_single = arguments[0].ndim() == 2;
        let Projected { q, k, v, mask } = self.project(arguments, call)?;
        let dropout_p = if self.training.get() { self.dropout } else { 0.0 };
        let options = AttentionOptions { mask: mask.as_ref(), dropout_p, ..Default::default() };
        self.join(&Tensor::scaled_dot_product_attention_with(&q, &k, &v, &options)?, is_single)
    }

    /// All heads, the keys and values that options add, and the mask for them.
    fn project(&self, arguments: [&Tensor; 3], call: &MultiheadAttentionCall<'_>) -> Result<Projected> {
        let [q, mut k, mut v] = self.heads(arguments)?;
        let mut mask = call.mask(&q, &k)?;
        let one = [q.dims()[0], self.num_heads, 1, self.embed_dim / self.num_heads];
        let mut added = Vec::new();
        if let (Some(bias_k), Some(bias_v)) = (&self.bias_k, &self.bias_v) {
            // The same vector for the whole batch, `[1, 1, heads · head_dim]`.
            let heads = |bias: &Parameter| bias.tensor().reshape([1, one[1], 1, one[3]])?.broadcast_to(one);
            added.push([heads(bias_k)?, heads(bias_v)?]);
        }
        if self.add_zero_attn {
            let zeros = Tensor::zeros(one, (k.dtype(), k.device()))?;
            added.push([zeros.clone(), zeros]);
        }
        for [key, value] in added {
            k = Tensor::cat(&[k, key], 2)?;
            v = Tensor::cat(&[v, value], 2)?;
            // No mask hides it.
            mask = mask.map(|mask| mask.pad([0, 1], 0.0)).transpose()?;
        }
        Ok(Projected { q, k, v, mask })
    }

    /// Projected queries, keys and values, `[n, heads, l, head_dim]`.
    fn heads(&self, arguments: [&Tensor; 3]) -> Result<[Tensor; 3]> {
        let ndim = arguments[0].ndim();
        for (x, width) in arguments.iter().zip(self.widths) {
            if !matches!(ndim, 2 | 3) || x.ndim() != ndim || x.dims()[ndim - 1] != width {
                let [q, k, v] = self.widths;
                let message = format!(
                    "takes queries, keys and values of 3 dimensions, or all of 2 without a batch, the last {q}, {k} and {v}"
                );
                return Err(Error::shape(self.type_name(), message, arguments.map(Tensor::shape)));
            }
        }
        let batches = arguments.map(|x| match (ndim, self.batch_first) {
            (2, _) => x.unsqueeze(0),
            (_, true) => Ok(x.clone()),
            (_, false) => x.transpose(0, 1),
        });
        let [wq, wk, wv] = self.in_proj_weights()?;
        let [bq, bk, bv] = match &self.in_proj_bias {
            Some(packed) => thirds(&packed.tensor())?.map(Some),
            None => [None, None, None],
        };
        let head_dim = self.embed_dim / self.num_heads;
        let project = |x: Result<Tensor>, weight: &Tensor, bias: Option<Tensor>| {
            let y = x?.linear(weight, bias.as_ref())?;
            y.unflatten(-1, [self.num_heads, head_dim])?.transpose(1, 2)
        };
        let [q, k, v] = batches;
        Ok([project(q, &wq, bq)?, project(k, &wk, bk)?, project(v, &wv, bv)?])
    }

    /// The weights of queries, keys and values.
    fn in_proj_weights(&self) -> Result<[Tensor; 3]> {
        match (&self.in_proj_weight, &self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight) {
            (Some(packed), ..) => thirds(&packed.tensor()),
            (None, Some(q), Some(k), Some(v)) => Ok([q.tensor(), k.tensor(), v.tensor()]),
            _ => {
                let message = "needs in_proj_weight, or q_proj_weight, k_proj_weight and v_proj_weight";
                Err(Error::argument(self.type_name(), message))
            }
        }
    }

    /// The output projection of all heads side after side, in the order of the arguments.
    fn join(&self, heads: &Tensor, is_single: bool) -> Result<Tensor> {
        let bias = self.out_proj.bias.as_ref().map(Parameter::tensor);
        let joined = heads.transpose(1, 2)?.flatten(2, -1)?;
        let y = joined.linear(&self.out_proj.weight.tensor(), bias.as_ref())?;
        match (is_single, self.batch_first) {
            (true, _) => y.squeeze(0),
            (false, true) => Ok(y),
            (false, false) => y.transpose(0, 1),
        }
    }
}

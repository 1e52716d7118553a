//! The decoder that runs every architecture, built from ordinary tensor operations.

use super::offload::weight_device;
use super::{
    BlockWeights, Dense, ExpertWeights, FeedForwardWeights, KvCache, LinearWeights, Model, ModelConfig,
    RopeScaling,
};
use crate::arch::Architecture;
use crate::{Error, Result};
use rustorch_core::{Attention, DType, GluOp, Numerics, RopeParams};
use rustorch_tensor::Tensor;

/// What all blocks share in one forward pass.
struct ForwardPass<'a> {
    architecture: &'a Architecture,
    config: &'a ModelConfig,
    numerics: Numerics,
    rope: RopeParams,
    /// Positions of the new tokens, `[n]`, on the device of each block.
    positions: Vec<Tensor>,
    /// The position of the first.
    start: usize,
    /// How many they are.
    n: usize,
}

pub(super) fn forward(model: &Model, tokens: &[u32], cache: &mut KvCache, all_rows: bool) -> Result<Tensor> {
    let (config, weights) = (&model.config, &model.weights);
    if tokens.is_empty() {
        return Err(Error::Request("no tokens to decode".into()));
    }
    if let Some(&id) = tokens.iter().find(|&&id| id as usize >= config.vocabulary) {
        return Err(Error::Token { id, vocabulary: config.vocabulary });
    }
    cache.check_room(tokens.len())?;

    let (start, n) = (cache.len(), tokens.len());
    let ids: Vec<i64> = tokens.iter().map(|&id| id.into()).collect();
    let positions: Vec<i64> = (start as i64..).take(n).collect();
    let pass = ForwardPass {
        architecture: model.architecture,
        config,
        numerics: model.numerics,
        rope: rope(model.architecture, config),
        positions: on_each_device(&Tensor::from_slice(&positions, [n])?, &weights.blocks)?,
        start,
        n,
    };

    let mut x = weights.embedding.embedding(&Tensor::from_slice(&ids, [n])?)?.to_dtype(DType::F32)?;
    // What a block adds to its input the norm after it adds.
    let mut rest = None;
    for (i, block) in weights.blocks.iter().enumerate() {
        let last = i + 1 == weights.blocks.len();
        let (sum, normed) = norm_on_weight_device(&x, rest.as_ref(), &block.attention_norm, config.norm_eps)?;
        let (kept, fed) = pass.block(i, block, cache, &sum, &normed, last && !all_rows)?;
        (x, rest) = (kept, Some(fed));
    }
    cache.advance(n);
    let (_, normed) = norm_on_weight_device(&x, rest.as_ref(), &weights.output_norm, config.norm_eps)?;
    linear(&normed, &weights.output, model.numerics)
}

/// `x` for each block, on its device.
fn on_each_device(x: &Tensor, blocks: &[BlockWeights]) -> Result<Vec<Tensor>> {
    let mut copies: Vec<Tensor> = vec![x.clone()];
    blocks
        .iter()
        .map(|block| {
            let device = weight_device(&block.attention_norm);
            if let Some(copy) = copies.iter().find(|copy| copy.device() == device) {
                return Ok(copy.clone());
            }
            copies.push(x.to_device(device)?);
            Ok(copies[copies.len() - 1].clone())
        })
        .collect()
}

/// The rotary embedding of an architecture with a file's configuration.
fn rope(architecture: &Architecture, config: &ModelConfig) -> RopeParams {
    let (scale, yarn) = match &config.rope_scaling {
        RopeScaling::None => (1.0, None),
        RopeScaling::Linear(factor) => (1.0 / factor, None),
        RopeScaling::Yarn(factor, yarn) => (1.0 / factor, Some(yarn.clone())),
    };
    RopeParams {
        style: architecture.block.attention.rope,
        rotated: config.rope_dims,
        base: config.rope_base,
        scale,
        yarn,
    }
}

impl ForwardPass<'_> {
    /// `x: [n, embedding]`, of which `normed` is the norm, through block `i`: two tensors whose sum is the result. With
    /// `last_row`, all but the last row are dropped as soon as their keys and values are in the cache: nobody will ask for
    /// their logits.
    fn block(
        &self,
        i: usize,
        weights: &BlockWeights,
        cache: &KvCache,
        x: &Tensor,
        normed: &Tensor,
        last_row: bool,
    ) -> Result<(Tensor, Tensor)> {
        let (x, attended) = self.attention(i, weights, cache, x, normed, last_row)?;
        let (x, normed) = add_norm(&x, &attended, &weights.feed_forward_norm, self.config.norm_eps)?;
        let gate = self.architecture.block.feed_forward.gate;
        let fed = match &weights.feed_forward {
            FeedForwardWeights::Dense(dense) => feed_forward(gate, dense, &normed, self.numerics)?,
            FeedForwardWeights::Experts(experts) => moe(gate, experts, &normed, self.numerics)?,
        };
        Ok((x, fed))
    }

    /// Attention over the cache; returns the rows of `x` that are left, and what to add to them.
    fn attention(
        &self,
        i: usize,
        weights: &BlockWeights,
        cache: &KvCache,
        x: &Tensor,
        normed: &Tensor,
        last_row: bool,
    ) -> Result<(Tensor, Tensor)> {
        let h = self.config;
        let (heads, kv_heads) = (h.heads[i], h.kv_heads[i]);
        let factors = weights.rope_factors.as_ref();
        let key = self.heads(&weights.key, normed, kv_heads, weights.key_norm.as_ref())?;
        let value = self.heads(&weights.value, normed, kv_heads, None)?;
        let [key_slots, value_slots] = cache.slots(i, self.n)?;
        key.rope_into(&self.positions[i], &self.rope, factors, &key_slots)?;
        value_slots.copy_(&value)?;
        let [keys, values] = cache.read(i, self.n)?;

        let (first, rows) = if last_row { (self.n - 1, 1) } else { (0, self.n) };
        let keep = |t: &Tensor| t.narrow(0, first, rows);
        let (x, normed, positions) = (keep(x)?, keep(normed)?, keep(&self.positions[i])?);
        let query = self.heads(&weights.query, &normed, heads, weights.query_norm.as_ref())?;
        let query = query.rope(&positions, &self.rope, factors)?;
        let causal = Attention {
            scale: h.attention_scale,
            causal: Some(self.start + first),
            window: None,
            softcap: None,
            numerics: self.numerics,
            lse: false,
            dropout: None,
        };
        let attended = Tensor::attention(&query, &keys, &values, None, &causal)?;
        let attended = attended.transpose(0, 1)?.reshape([rows, heads * h.value_length])?;
        Ok((x, linear(&attended, &weights.output, self.numerics)?))
    }

    /// A projection of `x: [n, embedding]`, split into heads `[heads, n, length]` and normalised in each if asked.
    fn heads(
        &self,
        weights: &LinearWeights,
        x: &Tensor,
        heads: usize,
        head_norm: Option<&Tensor>,
    ) -> Result<Tensor> {
        let y = linear(x, weights, self.numerics)?;
        let (rows, width) = (y.dims()[0], y.dims()[1]);
        let y = y.reshape([rows, heads, width / heads])?;
        let y = match head_norm {
            Some(weight) => norm(&y, weight, self.config.norm_eps)?,
            None => y,
        };
        Ok(y.transpose(0, 1)?)
    }
}

/// RMS norm over the last dimension.
fn norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    Ok(x.rms_norm(weight.dims(), Some(weight), eps)?)
}

/// `x + y`, and its RMS norm.
fn add_norm(x: &Tensor, y: &Tensor, weight: &Tensor, eps: f64) -> Result<(Tensor, Tensor)> {
    Ok(x.add_rms_norm(y, weight.dims(), Some(weight), eps)?)
}

/// `x`, and `rest` added to it if there is one, on the device of `weight`; and its RMS norm.
fn norm_on_weight_device(
    x: &Tensor,
    rest: Option<&Tensor>,
    weight: &Tensor,
    eps: f64,
) -> Result<(Tensor, Tensor)> {
    let device = weight_device(weight);
    let x = match rest {
        Some(rest) if x.device() == device && rest.device() == device => {
            return add_norm(x, rest, weight, eps);
        }
        // One tensor goes from device to device, not two.
        Some(rest) => x.add(rest)?,
        None => x.clone(),
    };
    let x = x.to_device(device)?;
    let normed = norm(&x, weight, eps)?;
    Ok((x, normed))
}

/// `activation(gate) · up`.
fn glu(op: GluOp, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    Ok(match op {
        GluOp::Silu => gate.swiglu(up),
        GluOp::Gelu => gate.geglu(up),
        GluOp::GeluTanh => gate.geglu_tanh(up),
        GluOp::Relu => gate.reglu(up),
    }?)
}

/// A linear layer whose scale multiplies the matmul but not the bias: llama.cpp's order everywhere but in feed-forward networks.
fn linear(x: &Tensor, weights: &LinearWeights, numerics: Numerics) -> Result<Tensor> {
    let LinearWeights { weight, scale, bias } = weights;
    let Some(scale) = scale else { return Ok(x.linear_batch_invariant(weight, bias.as_ref(), numerics)?) };
    let y = x.linear_batch_invariant(weight, None, numerics)?.mul(scale)?;
    Ok(match bias {
        Some(bias) => y.add(bias)?,
        None => y,
    })
}

/// `x: [t, k or 1, in]` times the experts `chosen: [t, k]`.
fn expert_linear(x: &Tensor, weights: &LinearWeights, chosen: &Tensor, numerics: Numerics) -> Result<Tensor> {
    let y = x.mul_mat_id(&weights.weight, chosen, numerics)?;
    let Some(scale) = &weights.scale else { return Ok(y) };
    let (tokens, used) = (chosen.dims()[0], chosen.dims()[1]);
    let scale = scale.index_select(0, &chosen.reshape([tokens * used])?)?.reshape([tokens, used, 1])?;
    Ok(y.mul(&scale)?)
}

/// `down(act(gate(x)) · up(x))`.
fn feed_forward(gate: GluOp, weights: &Dense, x: &Tensor, numerics: Numerics) -> Result<Tensor> {
    let inner = glu(
        gate,
        &linear_then_scale(x, &weights.gate, numerics)?,
        &linear_then_scale(x, &weights.up, numerics)?,
    )?;
    linear_then_scale(&inner, &weights.down, numerics)
}

/// A linear layer whose scale multiplies the bias, too: llama.cpp's order in feed-forward networks.
fn linear_then_scale(x: &Tensor, weights: &LinearWeights, numerics: Numerics) -> Result<Tensor> {
    let y = x.linear_batch_invariant(&weights.weight, weights.bias.as_ref(), numerics)?;
    Ok(match &weights.scale {
        Some(scale) => y.mul(scale)?,
        None => y,
    })
}

/// Mixture of experts: the weighted sum of the experts that the router picks for each row of `x: [n, embedding]`.
fn moe(gate: GluOp, weights: &ExpertWeights, x: &Tensor, numerics: Numerics) -> Result<Tensor> {
    let probabilities = x.linear_batch_invariant(&weights.router, None, numerics)?.softmax(-1)?;
    let (mut share, chosen) = probabilities.topk(weights.used, -1, true)?;
    if weights.normalize {
        // The floor keeps a row whose chosen probabilities all underflow from dividing by zero, as llama.cpp does.
        let total = share.sum(-1, true)?.clamp_min(F16_LEAST_NORMAL)?;
        share = share.div(&total)?;
    }
    if weights.factor != 1.0 {
        share = share.mul(weights.factor)?;
    }
    let x = x.unsqueeze(1)?;
    let expert = |x: &Tensor, weights| expert_linear(x, weights, &chosen, numerics);
    let inner = glu(gate, &expert(&x, &weights.gate)?, &expert(&x, &weights.up)?)?;
    let outputs = expert(&inner, &weights.down)?;
    Ok(outputs.mul(&share.unsqueeze(-1)?)?.sum(1, false)?)
}

/// 2⁻¹⁴, the least normal `f16`.
const F16_LEAST_NORMAL: f64 = 6.103_515_625e-5;

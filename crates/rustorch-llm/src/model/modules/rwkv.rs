//! RWKV 7.

use super::LinearWeights;
use crate::Result;
use crate::arch::Linear;
use crate::model::decoder::{Flow, ForwardPass};
use crate::model::loader::Loader;
use crate::model::weights::TensorId;
use rustorch_tensor::Tensor;

/// The recurrence, over each input and the one before it.
pub(in crate::model) struct TimeMix {
    head: usize,
    /// How much of the difference to the input before goes into what receptance, decays, keys, values, rates and gates are made of:
    /// `[5 or 6, 1, 1, width]`.
    shift: TensorId,
    receptance: LinearWeights,
    decay: LowRank,
    key: LinearWeights,
    value: LinearWeights,
    /// How much of the first block's values is mixed into those of this one, if it is not the first.
    first_value: Option<LowRank>,
    /// In-context learning rates.
    rate: LowRank,
    gate: Option<[LinearWeights; 2]>,
    /// Factors of what is removed from the state, `[width]`.
    removal: TensorId,
    /// How far rates scale keys, `[width]`.
    key_rate: TensorId,
    /// Factors of the current token's values, `[width]`.
    bonus: TensorId,
    /// Weight and bias of the norm of each head's results, `[width]`.
    norm: Option<[TensorId; 2]>,
    output: LinearWeights,
    state: usize,
}

/// A layer of low rank with a bias: `up(down(x)) + bias`.
struct LowRank {
    down: LinearWeights,
    up: LinearWeights,
    bias: TensorId,
}

/// The feed-forward network, over each input and the one before it.
pub(in crate::model) struct ChannelMix {
    /// How much of the difference to the input before is added, `[width]`.
    shift: TensorId,
    key: LinearWeights,
    value: LinearWeights,
    state: usize,
    /// Whether all rows but the last are dropped where nobody asks for their logits.
    pub(super) drops_rows: bool,
}

impl LowRank {
    /// Of the tensors that `name` and 0, 1 and 2 name.
    fn load(name: [&'static str; 3], rank: &str, loader: &mut Loader<'_>) -> Result<LowRank> {
        let (width, rank) = (loader.config.embedding, loader.metadata.size(rank)?);
        let [bias, down, up] = name;
        Ok(LowRank {
            down: loader.linear(Linear::plain(down), [rank, width], None)?,
            up: loader.linear(Linear::plain(up), [width, rank], None)?,
            bias: loader.vector(bias, &[width])?,
        })
    }

    /// With a function between the two layers.
    fn forward(
        &self,
        pass: &ForwardPass<'_>,
        x: &Tensor,
        between: impl Fn(Tensor) -> rustorch_core::Result<Tensor>,
    ) -> Result<Tensor> {
        let inner = between(self.down.forward(pass, x)?)?;
        Ok(self.up.forward(pass, &inner)?.add(&pass.weights[self.bias])?)
    }
}

impl TimeMix {
    pub(super) fn load(loader: &mut Loader<'_>) -> Result<TimeMix> {
        let (width, block) = (loader.config.embedding, loader.block());
        let head = loader.metadata.size("wkv.head_size")?;
        if !width.is_multiple_of(head) {
            return Err(loader.metadata.error("wkv.head_size", format!("{head} does not divide {width}")));
        }
        let square = |name, loader: &mut Loader<'_>| loader.linear(Linear::plain(name), [width; 2], None);
        let gate = match loader.has_part("time_mix_g1") {
            true => {
                let rank = loader.metadata.size("attention.gate_lora_rank")?;
                let down = loader.linear(Linear::plain("time_mix_g1"), [rank, width], None)?;
                Some([down, loader.linear(Linear::plain("time_mix_g2"), [width, rank], None)?])
            }
            false => None,
        };
        let parts = if gate.is_some() { 6 } else { 5 };
        let norm = match loader.has_part("time_mix_ln") {
            true => Some([
                loader.vector("time_mix_ln", &[width])?,
                loader.vector_named("time_mix_ln.bias", width)?,
            ]),
            false => None,
        };
        let mix = ["time_mix_v0", "time_mix_v1", "time_mix_v2"];
        let first_value = match block {
            0 => None,
            _ => Some(LowRank::load(mix, "attention.value_residual_mix_lora_rank", loader)?),
        };
        let decay = ["time_mix_w0", "time_mix_w1", "time_mix_w2"];
        let rate = ["time_mix_a0", "time_mix_a1", "time_mix_a2"];
        Ok(TimeMix {
            head,
            shift: loader.vector("time_mix_lerp_fused", &[parts, 1, 1, width])?,
            receptance: square("time_mix_receptance", loader)?,
            decay: LowRank::load(decay, "attention.decay_lora_rank", loader)?,
            key: square("time_mix_key", loader)?,
            value: square("time_mix_value", loader)?,
            first_value,
            rate: LowRank::load(rate, "attention.iclr_lora_rank", loader)?,
            gate,
            removal: loader.vector("time_mix_k_k", &[width])?,
            key_rate: loader.vector("time_mix_k_a", &[width])?,
            bonus: loader.vector("time_mix_r_k", &[width])?,
            norm,
            output: square("time_mix_output", loader)?,
            state: loader.new_state([vec![1, width], vec![1, width / head, head, head]]),
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, flow: &mut Flow) -> Result<Tensor> {
        let x = flow.input().clone();
        let (n, width, weights) = (x.dims()[0], x.dims()[1], pass.weights);
        let heads = |x: &Tensor| x.reshape([1, n, width / self.head, self.head]);
        let [last, state] = pass.cache.state(self.state);
        let difference = shifted(&x, last)?.sub(&x)?;
        let mixed = |part: isize| -> Result<Tensor> {
            let share = weights[self.shift].select(0, part)?.reshape([width])?;
            Ok(difference.mul(&share)?.add(&x)?)
        };

        let receptance = self.receptance.forward(pass, &mixed(0)?)?;
        let decay = self.decay.forward(pass, &mixed(1)?, |x| x.tanh())?;
        let decay = decay.sigmoid()?.mul(LOG_DECAY)?.exp()?;
        let key = self.key.forward(pass, &mixed(2)?)?;
        let of_value = mixed(3)?;
        let value = self.value.forward(pass, &of_value)?;
        let value = match (&self.first_value, &flow.first_value) {
            (Some(share), Some(first)) => {
                let share = share.forward(pass, &of_value, Ok)?.sigmoid()?;
                let first = first.to_device(value.device())?;
                value.add(&first.sub(&value)?.mul(&share)?)?
            }
            _ => {
                flow.first_value = Some(value.clone());
                value
            }
        };
        let rate = self.rate.forward(pass, &mixed(4)?, Ok)?.sigmoid()?;

        let removed = heads(&key.mul(&weights[self.removal])?)?;
        let removed = removed.rms_norm([self.head], None, L2_EPS)?.mul(1.0 / (self.head as f32).sqrt())?;
        let scaled = key.mul(&weights[self.key_rate])?;
        let key = key.add(&rate.mul(&scaled)?.sub(&scaled)?)?;
        let (r, k, v) = (heads(&receptance)?, heads(&key)?, heads(&value)?);
        let replaced = removed.mul(&heads(&rate)?)?;
        let (out, state) = Tensor::rwkv_wkv7(&r, &heads(&decay)?, &k, &v, &removed.neg()?, &replaced, state)?;
        pass.set_state(self.state, vec![x.narrow(0, n - 1, 1)?.contiguous()?, state]);

        let out = match self.norm {
            Some([weight, bias]) => {
                let normed = out.layer_norm([self.head], None, None, NORM_EPS)?.reshape([n, width])?;
                normed.mul(&weights[weight])?.add(&weights[bias])?
            }
            None => out.reshape([n, width])?,
        };
        let bonus = weights[self.bonus].reshape([width / self.head, self.head])?;
        let current = k.mul(&r)?.mul(&bonus)?.sum(-1, true)?;
        let mut out = out.add(&v.mul(&current)?.reshape([n, width])?)?;
        if let Some([down, up]) = self.gate {
            out = out.mul(&up.forward(pass, &down.forward(pass, &mixed(5)?)?.sigmoid()?)?)?;
        }
        self.output.forward(pass, &out)
    }
}

impl ChannelMix {
    pub(super) fn load(loader: &mut Loader<'_>) -> Result<ChannelMix> {
        let (width, inner) = (loader.config.embedding, loader.feed_forward()?);
        Ok(ChannelMix {
            shift: loader.vector("channel_mix_lerp_k", &[width])?,
            key: loader.linear(Linear::plain("channel_mix_key"), [inner, width], None)?,
            value: loader.linear(Linear::plain("channel_mix_value"), [width, inner], None)?,
            state: loader.new_state([vec![1, width]]),
            drops_rows: false,
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let n = x.dims()[0];
        let [last] = pass.cache.state(self.state);
        let before = shifted(x, last)?;
        pass.set_state(self.state, vec![x.narrow(0, n - 1, 1)?.contiguous()?]);
        let (first, rows) = if self.drops_rows && pass.last_row { (n - 1, 1) } else { (0, n) };
        let (x, before) = (x.narrow(0, first, rows)?, before.narrow(0, first, rows)?);
        let mixed = before.sub(&x)?.mul(&pass.weights[self.shift])?.add(&x)?;
        let key = self.key.forward(pass, &mixed)?.relu()?.square()?;
        self.value.forward(pass, &key)
    }
}

/// The rows of `x: [n, width]` one later, behind the last row of the tokens before, `[1, width]`.
fn shifted(x: &Tensor, last: &Tensor) -> Result<Tensor> {
    match x.dims()[0] {
        1 => Ok(last.clone()),
        n => Ok(Tensor::cat(&[last.clone(), x.narrow(0, 0, n - 1)?], 0)?),
    }
}

/// −1/√e: the logarithm of a state's decay is this times a sigmoid.
const LOG_DECAY: f32 = -0.606_531;
/// Added to the mean square of what is removed, which is to be of length 1.
const L2_EPS: f64 = 1e-24;
/// Added to the variance of a head's results.
const NORM_EPS: f64 = 64e-5;

//! Mixture of experts.

use super::LinearWeights;
use super::activation::ActivationFn;
use crate::arch::{self, NormKind, RouterInput, Scores};
use crate::model::decoder::ForwardPass;
use crate::model::loader::Loader;
use crate::model::weights::TensorId;
use crate::{Error, Result};
use rustorch_core::DType;
use rustorch_tensor::Tensor;

/// The weighted sum of the networks that a router picks for each row.
pub(in crate::model) struct Experts {
    /// `[experts, embedding]`.
    router: LinearWeights,
    /// A vector that scales the router's input, the norm of the residual stream by this epsilon; that of the experts if not given.
    router_norm: Option<(TensorId, f64)>,
    scores: Scores,
    /// Added to the weights for the choice alone, `[experts]`.
    selection_bias: Option<TensorId>,
    /// Of so many groups so many are used.
    groups: Option<[usize; 2]>,
    /// Whether the chosen experts' weights are scaled to sum to 1.
    normalize: bool,
    /// Whether the weights are factors of what the experts see.
    weigh_inputs: bool,
    /// A factor of the chosen experts' weights after that.
    factor: f32,
    /// How many experts a token uses.
    used: usize,
    /// Projections to what the experts see, and from what they give.
    latent: Option<[LinearWeights; 2]>,
    gate: Option<LinearWeights>,
    up: LinearWeights,
    down: LinearWeights,
    activation: ActivationFn,
}

impl Experts {
    pub(super) fn load(experts: &arch::Experts, loader: &mut Loader<'_>) -> Result<Experts> {
        let Some(counts) = loader.config.experts else {
            return Err(Error::Request("the file has no experts where its architecture needs them".into()));
        };
        let (embedding, inner, count) = (loader.config.embedding, counts.feed_forward, counts.count);
        let (width, latent) = match experts.latent.filter(|[down, _]| loader.has_part(down.name)) {
            Some([down, up]) => {
                let width = loader.metadata.size("moe_latent_size")?;
                let down = loader.linear(down, [width, embedding], None)?;
                (width, Some([down, loader.linear(up, [embedding, width], None)?]))
            }
            None => (embedding, None),
        };
        let (router, router_norm) = match experts.router_input {
            RouterInput::Branch => (loader.linear(experts.router, [count, embedding], None)?, None),
            RouterInput::NormedResidual { scale } => {
                let weight = loader.matrix(experts.router.name, &[count, embedding])?;
                let eps = loader.metadata.epsilon(NormKind::Rms)?;
                let norm = (loader.vector_named(scale, embedding)?, eps);
                (LinearWeights { weight, scale: None, bias: None }, Some(norm))
            }
        };
        let (gate, up) = if loader.has_part(experts.fused.name) {
            let both = loader.experts(experts.fused, [count, 2 * inner, width])?;
            (Some(loader.split(both, 0, inner)?), loader.split(both, inner, inner)?)
        } else {
            let gate = experts.gate.map(|gate| loader.experts(gate, [count, inner, width])).transpose()?;
            (gate, loader.experts(experts.up, [count, inner, width])?)
        };
        Ok(Experts {
            router,
            router_norm,
            scores: counts.scores.filter(|_| experts.by_metadata).unwrap_or(experts.scores),
            selection_bias: match experts.selection_bias {
                Some(bias) => loader.find_vector_named(bias, count)?,
                None => None,
            },
            groups: (counts.groups > 1).then_some([counts.groups, counts.groups_used]),
            normalize: counts.normalize.filter(|_| experts.by_metadata).unwrap_or(experts.normalize),
            weigh_inputs: experts.weigh_inputs,
            factor: counts.scale,
            used: counts.used,
            latent,
            gate,
            up,
            down: loader.experts(experts.down, [count, width, inner])?,
            activation: ActivationFn::new(experts.activation, &loader.metadata)?,
        })
    }

    /// Of `x: [n, embedding]`, a branch of `residual`.
    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
        let (share, chosen) = match self.router_norm {
            None => self.route(pass, x)?,
            Some((scale, eps)) => {
                let width = x.dims()[1];
                let normed = residual.rms_norm([width], None, eps)?.mul(1.0 / (width as f32).sqrt())?;
                self.route(pass, &normed.mul(&pass.weights[scale])?)?
            }
        };
        let x = self.latent.map_or_else(|| Ok(x.clone()), |[down, _]| down.forward(pass, x))?;
        let mut x = x.unsqueeze(1)?;
        if self.weigh_inputs {
            x = x.mul(&share.unsqueeze(-1)?)?;
        }
        let gate = self.gate.map(|gate| gate.forward_experts(pass, &x, &chosen)).transpose()?;
        let up = self.up.forward_experts(pass, &x, &chosen)?;
        let inner = match &gate {
            Some(gate) => self.activation.forward(gate, Some(&up), pass.numerics)?,
            None => self.activation.forward(&up, None, pass.numerics)?,
        };
        let outputs = self.down.forward_experts(pass, &inner, &chosen)?;
        let sum = match self.weigh_inputs {
            true => outputs.sum(1, false)?,
            false => outputs.mul(&share.unsqueeze(-1)?)?.sum(1, false)?,
        };
        self.latent.map_or(Ok(sum.clone()), |[_, up]| up.forward(pass, &sum))
    }

    /// For each row of `x: [n, embedding]` the weights of the chosen experts and their indices, both `[n, used]`.
    fn route(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let scores = self.router.forward(pass, x)?;
        let weights = match self.scores {
            Scores::Softmax => scores.softmax(-1)?,
            Scores::SoftmaxOfChosen => scores,
            Scores::Sigmoid => scores.sigmoid()?,
        };
        let (mut share, chosen) = match self.selection_bias {
            None if self.groups.is_none() => weights.topk(self.used, -1, true)?,
            bias => {
                let bias = bias.map(|bias| &pass.weights[bias]);
                let preference = bias.map_or_else(|| Ok(weights.clone()), |bias| weights.add(bias))?;
                let (_, chosen) = self.of_best_groups(&preference)?.topk(self.used, -1, true)?;
                (weights.gather(-1, &chosen)?, chosen)
            }
        };
        if self.scores == Scores::SoftmaxOfChosen {
            share = share.softmax(-1)?;
        }
        if self.normalize {
            // The floor keeps a row whose chosen probabilities all underflow from dividing by zero, as llama.cpp does.
            let total = share.sum(-1, true)?.clamp_min(F16_LEAST_NORMAL)?;
            share = share.div(&total)?;
        }
        if self.factor != 1.0 {
            share = share.mul(self.factor)?;
        }
        Ok((share, chosen))
    }

    /// `preference: [n, experts]`, -∞ but for the groups whose two best experts have the largest sums.
    fn of_best_groups(&self, preference: &Tensor) -> Result<Tensor> {
        let Some([groups, used]) = self.groups else { return Ok(preference.clone()) };
        let (n, experts) = (preference.dims()[0], preference.dims()[1]);
        let grouped = preference.reshape([n, groups, experts / groups])?;
        let (best, _) = grouped.topk(2, -1, true)?;
        let (_, chosen) = best.sum(-1, false)?.topk(used, -1, true)?;
        let excluded =
            Tensor::full([n, groups], f32::NEG_INFINITY, DType::F32)?.to_device(preference.device())?;
        let mask = excluded.scatter(-1, &chosen, 0.0f32)?;
        Ok(grouped.add(&mask.unsqueeze(-1)?)?.reshape([n, experts])?)
    }
}

/// 2⁻¹⁴, the least normal `f16`.
const F16_LEAST_NORMAL: f64 = 6.103_515_625e-5;

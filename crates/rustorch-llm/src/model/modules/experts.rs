//! Mixture of experts.

use super::{LinearWeights, glu};
use crate::arch;
use crate::model::decoder::ForwardPass;
use crate::model::loader::Loader;
use crate::model::weights::TensorId;
use crate::{Error, Result};
use rustorch_core::GluOp;
use rustorch_tensor::Tensor;

/// The weighted sum of the networks that a router picks for each row.
pub(in crate::model) struct Experts {
    /// `[experts, embedding]`.
    router: TensorId,
    gate: LinearWeights,
    up: LinearWeights,
    down: LinearWeights,
    activation: GluOp,
    /// How many experts a token uses.
    used: usize,
    /// Whether the chosen experts' weights are scaled to sum to 1.
    normalize: bool,
    /// A factor of the chosen experts' weights after that.
    factor: f32,
}

impl Experts {
    pub(super) fn load(experts: &arch::Experts, loader: &mut Loader<'_>) -> Result<Experts> {
        let Some(counts) = loader.config.experts else {
            return Err(Error::Request("the file has no experts where its architecture needs them".into()));
        };
        let (width, inner, count) = (loader.config.embedding, counts.feed_forward, counts.count);
        Ok(Experts {
            router: loader.matrix(experts.router, &[count, width])?,
            gate: loader.experts(experts.gate, [count, inner, width])?,
            up: loader.experts(experts.up, [count, inner, width])?,
            down: loader.experts(experts.down, [count, width, inner])?,
            activation: experts.activation,
            used: counts.used,
            normalize: experts.normalize,
            factor: counts.scale,
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let (share, chosen) = self.route(pass, x)?;
        let x = x.unsqueeze(1)?;
        let gate = self.gate.forward_experts(pass, &x, &chosen)?;
        let up = self.up.forward_experts(pass, &x, &chosen)?;
        let outputs = self.down.forward_experts(pass, &glu(self.activation, &gate, &up)?, &chosen)?;
        Ok(outputs.mul(&share.unsqueeze(-1)?)?.sum(1, false)?)
    }

    /// For each row of `x: [n, embedding]` the weights of the chosen experts and their indices, both `[n, used]`.
    fn route(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let router = &pass.weights[self.router];
        let probabilities = x.linear_batch_invariant(router, None, pass.numerics)?.softmax(-1)?;
        let (mut share, chosen) = probabilities.topk(self.used, -1, true)?;
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
}

/// 2⁻¹⁴, the least normal `f16`.
const F16_LEAST_NORMAL: f64 = 6.103_515_625e-5;

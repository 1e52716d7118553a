//! The feed-forward network.

use super::LinearWeights;
use super::activation::ActivationFn;
use crate::Result;
use crate::arch::{self, MlpGate};
use crate::model::decoder::ForwardPass;
use crate::model::loader::Loader;
use rustorch_tensor::Tensor;

/// `down(act(gate(x)) · up(x))`, or `down(act(up(x)))`.
pub(in crate::model) struct Mlp {
    gate: Option<LinearWeights>,
    up: LinearWeights,
    down: LinearWeights,
    activation: ActivationFn,
    /// How far gates have to be above their mean, in standard deviations.
    sparsity: Option<f32>,
    /// A vector `[1, embedding]` that gives a factor of the result.
    sigmoid_gate: Option<LinearWeights>,
}

impl Mlp {
    pub(super) fn load(mlp: &arch::Mlp, loader: &mut Loader<'_>) -> Result<Mlp> {
        let width = loader.config.embedding;
        let inner = match mlp.shared {
            true => loader.shape_of(mlp.up.name)?.first().copied().unwrap_or(0),
            false => loader.feed_forward()?,
        };
        let (gate, up) = match mlp.gate {
            MlpGate::None => (None, loader.linear(mlp.up, [inner, width], None)?),
            MlpGate::Separate(gate) => {
                let gate = loader.linear(gate, [inner, width], None)?;
                (Some(gate), loader.linear(mlp.up, [inner, width], None)?)
            }
            MlpGate::InUp => {
                let both = loader.linear(mlp.up, [2 * inner, width], None)?;
                let [gate, up] = [0, inner].map(|first| loader.split(both, first, inner));
                (Some(gate?), up?)
            }
        };
        let down = loader.linear(mlp.down, [width, inner], None)?;
        let scaled =
            |weights: LinearWeights| LinearWeights { scale: weights.scale.filter(|_| mlp.scaled), ..weights };
        Ok(Mlp {
            gate: gate.map(scaled),
            up: scaled(up),
            down: scaled(down),
            activation: ActivationFn::new(mlp.activation, &loader.metadata)?,
            sparsity: mlp.sparsity,
            sigmoid_gate: match mlp.sigmoid_gate {
                Some(name) => {
                    Some(LinearWeights { weight: loader.row(name, width)?, scale: None, bias: None })
                }
                None => None,
            },
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let gate = self.gate.map(|gate| gate.forward_then_scale(pass, x)).transpose()?;
        let up = self.up.forward_then_scale(pass, x)?;
        let gate = match (gate, self.sparsity) {
            (Some(gate), Some(deviations)) => Some(largest(&gate, deviations)?),
            (gate, _) => gate,
        };
        let inner = match &gate {
            Some(gate) => self.activation.forward(gate, Some(&up), pass.numerics)?,
            None => self.activation.forward(&up, None, pass.numerics)?,
        };
        let y = self.down.forward_then_scale(pass, &inner)?;
        Ok(match self.sigmoid_gate {
            Some(gate) => y.mul(&gate.forward(pass, x)?.sigmoid()?)?,
            None => y,
        })
    }
}

/// Of each row of `x` by how much its elements exceed the mean and so many standard deviations.
fn largest(x: &Tensor, deviations: f32) -> Result<Tensor> {
    let cutoff = x.std(-1, 1.0, true)?.mul(deviations)?.add(&x.mean(-1, true)?)?;
    Ok(x.sub(&cutoff)?.relu()?)
}

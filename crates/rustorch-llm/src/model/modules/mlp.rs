//! The feed-forward network.

use super::{LinearWeights, glu};
use crate::Result;
use crate::arch;
use crate::model::decoder::ForwardPass;
use crate::model::loader::Loader;
use rustorch_core::GluOp;
use rustorch_tensor::Tensor;

/// `down(act(gate(x)) · up(x))`.
pub(in crate::model) struct Mlp {
    gate: LinearWeights,
    up: LinearWeights,
    down: LinearWeights,
    activation: GluOp,
}

impl Mlp {
    pub(super) fn load(mlp: &arch::Mlp, loader: &mut Loader<'_>) -> Result<Mlp> {
        let (width, inner) = (loader.config.embedding, loader.config.layers[loader.block()].feed_forward);
        let mut linear = |layer, shape| -> Result<LinearWeights> {
            let weights = loader.linear(layer, shape, None)?;
            Ok(LinearWeights { scale: weights.scale.filter(|_| mlp.scaled), ..weights })
        };
        Ok(Mlp {
            gate: linear(mlp.gate, [inner, width])?,
            up: linear(mlp.up, [inner, width])?,
            down: linear(mlp.down, [width, inner])?,
            activation: mlp.activation,
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let gate = self.gate.forward_then_scale(pass, x)?;
        let up = self.up.forward_then_scale(pass, x)?;
        self.down.forward_then_scale(pass, &glu(self.activation, &gate, &up)?)
    }
}

//! Normalisation.

use crate::Result;
use crate::arch::{self, Bias, NormKind};
use crate::model::loader::Loader;
use crate::model::weights::{TensorId, Weights, weight_device};
use rustorch_core::Device;
use rustorch_tensor::Tensor;

/// Normalisation over the last dimension.
pub(in crate::model) struct Norm {
    kind: NormKind,
    width: usize,
    weight: Option<TensorId>,
    bias: Option<TensorId>,
    eps: f64,
}

impl Norm {
    /// With a weight of this shape, and a bias of its last dimension.
    pub(in crate::model) fn load(
        norm: &arch::Norm,
        shape: &[usize],
        loader: &mut Loader<'_>,
    ) -> Result<Norm> {
        let width = shape[shape.len() - 1];
        let weight = norm.tensor.map(|tensor| loader.vector(tensor, shape)).transpose()?;
        let bias = match norm.tensor.map(|tensor| format!("{tensor}.bias")) {
            Some(bias) if norm.bias == Bias::Required || norm.bias == Bias::Optional && loader.has(&bias) => {
                Some(loader.vector_named(&bias, width)?)
            }
            _ => None,
        };
        let eps = loader.metadata.epsilon(norm.kind)?;
        Ok(Norm { kind: norm.kind, width, weight, bias, eps })
    }

    /// The device of the weight, if there is one.
    pub(in crate::model) fn device(&self, weights: &Weights) -> Option<Device> {
        self.weight.map(|weight| weight_device(&weights[weight]))
    }

    pub(in crate::model) fn forward(&self, x: &Tensor, weights: &Weights) -> Result<Tensor> {
        let weight = self.weight.map(|weight| &weights[weight]);
        let bias = self.bias.map(|bias| &weights[bias]);
        // Weights of more dimensions are those of several vectors.
        let (inner, outer) = match weight {
            Some(weight) if weight.ndim() > 1 => (None, Some(weight)),
            inner => (inner, None),
        };
        let y = match self.kind {
            NormKind::Rms => x.rms_norm([self.width], inner, self.eps)?,
            NormKind::Layer => x.layer_norm([self.width], inner, bias, self.eps)?,
        };
        Ok(match outer {
            Some(weight) => y.mul(weight)?,
            None => y,
        })
    }

    /// `x + y`, and its norm.
    pub(in crate::model) fn add_forward(
        &self,
        x: &Tensor,
        y: &Tensor,
        weights: &Weights,
    ) -> Result<(Tensor, Tensor)> {
        if self.kind == NormKind::Rms {
            let weight = self.weight.map(|weight| &weights[weight]);
            return Ok(x.add_rms_norm(y, [self.width], weight, self.eps)?);
        }
        let sum = x.add(y)?;
        let normed = self.forward(&sum, weights)?;
        Ok((sum, normed))
    }
}

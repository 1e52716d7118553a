//! Normalisation.

use crate::Result;
use crate::arch::NormKind;
use crate::model::loader::Loader;
use crate::model::weights::{TensorId, Weights};
use rustorch_tensor::Tensor;

/// Normalisation over the last dimension.
pub(in crate::model) struct Norm {
    pub(in crate::model) kind: NormKind,
    pub(in crate::model) weight: TensorId,
    eps: f64,
}

impl Norm {
    /// With a weight of this shape.
    pub(super) fn load(
        kind: NormKind,
        tensor: &str,
        shape: &[usize],
        loader: &mut Loader<'_>,
    ) -> Result<Norm> {
        let eps = loader.metadata.epsilon(kind.epsilon_key())?;
        Ok(Norm { kind, weight: loader.vector(tensor, shape)?, eps })
    }

    pub(in crate::model) fn forward(&self, x: &Tensor, weights: &Weights) -> Result<Tensor> {
        let weight = &weights[self.weight];
        let width = weight.dims()[weight.ndim() - 1];
        // Weights of more dimensions are those of several vectors.
        let (inner, outer) = if weight.ndim() == 1 { (Some(weight), None) } else { (None, Some(weight)) };
        let y = match self.kind {
            NormKind::Rms => x.rms_norm([width], inner, self.eps)?,
            NormKind::Layer => x.layer_norm([width], inner, None, self.eps)?,
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
        let weight = &weights[self.weight];
        if self.kind == NormKind::Rms {
            return Ok(x.add_rms_norm(y, weight.dims(), Some(weight), self.eps)?);
        }
        let sum = x.add(y)?;
        let normed = self.forward(&sum, weights)?;
        Ok((sum, normed))
    }
}

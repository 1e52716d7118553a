//! Normalisation.

use crate::Result;
use crate::arch;
use crate::model::loader::Loader;
use crate::model::weights::{TensorId, Weights};
use rustorch_tensor::Tensor;

/// RMS norm over the last dimension.
pub(in crate::model) struct Norm {
    pub(in crate::model) weight: TensorId,
    pub(in crate::model) eps: f64,
}

impl Norm {
    /// Of vectors of `len` elements.
    pub(super) fn load(norm: &arch::Norm, len: usize, loader: &mut Loader<'_>) -> Result<Norm> {
        let eps = loader.metadata.epsilon("attention.layer_norm_rms_epsilon")?;
        Ok(Norm { weight: loader.vector(norm.tensor, len)?, eps })
    }

    pub(in crate::model) fn forward(&self, x: &Tensor, weights: &Weights) -> Result<Tensor> {
        let weight = &weights[self.weight];
        Ok(x.rms_norm(weight.dims(), Some(weight), self.eps)?)
    }

    /// `x + y`, and its norm, in one operation.
    pub(in crate::model) fn add_forward(
        &self,
        x: &Tensor,
        y: &Tensor,
        weights: &Weights,
    ) -> Result<(Tensor, Tensor)> {
        let weight = &weights[self.weight];
        Ok(x.add_rms_norm(y, weight.dims(), Some(weight), self.eps)?)
    }
}

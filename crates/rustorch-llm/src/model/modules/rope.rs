//! Rotary position embedding.

use crate::Result;
use crate::arch::{self, WindowedRope};
use crate::model::config::rope_params;
use crate::model::decoder::ForwardPass;
use crate::model::loader::Loader;
use crate::model::weights::TensorId;
use rustorch_core::RopeParams;
use rustorch_tensor::Tensor;

/// The rotation of queries and keys in one block.
pub(in crate::model) struct Rope {
    params: RopeParams,
    factors: Factors,
}

/// Divisors of the rotation frequencies, `[rotated / 2]`.
enum Factors {
    None,
    Always(TensorId),
    /// By whether the context is longer than `original`.
    ByContext {
        long: TensorId,
        short: TensorId,
        original: usize,
    },
}

impl Rope {
    pub(super) fn load(rope: &arch::Rope, loader: &mut Loader<'_>) -> Result<Rope> {
        let layer = &loader.config.layers[loader.block()];
        let params = rope_params(&loader.metadata, rope, layer, loader.config.context)?;
        let unscaled = layer.window.is_some() && matches!(rope.windowed, WindowedRope::Unscaled { .. });
        let factors = match rope.factors && !unscaled {
            true => Factors::load(params.rotated / 2, loader)?,
            false => Factors::None,
        };
        Ok(Rope { params, factors })
    }

    /// What YaRN would magnify queries and keys by at the same time, were it not the attention's business.
    pub(super) fn magnitude(&self, loader: &Loader<'_>) -> Result<f32> {
        let extension = 1.0 + 0.1 * (1.0 / self.params.scale).ln();
        let multiplier = loader.metadata.find_f32("rope.scaling.yarn_log_multiplier")?.unwrap_or(0.0);
        let own = self.params.yarn.as_ref().map_or(1.0, |yarn| yarn.attn_factor) * extension;
        Ok(own * (1.0 + multiplier * (1.0 / self.params.scale).ln()))
    }

    pub(in crate::model) fn forward(
        &self,
        pass: &ForwardPass<'_>,
        x: &Tensor,
        positions: &Tensor,
    ) -> Result<Tensor> {
        Ok(x.rope(positions, &self.params, self.factors(pass))?)
    }

    fn factors<'a>(&self, pass: &ForwardPass<'a>) -> Option<&'a Tensor> {
        let id = match self.factors {
            Factors::None => return None,
            Factors::Always(id) => id,
            Factors::ByContext { long, short, original } => {
                if pass.cache.capacity() > original {
                    long
                } else {
                    short
                }
            }
        };
        Some(&pass.weights[id])
    }
}

impl Factors {
    fn load(len: usize, loader: &mut Loader<'_>) -> Result<Factors> {
        if let Some(factors) = loader.find_shared_vector("rope_freqs", len)? {
            return Ok(Factors::Always(factors));
        }
        let long = loader.find_shared_vector("rope_factors_long", len)?;
        let short = loader.find_shared_vector("rope_factors_short", len)?;
        let original = loader.metadata.find_size("rope.scaling.original_context_length")?;
        Ok(match (long, short) {
            (Some(long), Some(short)) => {
                Factors::ByContext { long, short, original: original.unwrap_or(loader.config.context) }
            }
            _ => Factors::None,
        })
    }
}

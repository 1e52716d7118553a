//! Attention over the cache.

use super::LinearWeights;
use super::norm::Norm;
use crate::Result;
use crate::arch;
use crate::model::config::rope_params;
use crate::model::decoder::ForwardPass;
use crate::model::loader::Loader;
use crate::model::weights::TensorId;
use rustorch_core::RopeParams;
use rustorch_tensor::Tensor;

/// Grouped-query attention with rotary positions.
pub(in crate::model) struct Attention {
    /// The index of the block, which is that of its cache.
    block: usize,
    heads: usize,
    query: LinearWeights,
    key: LinearWeights,
    value: LinearWeights,
    query_norm: Option<Norm>,
    key_norm: Option<Norm>,
    rope: RopeParams,
    /// Divisors of the rotation frequencies, `[rotated / 2]`.
    rope_factors: Option<TensorId>,
    scale: f32,
    output: LinearWeights,
    /// The keys and values that it keeps.
    pub(super) cache_shape: CacheShape,
    /// Whether all rows but the last are dropped as soon as their keys and values are in the cache, where nobody asks for their logits.
    pub(super) drops_rows: bool,
}

/// The keys and values of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) struct CacheShape {
    pub(in crate::model) block: usize,
    pub(in crate::model) kv_heads: usize,
    pub(in crate::model) key_length: usize,
    pub(in crate::model) value_length: usize,
}

impl Attention {
    pub(super) fn load(part: &arch::Attention, loader: &mut Loader<'_>) -> Result<Attention> {
        let block = loader.block();
        let (width, sizes) = (loader.config.embedding, loader.config.layers[block].clone());
        let (heads, kv_heads) = (sizes.heads, sizes.kv_heads);
        let (key_length, value_length) = (sizes.key_length, sizes.value_length);
        let head_norm = |norm: Option<arch::Norm>, loader: &mut Loader<'_>| {
            norm.map(|norm| Norm::load(&norm, key_length, loader)).transpose()
        };
        let rope = rope_params(&loader.metadata, part.rope.style, key_length, loader.config.context)?;
        let rope_factors = match part.rope.factors {
            Some(name) => loader.find_shared_vector(name, rope.rotated / 2)?,
            None => None,
        };
        Ok(Attention {
            block,
            heads,
            query: loader.linear(part.query, [heads * key_length, width], None)?,
            key: loader.linear(part.key, [kv_heads * key_length, width], None)?,
            value: loader.linear(part.value, [kv_heads * value_length, width], None)?,
            query_norm: head_norm(part.query_norm, loader)?,
            key_norm: head_norm(part.key_norm, loader)?,
            rope,
            rope_factors,
            scale: loader.factor(&part.scale)?,
            output: loader.linear(part.output, [width, heads * value_length], None)?,
            cache_shape: CacheShape { block, kv_heads, key_length, value_length },
            drops_rows: false,
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let CacheShape { kv_heads, value_length, .. } = self.cache_shape;
        let factors = self.rope_factors.map(|id| &pass.weights[id]);
        let positions = &pass.positions[self.block];
        let key = self.heads(&self.key, pass, x, kv_heads, self.key_norm.as_ref())?;
        let value = self.heads(&self.value, pass, x, kv_heads, None)?;
        let [key_slots, value_slots] = pass.cache.slots(self.block, pass.n)?;
        key.rope_into(positions, &self.rope, factors, &key_slots)?;
        value_slots.copy_(&value)?;
        let [keys, values] = pass.cache.read(self.block, pass.n)?;

        let (first, rows) = if self.drops_rows && pass.last_row { (pass.n - 1, 1) } else { (0, pass.n) };
        let (x, positions) = (x.narrow(0, first, rows)?, positions.narrow(0, first, rows)?);
        let query = self.heads(&self.query, pass, &x, self.heads, self.query_norm.as_ref())?;
        let query = query.rope(&positions, &self.rope, factors)?;
        let causal = rustorch_core::Attention {
            scale: self.scale,
            causal: Some(pass.start + first),
            window: None,
            softcap: None,
            numerics: pass.numerics,
            lse: false,
            dropout: None,
        };
        let attended = Tensor::attention(&query, &keys, &values, None, &causal)?;
        let attended = attended.transpose(0, 1)?.reshape([rows, self.heads * value_length])?;
        self.output.forward(pass, &attended)
    }

    /// A projection of `x: [n, embedding]`, split into heads `[heads, n, length]` and normalised in each if asked.
    fn heads(
        &self,
        weights: &LinearWeights,
        pass: &ForwardPass<'_>,
        x: &Tensor,
        heads: usize,
        norm: Option<&Norm>,
    ) -> Result<Tensor> {
        let y = weights.forward(pass, x)?;
        let (rows, width) = (y.dims()[0], y.dims()[1]);
        let y = y.reshape([rows, heads, width / heads])?;
        let y = match norm {
            Some(norm) => norm.forward(&y, pass.weights)?,
            None => y,
        };
        Ok(y.transpose(0, 1)?)
    }
}

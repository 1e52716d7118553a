//! Multi-head latent attention.

use super::LinearWeights;
use super::norm::Norm;
use super::rope::Rope;
use crate::Result;
use crate::arch;
use crate::model::cache::CacheShape;
use crate::model::decoder::ForwardPass;
use crate::model::loader::Loader;
use crate::model::position::KeysOrValues;
use rustorch_tensor::Tensor;
use rustorch_tensor::autograd::apply;

/// Attention over latent vectors, from which keys and values of all heads are projected.
pub(in crate::model) struct LatentAttention {
    /// The index of the block.
    block: usize,
    sizes: Sizes,
    query: Query,
    latent: LinearWeights,
    latent_norm: Norm,
    /// `[heads, latent, key]`.
    key: LinearWeights,
    /// `[heads, value, latent]`.
    value: LinearWeights,
    rope: Rope,
    scale: f32,
    output: LinearWeights,
    /// The place of latent vectors and rotated keys in the cache.
    cache: usize,
    /// Whether all rows but the last are dropped, as in [`Attention`](super::Attention).
    pub(super) drops_rows: bool,
}

enum Query {
    Direct(LinearWeights),
    /// By way of a latent vector.
    Latent(LinearWeights, Norm, LinearWeights),
}

#[derive(Clone, Copy)]
struct Sizes {
    heads: usize,
    /// Of a latent vector.
    latent: usize,
    /// Of a head's key, the rotated elements not counted.
    key: usize,
    /// The rotated elements of a key.
    rotated: usize,
    /// Of a head's value.
    value: usize,
}

impl Sizes {
    fn read(loader: &Loader<'_>) -> Result<Sizes> {
        let r = &loader.metadata;
        let (whole, rotated) = (r.size("attention.key_length_mla")?, r.size("rope.dimension_count")?);
        let Some(key) = whole.checked_sub(rotated).filter(|&key| key > 0) else {
            let message = format!("{whole} is not more than the {rotated} rotated elements");
            return Err(r.error("attention.key_length_mla", message));
        };
        let heads = loader.config.layers[loader.block()].heads;
        let (latent, value) = (r.size("attention.kv_lora_rank")?, r.size("attention.value_length_mla")?);
        Ok(Sizes { heads, latent, key, rotated, value })
    }
}

impl LatentAttention {
    pub(super) fn load(part: &arch::LatentAttention, loader: &mut Loader<'_>) -> Result<LatentAttention> {
        let (width, block, sizes) = (loader.config.embedding, loader.block(), Sizes::read(loader)?);
        let Sizes { heads, latent, key, rotated, value } = sizes;
        let queries = heads * (key + rotated);
        let (down, norm, up) = part.query_latent;
        let query = if loader.has_part(down.name) {
            let rank = loader.metadata.size("attention.q_lora_rank")?;
            Query::Latent(
                loader.linear(down, [rank, width], None)?,
                Norm::load(&norm, &[rank], loader)?,
                loader.linear(up, [queries, rank], None)?,
            )
        } else {
            Query::Direct(loader.linear(part.query, [queries, width], None)?)
        };
        let rope = Rope::load(&part.rope, loader)?;
        let scale = rope.magnitude(loader)?.powi(2) / ((key + rotated) as f32).sqrt();
        let shape =
            CacheShape { block, kv_heads: 1, key_length: latent + rotated, value_length: 0, window: None };
        Ok(LatentAttention {
            block,
            sizes,
            query,
            latent: loader.linear(part.latent, [latent + rotated, width], None)?,
            latent_norm: Norm::load(&part.latent_norm, &[latent], loader)?,
            key: loader.experts(part.key, [heads, latent, key])?,
            value: loader.experts(part.value, [heads, value, latent])?,
            rope,
            scale,
            output: loader.linear(part.output, [width, heads * value], None)?,
            cache: loader.new_cache(shape),
            drops_rows: false,
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let positions = &pass.positions[self.block];
        let Sizes { heads, latent, value, .. } = self.sizes;
        self.remember(pass, x, positions)?;
        let (first, rows) = if self.drops_rows && pass.last_row { (pass.n - 1, 1) } else { (0, pass.n) };
        let (x, positions) = (x.narrow(0, first, rows)?, positions.narrow(0, first, rows)?);
        let query = self.queries(pass, &x, &positions)?;
        let attention = rustorch_core::Attention {
            numerics: pass.numerics,
            batch_invariant: true,
            ..rustorch_core::Attention::new(self.scale)
        };
        let attended = pass.attend(self.cache, first, &query, attention, |op, args| {
            // The latent vectors are the values, too.
            let values = args[1].narrow(2, 0, latent)?;
            let args: Vec<&Tensor> =
                args.iter().enumerate().map(|(i, x)| if i == 2 { &values } else { x }).collect();
            Ok(apply(&op, &args)?.remove(0))
        })?;
        let attended = self.value.forward_each(pass, &attended.transpose(0, 1)?)?;
        self.output.forward(pass, &attended.reshape([rows, heads * value])?)
    }

    /// Puts latent vectors and rotated keys of `x: [n, embedding]` into the cache.
    fn remember(&self, pass: &ForwardPass<'_>, x: &Tensor, positions: &Tensor) -> Result<()> {
        let Sizes { latent, rotated, .. } = self.sizes;
        let both = self.latent.forward(pass, x)?;
        let normed = self.latent_norm.forward(&both.narrow(1, 0, latent)?, pass.weights)?;
        pass.remember(self.cache, KeysOrValues::Keys, 0, &normed.unsqueeze(0)?)?;
        let key = both.narrow(1, latent, rotated)?.unsqueeze(0)?;
        pass.remember(self.cache, KeysOrValues::Keys, latent, &self.rope.forward(pass, &key, positions)?)
    }

    /// Queries of latent vectors and rotated keys, `[heads, n, latent + rotated]`.
    fn queries(&self, pass: &ForwardPass<'_>, x: &Tensor, positions: &Tensor) -> Result<Tensor> {
        let Sizes { heads, key, rotated, .. } = self.sizes;
        let query = match &self.query {
            Query::Direct(query) => query.forward(pass, x)?,
            Query::Latent(down, norm, up) => {
                up.forward(pass, &norm.forward(&down.forward(pass, x)?, pass.weights)?)?
            }
        };
        let query = query.reshape([x.dims()[0], heads, key + rotated])?;
        let plain = self.key.forward_each(pass, &query.narrow(2, 0, key)?)?.transpose(0, 1)?;
        let turned = query.narrow(2, key, rotated)?.transpose(0, 1)?;
        Ok(Tensor::cat(&[plain, self.rope.forward(pass, &turned, positions)?], 2)?)
    }
}

//! Attention over the cache.

use super::LinearWeights;
use super::norm::Norm;
use super::rope::Rope;
use crate::Result;
use crate::arch::{self, Bias, HeadNorm, NormKind, NormSpan};
use crate::model::LayerConfig;
use crate::model::cache::CacheShape;
use crate::model::decoder::ForwardPass;
use crate::model::loader::Loader;
use crate::model::position::{KeysOrValues, reads_position};
use crate::model::weights::TensorId;
use rustorch_core::Op;
use rustorch_tensor::Tensor;
use rustorch_tensor::autograd::apply;

/// Grouped-query attention.
pub(in crate::model) struct Attention {
    /// The index of the block.
    block: usize,
    heads: usize,
    query: LinearWeights,
    query_norm: Option<HeadNormWeights>,
    /// What keys and values are made by; those of another block if it has none.
    keys_values: Option<KeysValues>,
    /// The place of keys and values in the cache.
    cache: usize,
    norm_after_rope: bool,
    rope: Option<Rope>,
    scale: f32,
    window: Option<usize>,
    chunk: Option<usize>,
    /// The largest absolute value of queries, keys and values.
    clamp: Option<f32>,
    /// How steeply scores decrease with the distance of the key, `[heads]`.
    alibi: Option<Tensor>,
    softcap: Option<f32>,
    sinks: Option<TensorId>,
    temperature: Option<Temperature>,
    /// Whether each head has a gate behind its query.
    gated: bool,
    output: LinearWeights,
    /// Whether all rows but the last are dropped as soon as their keys and values are in the cache, where nobody asks for their logits.
    pub(super) drops_rows: bool,
}

/// Projections to keys and values.
struct KeysValues {
    kv_heads: usize,
    key: LinearWeights,
    /// Those of the keys serve where there are none.
    value: Option<LinearWeights>,
    key_norm: Option<HeadNormWeights>,
    /// Values are divided by their root mean square, and this added to its square.
    value_norm_eps: Option<f64>,
}

struct HeadNormWeights {
    norm: Norm,
    span: NormSpan,
}

/// Queries at position `p` are scaled by `1 + scale · ln(1 + ⌊(p + offset) / floor⌋)`.
struct Temperature {
    scale: f32,
    floor: usize,
    offset: usize,
}

impl Attention {
    pub(super) fn load(part: &arch::Attention, loader: &mut Loader<'_>) -> Result<Attention> {
        let block = loader.block();
        let (width, sizes) = (loader.config.embedding, loader.config.layers[block].clone());
        let (heads, kv_heads) = (sizes.heads, sizes.kv_heads);
        let (key_length, value_length) = (sizes.key_length, sizes.value_length);
        if heads == 0 || kv_heads == 0 {
            let name = if heads == 0 { "attention.head_count" } else { "attention.head_count_kv" };
            return Err(loader
                .metadata
                .error(name, format!("gives block {block} no heads, but it has attention")));
        }
        let (query, keys_values, cache) = match sizes.keys_of {
            Some(owner) => {
                let cache = loader.cache_of(owner).ok_or_else(|| {
                    loader.metadata.error("attention.shared_kv_layers", format!("block {owner} keeps none"))
                })?;
                (loader.linear(part.query, [query_width(part, &sizes), width], None)?, None, cache)
            }
            None => {
                let (query, keys_values) = KeysValues::load(part, &sizes, loader)?;
                // ALiBi's distances are those of all keys, and encoders look to both sides.
                let window = sizes.window.filter(|_| loader.config.causal && part.alibi.is_none());
                let shape = CacheShape { block, kv_heads, key_length, value_length, window };
                (query, Some(keys_values), loader.new_cache(shape))
            }
        };
        let limit = |key: Option<&'static str>| -> Result<Option<f32>> {
            let value = key.map(|key| loader.metadata.find_f32(key)).transpose()?.flatten();
            Ok(value.filter(|&value| value != 0.0))
        };
        let (softcap, clamp) = (limit(part.softcap)?, limit(part.clamp)?);
        let alibi = match &part.alibi {
            Some(largest) => alibi_slopes(heads, loader.factor(largest)?)?,
            None => None,
        };
        Ok(Attention {
            block,
            heads,
            query,
            query_norm: HeadNormWeights::load(part.query_norm, heads, key_length, loader)?,
            keys_values,
            cache,
            norm_after_rope: part.norm_after_rope,
            rope: part.rope.map(|rope| Rope::load(&rope, loader)).transpose()?,
            scale: loader.factor(&part.scale)?,
            window: sizes.window,
            chunk: sizes.chunk,
            clamp,
            alibi,
            softcap,
            sinks: part.sinks.map(|sinks| loader.vector(sinks, &[heads])).transpose()?,
            temperature: match part.temperature {
                Some(temperature) => Temperature::read(temperature, loader)?,
                None => None,
            },
            gated: part.gated,
            output: loader.linear(part.output, [width, heads * value_length], None)?,
            drops_rows: false,
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let positions = &pass.positions[self.block];
        if let Some(keys_values) = &self.keys_values {
            self.remember(keys_values, pass, x, positions)?;
        }
        let (first, rows) = if self.drops_rows && pass.last_row { (pass.n - 1, 1) } else { (0, pass.n) };
        let (x, positions) = (x.narrow(0, first, rows)?, positions.narrow(0, first, rows)?);
        let (query, gate) = self.queries(pass, &x, &positions, first)?;
        let attention = rustorch_core::Attention {
            window: self.window.filter(|_| pass.causal),
            softcap: self.softcap,
            numerics: pass.numerics,
            batch_invariant: true,
            lse: self.sinks.is_some(),
            ..rustorch_core::Attention::new(self.scale)
        };
        let bias = match (&self.alibi, self.window) {
            (Some(slopes), _) => Some(pass.alibi(slopes, query.device())?.narrow(1, first, rows)?),
            (None, Some(window)) if !pass.causal => Some(pass.window(window, query.device())?),
            (None, _) => None,
        };
        let attended = pass.attend(self.cache, first, &query, attention, |op, args| match self.sinks {
            Some(sinks) => attention_with_sinks(op, args, &pass.weights[sinks]),
            None => self.attend(op, args, bias.as_ref()),
        })?;
        let value_length = attended.dims()[2];
        let attended = attended.transpose(0, 1)?.reshape([rows, self.heads * value_length])?;
        let attended = match gate {
            Some(gate) => attended.mul(&gate.sigmoid()?)?,
            None => attended,
        };
        self.output.forward(pass, &attended)
    }

    /// Puts keys and values of `x: [n, embedding]` into the cache.
    fn remember(
        &self,
        by: &KeysValues,
        pass: &ForwardPass<'_>,
        x: &Tensor,
        positions: &Tensor,
    ) -> Result<()> {
        let norm = by.key_norm.as_ref();
        let projected = self.clamped(by.key.forward(pass, x)?)?;
        let key = heads(&projected, by.kv_heads, norm.filter(|_| !self.norm_after_rope), pass)?;
        let value = match by.value {
            Some(value) => self.clamped(value.forward(pass, x)?)?,
            None => projected,
        };
        let value = heads(&value, by.kv_heads, None, pass)?;
        let key = match &self.rope {
            Some(rope) if self.norm_after_rope => normed(&rope.forward(pass, &key, positions)?, norm, pass)?,
            Some(rope) => rope.forward(pass, &key, positions)?,
            None => key,
        };
        pass.remember(self.cache, KeysOrValues::Keys, 0, &key)?;
        match by.value_norm_eps {
            Some(eps) => {
                let value = value.rms_norm([value.dims()[2]], None, eps)?;
                pass.remember(self.cache, KeysOrValues::Values, 0, &value)
            }
            None => pass.remember(self.cache, KeysOrValues::Values, 0, &value),
        }
    }

    /// The operation, or those that stand for it where there are chunks.
    fn attend(&self, op: Op, args: &[&Tensor], bias: Option<&Tensor>) -> Result<Tensor> {
        match (self.chunk, op) {
            (Some(_), Op::CachedAttention(_)) => Err(reads_position()),
            (Some(chunk), Op::Attention(causal)) => {
                chunked_attention([args[0], args[1], args[2]], &causal, chunk)
            }
            (_, op) => Ok(apply(&op, &args.iter().copied().chain(bias).collect::<Vec<_>>())?.remove(0)),
        }
    }

    /// Queries, keys or values within their limits, where they have any.
    fn clamped(&self, x: Tensor) -> Result<Tensor> {
        match self.clamp {
            Some(limit) => Ok(x.clamp(-limit, limit)?),
            None => Ok(x),
        }
    }

    /// Queries `[heads, n, length]` of `x: [n, embedding]`, the first of which is the new token `first`; and the gates of the results,
    /// `[n, heads · length]`, if there are any.
    fn queries(
        &self,
        pass: &ForwardPass<'_>,
        x: &Tensor,
        positions: &Tensor,
        first: usize,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let norm = self.query_norm.as_ref();
        let mut y = self.clamped(self.query.forward(pass, x)?)?;
        let mut gate = None;
        if self.gated {
            let (rows, width) = (y.dims()[0], y.dims()[1] / 2);
            let both = y.reshape([rows, self.heads, 2, width / self.heads])?;
            gate = Some(both.select(2, 1)?.reshape([rows, width])?);
            y = both.select(2, 0)?.reshape([rows, width])?;
        }
        let mut query = heads(&y, self.heads, norm.filter(|_| !self.norm_after_rope), pass)?;
        if let Some(rope) = &self.rope {
            query = rope.forward(pass, &query, positions)?;
        }
        if self.norm_after_rope {
            query = normed(&query, norm, pass)?;
        }
        if let Some(temperature) = &self.temperature {
            let first = pass.position.start()? + first;
            let factors = temperature.factors(first, x.dims()[0])?.to_device(query.device())?;
            query = query.mul(&factors)?;
        }
        Ok((query, gate))
    }
}

/// The slopes of ALiBi (Press et al. 2021), `[heads]`: powers of `2^(-largest / n)` for the greatest power of two `n` of heads, and for those
/// beyond it the odd powers of its root. None if `largest` is 0.
fn alibi_slopes(heads: usize, largest: f32) -> Result<Option<Tensor>> {
    if largest == 0.0 {
        return Ok(None);
    }
    let n = 1 << heads.ilog2();
    let (first, between) = ((-largest / n as f32).exp2(), (-(largest / 2.0) / n as f32).exp2());
    let slope = |head: usize| match head.checked_sub(n) {
        None => first.powi(head as i32 + 1),
        Some(beyond) => between.powi(2 * beyond as i32 + 1),
    };
    let slopes: Vec<f32> = (0..heads).map(slope).collect();
    Ok(Some(Tensor::from_slice(&slopes, [heads])?))
}

/// Causal attention of which each query sees the keys of its own chunk: of consecutive chunks of so many positions the one that it is in.
fn chunked_attention(
    [query, keys, values]: [&Tensor; 3],
    causal: &rustorch_core::Attention,
    chunk: usize,
) -> Result<Tensor> {
    let mut position = causal.causal.unwrap_or(0);
    let (mut results, mut rest) = (Vec::new(), query.clone());
    loop {
        let begin = position / chunk * chunk;
        let rows = rest.dims()[1].min(begin + chunk - position);
        let visible = position + rows - begin;
        let (keys, values) = (keys.narrow(1, begin, visible)?, values.narrow(1, begin, visible)?);
        let causal = rustorch_core::Attention { causal: Some(position - begin), ..causal.clone() };
        results.push(Tensor::attention(&rest.narrow(1, 0, rows)?, &keys, &values, None, &causal)?);
        position += rows;
        match rest.dims()[1] - rows {
            0 => break,
            left => rest = rest.narrow(1, rows, left)?,
        }
    }
    match &results[..] {
        [only] => Ok(only.clone()),
        _ => Ok(Tensor::cat(&results, 1)?),
    }
}

/// Attention with a score of each head, `sinks: [heads]`, that takes part in the softmax and has no value: the share of the keys is
/// `Σ exp(score) / (Σ exp(score) + exp(sink))`.
fn attention_with_sinks(op: Op, args: &[&Tensor], sinks: &Tensor) -> Result<Tensor> {
    let results = apply(&op, args)?;
    let (attended, lse) = (&results[0], &results[1]);
    let share = lse.sub(&sinks.unsqueeze(-1)?)?.sigmoid()?;
    Ok(attended.mul(&share.unsqueeze(-1)?)?)
}

/// `y: [n, heads · length]` as heads `[heads, n, length]`, normalised before if asked.
fn heads(y: &Tensor, heads: usize, norm: Option<&HeadNormWeights>, pass: &ForwardPass<'_>) -> Result<Tensor> {
    let (rows, width) = (y.dims()[0], y.dims()[1]);
    let split = |y: &Tensor| y.reshape([rows, heads, width / heads]);
    let y = match norm {
        Some(HeadNormWeights { norm, span: NormSpan::AllHeads }) => split(&norm.forward(y, pass.weights)?)?,
        Some(HeadNormWeights { norm, .. }) => norm.forward(&split(y)?, pass.weights)?,
        None => split(y)?,
    };
    Ok(y.transpose(0, 1)?)
}

/// The norm of each of heads `[heads, n, length]`.
fn normed(x: &Tensor, norm: Option<&HeadNormWeights>, pass: &ForwardPass<'_>) -> Result<Tensor> {
    norm.map_or(Ok(x.clone()), |norm| norm.norm.forward(x, pass.weights))
}

/// The width of the projection to queries.
fn query_width(part: &arch::Attention, sizes: &LayerConfig) -> usize {
    sizes.heads * sizes.key_length * if part.gated { 2 } else { 1 }
}

impl KeysValues {
    /// With the projection to queries, which may be one with those to keys and values.
    fn load(
        part: &arch::Attention,
        sizes: &LayerConfig,
        loader: &mut Loader<'_>,
    ) -> Result<(LinearWeights, KeysValues)> {
        let LayerConfig { kv_heads, key_length, value_length, .. } = *sizes;
        let mut layers = vec![(part.query, query_width(part, sizes)), (part.key, kv_heads * key_length)];
        let keys_are_values =
            part.value_norm && !loader.has_part(part.fused.name) && !loader.has_part(part.value.name);
        if !keys_are_values {
            layers.push((part.value, kv_heads * value_length));
        }
        let projections = loader.linears(part.fused, &layers, loader.config.embedding)?;
        let value_norm_eps = part.value_norm.then(|| loader.metadata.epsilon(NormKind::Rms));
        let keys_values = KeysValues {
            kv_heads,
            key: projections[1],
            value: projections.get(2).copied(),
            key_norm: HeadNormWeights::load(part.key_norm, kv_heads, key_length, loader)?,
            value_norm_eps: value_norm_eps.transpose()?,
        };
        Ok((projections[0], keys_values))
    }
}

impl HeadNormWeights {
    fn load(
        norm: Option<HeadNorm>,
        heads: usize,
        length: usize,
        loader: &mut Loader<'_>,
    ) -> Result<Option<HeadNormWeights>> {
        let Some(HeadNorm { kind, tensor, span, optional }) = norm else { return Ok(None) };
        if optional && !tensor.is_some_and(|tensor| loader.has_part(tensor)) {
            return Ok(None);
        }
        let shape: &[usize] = match span {
            NormSpan::Head => &[length],
            NormSpan::EachHead => &[heads, length],
            NormSpan::AllHeads => &[heads * length],
        };
        let norm = arch::Norm { kind, tensor, bias: Bias::Optional };
        Ok(Some(HeadNormWeights { norm: Norm::load(&norm, shape, loader)?, span }))
    }
}

impl Temperature {
    fn read(temperature: arch::Temperature, loader: &Loader<'_>) -> Result<Option<Temperature>> {
        if let arch::Temperature::Fixed { scale, floor } = temperature {
            return Ok(Some(Temperature { scale, floor, offset: 1 }));
        }
        let scale = loader.metadata.find_f32("attention.temperature_scale")?.filter(|&scale| scale != 0.0);
        let original = loader.metadata.find_size("rope.scaling.original_context_length")?;
        let floor = original.unwrap_or(loader.config.context);
        Ok(scale.map(|scale| Temperature { scale, floor, offset: 0 }))
    }

    /// The factors of `n` positions, `[n, 1]`.
    fn factors(&self, first: usize, n: usize) -> Result<Tensor> {
        let factor =
            |position: usize| (((position + self.offset) / self.floor + 1) as f32).ln() * self.scale + 1.0;
        let factors: Vec<f32> = (first..first + n).map(factor).collect();
        Ok(Tensor::from_slice(&factors, [n, 1])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a mask of the definition: key `j` is seen by query `i` where `j ≤ i` and both are in one chunk.
    #[test]
    fn chunks_are_those_of_the_mask() {
        let [heads, length, chunk] = [2, 4, 5];
        for (first, rows) in [(0, 13), (3, 4), (4, 1), (5, 1), (9, 8)] {
            let keys = first + rows;
            let values = |n: usize, salt: usize| {
                let value = |i: usize| ((i * 37 + salt * 11) % 23) as f32 / 11.0 - 1.0;
                let values: Vec<f32> = (0..heads * n * length).map(value).collect();
                Tensor::from_slice(&values, [heads, n, length]).unwrap()
            };
            let [q, k, v] = [values(rows, 1), values(keys, 2), values(keys, 3)];
            let causal =
                rustorch_core::Attention { causal: Some(first), ..rustorch_core::Attention::new(0.5) };
            let seen = |i: usize, j: usize| j <= i && j / chunk == i / chunk;
            let mask: Vec<bool> = (first..keys).flat_map(|i| (0..keys).map(move |j| seen(i, j))).collect();
            let mask = Tensor::from_slice(&mask, [rows, keys]).unwrap();
            let expected = Tensor::attention(&q, &k, &v, Some(&mask), &causal).unwrap().to_vec::<f32>();
            let found = chunked_attention([&q, &k, &v], &causal, chunk).unwrap().to_vec::<f32>();
            let (found, expected) = (found.unwrap(), expected.unwrap());
            let near = found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6);
            assert!(near, "{rows} rows from {first}: {found:?} instead of {expected:?}");
        }
    }
}

//! Weights, as tensors over the file's bytes.

use super::ModelConfig;
use crate::arch::{Architecture, Attention, Bias, Experts, FeedForward, Gated, Linear};
use crate::{Error, Result};
use rustorch_core::{Buffer, DType};
use rustorch_formats::gguf;
use rustorch_tensor::Tensor;
use std::collections::HashSet;
use std::sync::Arc;

/// All weights of a model.
pub struct Weights {
    /// `[vocabulary, embedding]`.
    pub embedding: Tensor,
    /// The blocks, first to last.
    pub blocks: Vec<BlockWeights>,
    /// `[embedding]`.
    pub output_norm: Tensor,
    /// `[vocabulary, embedding]`; the embedding table where the file ties them.
    pub output: LinearWeights,
}

/// The weights of one block.
pub struct BlockWeights {
    /// `[embedding]`.
    pub attention_norm: Tensor,
    /// `[heads · key_length, embedding]`.
    pub query: LinearWeights,
    /// `[kv_heads · key_length, embedding]`.
    pub key: LinearWeights,
    /// `[kv_heads · value_length, embedding]`.
    pub value: LinearWeights,
    /// `[key_length]`.
    pub query_norm: Option<Tensor>,
    /// `[key_length]`.
    pub key_norm: Option<Tensor>,
    /// Divisors of the rotation frequencies, `[rotated / 2]`: blocks share one tensor.
    pub rope_factors: Option<Tensor>,
    /// `[embedding, heads · value_length]`.
    pub output: LinearWeights,
    /// `[embedding]`.
    pub feed_forward_norm: Tensor,
    /// The feed-forward network or networks.
    pub feed_forward: FeedForwardWeights,
}

/// A linear layer's weights.
#[derive(Clone)]
pub struct LinearWeights {
    /// `[out, in]`; of experts `[experts, out, in]`.
    pub weight: Tensor,
    /// A factor of the matmul, `[1]`; of experts `[experts]`. Formats with a small range store it as a tensor of its own.
    pub scale: Option<Tensor>,
    /// Added to the matmul, `[out]`, `f32`. Experts have none.
    pub bias: Option<Tensor>,
}

/// The feed-forward half of a block.
#[derive(Clone)]
pub enum FeedForwardWeights {
    /// One network for all tokens.
    Dense(Dense),
    /// A network chosen per token.
    Experts(ExpertWeights),
}

/// A gated feed-forward network (GLU).
#[derive(Clone)]
pub struct Dense {
    /// `[ff, embedding]`.
    pub gate: LinearWeights,
    /// `[ff, embedding]`.
    pub up: LinearWeights,
    /// `[embedding, ff]`.
    pub down: LinearWeights,
}

/// Gated networks and their router.
#[derive(Clone)]
pub struct ExpertWeights {
    /// `[experts, embedding]`.
    pub router: Tensor,
    /// `[experts, ff, embedding]`.
    pub gate: LinearWeights,
    /// `[experts, ff, embedding]`.
    pub up: LinearWeights,
    /// `[experts, embedding, ff]`.
    pub down: LinearWeights,
    /// How many experts a token uses.
    pub used: usize,
    /// Whether the chosen experts' weights are scaled to sum to 1.
    pub normalize: bool,
    /// A factor of the chosen experts' weights after that.
    pub factor: f32,
}

struct Loader<'a> {
    file: &'a gguf::File,
    progress: &'a mut dyn FnMut(usize, usize),
    /// The names loaded so far.
    loaded: HashSet<String>,
}

impl Weights {
    pub(super) fn load(
        architecture: &Architecture,
        config: &ModelConfig,
        file: &gguf::File,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Weights> {
        let mut loader = Loader { file, progress, loaded: HashSet::new() };
        let (dim, vocabulary) = (config.embedding, config.vocabulary);
        let embedding = loader.tensor(architecture.embedding, &[vocabulary, dim])?;
        let mut blocks =
            (0..config.blocks).map(|i| loader.block(architecture, config, i)).collect::<Result<Vec<_>>>()?;
        let output_norm = loader.vector(architecture.output_norm, dim)?;
        let output = loader.output(architecture, config, &embedding)?;
        if let Some(name) = architecture.block.attention.rope_factors {
            let factors = loader.find(name, &[config.rope_dims / 2])?;
            blocks.iter_mut().for_each(|block| block.rope_factors.clone_from(&factors));
        }
        loader.check_all_used(architecture)?;
        Ok(Weights { embedding, blocks, output_norm, output })
    }
}

impl Loader<'_> {
    fn block(
        &mut self,
        architecture: &Architecture,
        config: &ModelConfig,
        index: usize,
    ) -> Result<BlockWeights> {
        let Attention { norm, query, key, value, query_norm, key_norm, output, .. } =
            architecture.block.attention;
        let name = |part: &str| format!("blk.{index}.{part}");
        let dim = config.embedding;
        let (heads, kv_heads) = (config.heads[index], config.kv_heads[index]);
        let head_norm = |loader: &mut Self, part: Option<&str>| {
            part.map(|part| loader.vector(&name(part), config.key_length)).transpose()
        };
        Ok(BlockWeights {
            attention_norm: self.vector(&name(norm), dim)?,
            query: self.linear(index, query, heads * config.key_length, dim)?,
            key: self.linear(index, key, kv_heads * config.key_length, dim)?,
            value: self.linear(index, value, kv_heads * config.value_length, dim)?,
            query_norm: head_norm(self, query_norm)?,
            key_norm: head_norm(self, key_norm)?,
            // Known when all blocks are.
            rope_factors: None,
            output: self.linear(index, output, dim, heads * config.value_length)?,
            feed_forward_norm: self.vector(&name(architecture.block.feed_forward.norm), dim)?,
            feed_forward: self.feed_forward(&architecture.block.feed_forward, config, index)?,
        })
    }

    fn feed_forward(
        &mut self,
        part: &FeedForward,
        config: &ModelConfig,
        index: usize,
    ) -> Result<FeedForwardWeights> {
        let dim = config.embedding;
        match (config.experts, part.experts, part.dense) {
            (Some(counts), Some(Experts { router, gate, up, down, normalize }), _) => {
                let name = |part: &str| format!("blk.{index}.{part}");
                let (n, ff) = (counts.count, counts.feed_forward);
                Ok(FeedForwardWeights::Experts(ExpertWeights {
                    router: self.tensor(&name(router), &[n, dim])?,
                    gate: self.experts(&name(gate), [n, ff, dim])?,
                    up: self.experts(&name(up), [n, ff, dim])?,
                    down: self.experts(&name(down), [n, dim, ff])?,
                    used: counts.used,
                    normalize,
                    factor: counts.scale,
                }))
            }
            (_, _, Some(Gated { gate, up, down, scaled })) => {
                let ff = config.feed_forward[index];
                let mut linear = |layer, outputs, inputs| -> Result<LinearWeights> {
                    let weights = self.linear(index, layer, outputs, inputs)?;
                    Ok(LinearWeights { scale: weights.scale.filter(|_| scaled), ..weights })
                };
                Ok(FeedForwardWeights::Dense(Dense {
                    gate: linear(gate, ff, dim)?,
                    up: linear(up, ff, dim)?,
                    down: linear(down, dim, ff)?,
                }))
            }
            // `ModelConfig::read` refuses a file whose kind of feed-forward the architecture lacks.
            _ => Err(Error::Request("the architecture has no feed-forward network for this file".into())),
        }
    }

    fn linear(
        &mut self,
        index: usize,
        layer: Linear,
        outputs: usize,
        inputs: usize,
    ) -> Result<LinearWeights> {
        let name = format!("blk.{index}.{}", layer.name);
        let weight = self.tensor(&name, &[outputs, inputs])?;
        let scale = self.scale(&name, 1)?;
        let bias = self.bias(&name, layer.bias, outputs)?;
        Ok(LinearWeights { weight, scale, bias })
    }

    fn experts(&mut self, name: &str, shape: [usize; 3]) -> Result<LinearWeights> {
        let weight = self.tensor(name, &shape)?;
        Ok(LinearWeights { weight, scale: self.scale(name, shape[0])?, bias: None })
    }

    fn output(
        &mut self,
        architecture: &Architecture,
        config: &ModelConfig,
        table: &Tensor,
    ) -> Result<LinearWeights> {
        let Linear { name, bias } = architecture.output;
        let found = self.find(name, &[config.vocabulary, config.embedding])?;
        Ok(LinearWeights {
            weight: found.unwrap_or_else(|| table.clone()),
            scale: self.scale(name, 1)?,
            bias: self.bias(name, bias, config.vocabulary)?,
        })
    }

    fn bias(&mut self, name: &str, bias: Bias, len: usize) -> Result<Option<Tensor>> {
        let name = format!("{name}.bias");
        let wanted = match bias {
            Bias::None => false,
            Bias::Required => true,
            Bias::Optional => self.file.find_tensor(&name).is_some(),
        };
        wanted.then(|| self.load(&name, &[len])?.to_dtype(DType::F32).map_err(Error::from)).transpose()
    }

    /// The factor of a layer's matmul, where the file has one.
    fn scale(&mut self, name: &str, len: usize) -> Result<Option<Tensor>> {
        let name = format!("{name}.scale");
        let found = self.file.find_tensor(&name).is_some();
        found.then(|| self.load(&name, &[len])?.to_dtype(DType::F32).map_err(Error::from)).transpose()
    }

    /// Fails if the file has tensors that were not loaded: a model without them would be another one.
    fn check_all_used(&self, architecture: &Architecture) -> Result<()> {
        // The scale of a layer's input serves hardware that quantizes activations by it, a classifier serves ranking.
        let needless = |name: &str| name.ends_with(".input_scale") || name.starts_with("cls.");
        let unused = |name: &&str| !self.loaded.contains(*name) && !needless(name);
        match self.file.tensors().map(|t| t.name()).find(unused) {
            None => Ok(()),
            Some(name) => Err(Error::UnknownTensor { name: name.into(), architecture: architecture.name }),
        }
    }

    /// A vector of norm weights, in `f32`.
    fn vector(&mut self, name: &str, len: usize) -> Result<Tensor> {
        Ok(self.tensor(name, &[len])?.to_dtype(DType::F32)?)
    }

    fn find(&mut self, name: &str, shape: &[usize]) -> Result<Option<Tensor>> {
        let name = format!("{name}.weight");
        self.file.find_tensor(&name).is_some().then(|| self.load(&name, shape)).transpose()
    }

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Tensor> {
        self.load(&format!("{name}.weight"), shape)
    }

    fn load(&mut self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let tensor = self.file.tensor(name)?;
        if tensor.shape() != shape {
            return Err(Error::TensorShape {
                name: name.into(),
                found: tensor.shape().into(),
                expected: shape.into(),
            });
        }
        self.loaded.insert(name.to_owned());
        (self.progress)(self.loaded.len(), self.file.tensors().len());
        // SAFETY: `SharedBytes` holds its owner, which neither moves nor writes its bytes, by a reference count.
        let buffer = unsafe { Buffer::shared(Arc::new(tensor.shared_bytes())) };
        Ok(Tensor::from_buffer(buffer, tensor.dtype(), shape, 0)?)
    }
}

//! A model: its hyperparameters, its weights, and the decoder that runs them.

mod cache;
mod decoder;
mod hyper;
mod offload;
mod weights;

pub use cache::KvCache;
pub use hyper::{ExpertCounts, Hyperparameters, RopeScaling};
pub use offload::{Offload, Offloaded};
pub use weights::{BlockWeights, Dense, ExpertWeights, FeedForwardWeights, LinearWeights, Weights};

use crate::arch::Architecture;
use crate::{Error, Result};
use rustorch_core::DType;
use rustorch_formats::gguf;
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::Tensor;

/// The network of a language model: token ids in, logits out.
pub struct Model {
    architecture: &'static Architecture,
    hyper: Hyperparameters,
    weights: Weights,
}

impl Model {
    /// Loads the network from a file. Weights stay in the file's mapping, in the dtypes that they have there.
    ///
    /// `progress` is called with the number of tensors loaded and their total.
    ///
    /// # Errors
    /// If the architecture is unknown, metadata is missing or senseless, or a tensor is missing or of the wrong shape.
    pub fn load(file: &gguf::File, progress: &mut dyn FnMut(usize, usize)) -> Result<Model> {
        let name = file.metadata().get::<&str>("general.architecture")?;
        let architecture =
            Architecture::find(name).ok_or_else(|| Error::Architecture { name: name.to_owned() })?;
        let hyper = Hyperparameters::read(architecture, file)?;
        let weights = Weights::load(architecture, &hyper, file, progress)?;
        Ok(Model { architecture, hyper, weights })
    }

    /// The architecture's description.
    pub fn architecture(&self) -> &'static Architecture {
        self.architecture
    }

    /// The hyperparameters.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.hyper
    }

    /// The weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// An empty cache for `capacity` positions: in `f32` under an executor that
    /// [computes in `f32`](HybridExecutor::with_compute), else in `f16`.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn new_cache(&self, capacity: usize) -> Result<KvCache> {
        let dtype = HybridExecutor::with_current(HybridExecutor::compute).unwrap_or(DType::F16);
        let devices = self.weights.blocks.iter().map(|block| offload::home(&block.attention_norm));
        KvCache::new(&self.hyper, capacity, dtype, devices)
    }

    /// Runs `tokens` after what the cache holds, adds them to the cache, and returns the logits `[rows, vocabulary]` in
    /// `f32`: after every token, or after the last alone.
    ///
    /// Products follow the current executor's wish, attention the cache's dtype: a cache belongs under the executor, or one
    /// with the same [`compute`](HybridExecutor::compute), that it was made under.
    ///
    /// Every row depends only on the tokens before it: feeding them in one call, in pieces or one by one gives the same
    /// numbers.
    ///
    /// # Errors
    /// If there is no token, an id is out of range, or the cache is too small; the cache is then as before. Also if an
    /// operation fails.
    pub fn forward(&self, tokens: &[u32], cache: &mut KvCache, all_rows: bool) -> Result<Tensor> {
        decoder::forward(self, tokens, cache, all_rows)
    }
}

//! A model: its configuration, its weights, and the decoder that runs them.

mod cache;
mod captured;
mod config;
mod decoder;
mod loader;
mod modules;
mod observer;
mod offload;
mod pooling;
mod position;
mod weights;

pub use cache::{Checkpoints, KvCache};
pub use captured::Decoding;
pub use config::{ExpertCounts, LayerConfig, ModelConfig};
pub use offload::{Offload, Offloaded};
pub use pooling::Pooling;
pub use weights::{Stage, Weight, Weights};

pub(crate) use decoder::Wanted;
pub(crate) use observer::{LinearInput, LinearObserver, Matrices};

use crate::arch::Architecture;
use crate::{Error, Result};
use cache::CacheLayout;
use decoder::Decoder;
use loader::Loader;
use pooling::PoolingHead;

use rustorch_core::{DType, Numerics};
use rustorch_formats::gguf;
use rustorch_tensor::{Program, Tensor};
use std::sync::Arc;

/// The most tokens that are added to a cache with windows at once, where nothing else is said.
const BATCH: usize = 512;

/// The transformer of a language model: token ids in, logits out.
pub struct Model {
    architecture: &'static Architecture,
    config: ModelConfig,
    decoder: Decoder,
    pooling_head: PoolingHead,
    weights: Weights,
    /// What it keeps of the tokens so far.
    cache_layout: CacheLayout,
    numerics: Numerics,
    /// Whether tokens are decoded by the modules, one operation after another, and not by a captured graph.
    is_eager: bool,
    /// Another one for each way in which it computes: what was captured of it is right for one.
    version: Arc<()>,
}

impl Model {
    /// Loads the model from a file. Weights stay in the file's bytes, read or mapped, in the dtypes that they have there.
    ///
    /// `progress` is called with the number of tensors loaded and their total.
    ///
    /// # Errors
    /// If the architecture is unknown, metadata is missing or senseless, or a tensor is missing or of the wrong shape.
    pub fn load(file: &gguf::File, progress: &mut dyn FnMut(usize, usize)) -> Result<Model> {
        let name = file.metadata().get::<&str>("general.architecture")?;
        let unknown = || {
            let nearest = Architecture::nearest(file.tensors().map(|tensor| tensor.name()));
            Error::Architecture { name: name.to_owned(), nearest }
        };
        let architecture = Architecture::find(name).ok_or_else(unknown)?;
        Model::load_as(architecture, file, progress)
    }

    /// As [`load`](Self::load), but as a model of this architecture, which need not be in [`Architecture::ALL`]. Metadata keys begin with its name.
    ///
    /// # Errors
    /// As there.
    pub fn load_as(
        architecture: &'static Architecture,
        file: &gguf::File,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Model> {
        let config = ModelConfig::read(architecture, file)?;
        let mut loader = Loader::new(architecture, &config, file, progress);
        let decoder = Decoder::load(architecture, &config, &mut loader)?;
        let pooling_head = PoolingHead::load(architecture.ranking, &mut loader)?;
        let (weights, cache_layout) = loader.finish()?;
        Ok(Model {
            architecture,
            config,
            decoder,
            pooling_head,
            weights,
            cache_layout,
            numerics: Numerics::default(),
            is_eager: false,
            version: Arc::default(),
        })
    }

    /// The architecture's description.
    pub fn architecture(&self) -> &'static Architecture {
        self.architecture
    }

    /// The configuration.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// How matmuls with weights and attention over the cache round; [`Numerics::Ggml`] unless
    /// [set](Self::set_numerics) otherwise.
    pub fn numerics(&self) -> Numerics {
        self.numerics
    }

    /// Sets how matmuls with weights and attention over the cache round. To be called before
    /// [`offload`](Self::offload), which asks the device for the matmuls, and [`new_cache`](Self::new_cache).
    pub fn set_numerics(&mut self, numerics: Numerics) {
        self.numerics = numerics;
        self.version = Arc::default();
    }

    /// Whether single tokens are decoded by the plain decoder alone, and not by a graph captured from it, where that is possible
    /// ([`KvCache::decoding`]): the same numbers, by code that can be read.
    pub fn set_eager(&mut self, is_eager: bool) {
        self.is_eager = is_eager;
    }

    /// Captures the decoding of so many tokens behind those of a cache as a program, which is right for every number of tokens that the cache then
    /// holds. Its inputs are `I64`: the ids `[tokens]`, their positions `[tokens]`, and for each cache of keys and values the row at which they
    /// enter it; its result are the logits of the last. The caller counts tokens: the program does not.
    ///
    /// # Errors
    /// If there is no token, or more than the cache takes at once; if the model is an encoder, reads the position in Rust or has a recurrent state: the error says what.
    pub fn capture(&self, cache: &KvCache, tokens: usize) -> Result<Program> {
        captured::capture(self, cache, tokens)
    }

    /// Captures the decoding of so many tokens at once, for each number in `tokens`, as programs for other runtimes. They share a cache of `f16` for `context` positions, whose
    /// keys and values are the states of each, zeros when they are captured. Their inputs are `I64`: the tokens' ids `[tokens]` and their
    /// positions `[tokens]`, which follow each other, from 0 on; their result are the logits of the last, `[1, vocabulary]`: NaN if it is behind the context.
    /// Roundings are those of [`numerics`](Self::numerics).
    ///
    /// # Errors
    /// Those of [`capture`](Self::capture), or if memory for the cache runs out.
    pub fn capture_static(&self, context: usize, tokens: &[usize]) -> Result<Vec<Program>> {
        captured::capture_static(self, context, tokens)
    }

    /// An empty cache for `capacity` positions: in `f16` with [`Numerics::Ggml`], in `f32` with [`Numerics::F32`].
    ///
    /// # Errors
    /// If memory runs out.
    pub fn new_cache(&self, capacity: usize) -> Result<KvCache> {
        self.new_cache_for(capacity, BATCH)
    }

    /// As [`new_cache`](Self::new_cache); blocks with a window keep so many tokens besides those in it, and longer inputs are decoded in batches of
    /// as many, unless `capacity` is smaller anyway.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn new_cache_for(&self, capacity: usize, batch: usize) -> Result<KvCache> {
        self.make_cache(self.cache_dtype(), capacity, batch)
    }

    /// The bytes that [`new_cache`](Self::new_cache) takes for so many positions, checkpoints not counted.
    pub fn cache_bytes(&self, capacity: usize) -> usize {
        self.cache_layout.bytes(capacity, BATCH, self.cache_dtype())
    }

    fn cache_dtype(&self) -> DType {
        match self.numerics {
            Numerics::Ggml | Numerics::Fast => DType::F16,
            Numerics::F32 => DType::F32,
        }
    }

    /// An empty cache for `capacity` positions whose keys and values have this dtype, `f16` or `f32`.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn new_cache_of(&self, dtype: DType, capacity: usize) -> Result<KvCache> {
        self.make_cache(dtype, capacity, BATCH)
    }

    fn make_cache(&self, dtype: DType, capacity: usize, batch: usize) -> Result<KvCache> {
        let device = |block| self.weights.device(Stage::Block(block));
        KvCache::new(&self.cache_layout, capacity, batch.max(1), dtype, device)
    }

    /// Runs `tokens` after what the cache holds, adds them to the cache, and returns the logits `[rows, vocabulary]` in
    /// `f32`: after every token, or after the last alone.
    ///
    /// Every row depends only on the tokens before it: feeding them in one call, in chunks or one by one gives the same
    /// values.
    ///
    /// # Errors
    /// If there is no token, an id is out of range, or the cache is too small; the cache is then as before. Also if an
    /// operation fails. Encoders have no logits; see [`hidden_states`](Self::hidden_states).
    pub fn forward(&self, tokens: &[u32], cache: &mut KvCache, all_rows: bool) -> Result<Tensor> {
        self.run(tokens, cache, if all_rows { Wanted::Logits } else { Wanted::LastLogits }, None)
    }

    /// The hidden states of all tokens of a text, `[rows, embedding]` in `f32`: what logits are computed from, or what an encoder gives.
    /// [`pool`](Self::pool) makes one vector of them, or scores.
    ///
    /// # Errors
    /// If there is no token, an id is out of range, memory runs out, or an operation fails.
    pub fn hidden_states(&self, tokens: &[u32]) -> Result<Tensor> {
        let mut cache = self.new_cache(tokens.len())?;
        self.run(tokens, &mut cache, Wanted::HiddenStates, None)
    }

    /// Runs `tokens` after what the cache holds, and shows `observer` the inputs of linear layers.
    pub(crate) fn run(
        &self,
        tokens: &[u32],
        cache: &mut KvCache,
        wanted: Wanted,
        observer: Option<&dyn LinearObserver>,
    ) -> Result<Tensor> {
        decoder::forward(self, tokens, cache, wanted, observer)
    }
}

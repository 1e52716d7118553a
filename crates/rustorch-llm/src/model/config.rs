//! A model's configuration, read from metadata.

use crate::arch::Architecture;
use crate::{Error, Result};
use rustorch_core::Yarn;
use rustorch_formats::gguf::{self, Metadata};

/// The hyperparameters that, with an [`Architecture`], define a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Tokens in the vocabulary: rows of the embedding table.
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub embedding: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Context length of the training.
    pub context: usize,
    /// Query heads of each block.
    pub heads: Vec<usize>,
    /// Key/value heads of each block.
    pub kv_heads: Vec<usize>,
    /// Elements of a head's queries and keys.
    pub key_length: usize,
    /// Elements of a head's values.
    pub value_length: usize,
    /// Inner width of each block's feed-forward network.
    pub feed_forward: Vec<usize>,
    /// The mixture of experts, if the file has one.
    pub experts: Option<ExpertCounts>,
    /// Added to the mean square in norms.
    pub norm_eps: f64,
    /// Elements of a head that are rotated.
    pub rope_dims: usize,
    /// Base of the rotation frequencies.
    pub rope_base: f32,
    /// How rotation extends beyond the training context.
    pub rope_scaling: RopeScaling,
    /// Factor of the attention scores.
    pub attention_scale: f32,
}

/// Sizes of a mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertCounts {
    /// How many there are.
    pub count: usize,
    /// How many each token uses.
    pub used: usize,
    /// Inner width of each.
    pub feed_forward: usize,
    /// Factor of the chosen experts' weights.
    pub scale: f32,
}

/// How rotary positions extend beyond the training context.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Positions divided by a factor.
    Linear(f32),
    /// YaRN by a factor.
    Yarn(f32, Yarn),
}

/// More than any real model; guards sizes that are multiplied later.
const MOST: usize = 1 << 24;

struct Reader<'a> {
    metadata: &'a Metadata,
    prefix: &'static str,
}

impl Reader<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    fn error(&self, name: &str, message: impl Into<String>) -> Error {
        Error::Hyperparameter { key: self.key(name), message: message.into() }
    }

    /// A size between 1 and [`MOST`].
    fn size(&self, name: &str) -> Result<usize> {
        let value = self.metadata.get::<u64>(&self.key(name))?;
        self.checked(name, value)
    }

    /// An optional size; converters also write 0 for "not given".
    fn find_size(&self, name: &str) -> Result<Option<usize>> {
        let value = self.metadata.find::<u64>(&self.key(name))?.filter(|&value| value != 0);
        value.map(|value| self.checked(name, value)).transpose()
    }

    fn checked(&self, name: &str, value: u64) -> Result<usize> {
        usize::try_from(value)
            .ok()
            .filter(|v| (1..=MOST).contains(v))
            .ok_or_else(|| self.error(name, format!("{value} is not between 1 and {MOST}")))
    }

    fn find_f32(&self, name: &str) -> Result<Option<f32>> {
        let value = self.metadata.find::<f32>(&self.key(name))?;
        match value {
            Some(v) if !v.is_finite() => Err(self.error(name, format!("{v} is not a finite number"))),
            other => Ok(other),
        }
    }

    /// One size for every block: a number for all, or an array of one each.
    fn per_block(&self, name: &str, blocks: usize) -> Result<Option<Vec<usize>>> {
        use gguf::Value;
        let key = self.key(name);
        let Some(Value::Array(array)) = self.metadata.value(&key) else {
            return Ok(self.find_size(name)?.map(|size| vec![size; blocks]));
        };
        let Some(values) = array.integers() else {
            return Err(self.error(name, "must be an integer or an array of integers"));
        };
        if values.len() != blocks {
            return Err(self.error(name, format!("has {} entries for {blocks} blocks", values.len())));
        }
        let sizes = values.map(|v| self.checked(name, u64::try_from(v).unwrap_or(0)));
        sizes.collect::<Result<Vec<_>>>().map(Some)
    }
}

impl ModelConfig {
    /// Reads and checks the hyperparameters of a file.
    ///
    /// # Errors
    /// If one is missing or senseless; the error names its key.
    pub fn read(architecture: &Architecture, file: &gguf::File) -> Result<ModelConfig> {
        let r = Reader { metadata: file.metadata(), prefix: architecture.name };
        let embedding = r.size("embedding_length")?;
        let blocks = r.size("block_count")?;
        if blocks > 4096 {
            return Err(r.error("block_count", format!("{blocks} is more than 4096")));
        }
        let heads = r
            .per_block("attention.head_count", blocks)?
            .ok_or_else(|| missing(&r, "attention.head_count"))?;
        let kv_heads = r.per_block("attention.head_count_kv", blocks)?.unwrap_or_else(|| heads.clone());
        for (&h, &kv) in heads.iter().zip(&kv_heads) {
            if !h.is_multiple_of(kv) {
                return Err(
                    r.error("attention.head_count_kv", format!("{kv} does not divide the {h} query heads"))
                );
            }
        }
        let head = match r.find_size("attention.key_length")? {
            Some(length) => length,
            None if embedding.is_multiple_of(heads[0]) => embedding / heads[0],
            None => {
                return Err(
                    r.error("attention.head_count", format!("{} does not divide {embedding}", heads[0]))
                );
            }
        };
        let rope_dims = r.find_size("rope.dimension_count")?.unwrap_or(head);
        if !rope_dims.is_multiple_of(2) || rope_dims > head {
            let message = format!("{rope_dims} must be even and at most the head's {head} elements");
            return Err(r.error("rope.dimension_count", message));
        }
        let norm_eps = r.metadata.get::<f32>(&r.key("attention.layer_norm_rms_epsilon"))?;
        if !(norm_eps.is_finite() && norm_eps >= 0.0) {
            return Err(
                r.error("attention.layer_norm_rms_epsilon", format!("{norm_eps} is not a small number ≥ 0"))
            );
        }
        let rope_base = r.find_f32("rope.freq_base")?.unwrap_or(10_000.0);
        if rope_base <= 0.0 {
            return Err(r.error("rope.freq_base", format!("{rope_base} is not positive")));
        }
        let context = r.size("context_length")?;
        let scale =
            r.find_f32("attention.scale")?.filter(|&s| s != 0.0).unwrap_or(1.0 / (head as f32).sqrt());
        let vocabulary = match file.find_tensor(&format!("{}.weight", architecture.embedding)) {
            Some(table) => table.shape().first().copied().unwrap_or(0),
            None => r.size("vocab_size")?,
        };
        let experts = read_experts(&r, architecture, blocks)?;
        let feed_forward = match r.per_block("feed_forward_length", blocks)? {
            Some(sizes) => sizes,
            None if experts.is_some() => vec![0; blocks],
            None => return Err(missing(&r, "feed_forward_length")),
        };
        Ok(ModelConfig {
            vocabulary,
            embedding,
            blocks,
            context,
            key_length: head,
            value_length: r.find_size("attention.value_length")?.unwrap_or(head),
            heads,
            kv_heads,
            feed_forward,
            experts,
            norm_eps: norm_eps.into(),
            rope_dims,
            rope_base,
            rope_scaling: read_scaling(&r, context)?,
            attention_scale: scale,
        })
    }
}

fn missing(r: &Reader<'_>, name: &str) -> Error {
    r.error(name, "is missing")
}

fn read_experts(r: &Reader<'_>, architecture: &Architecture, blocks: usize) -> Result<Option<ExpertCounts>> {
    let count = r.metadata.find::<u64>(&r.key("expert_count"))?.unwrap_or(0);
    let feed_forward = &architecture.block.feed_forward;
    if count == 0 {
        return match feed_forward.dense {
            Some(_) => Ok(None),
            None => {
                Err(r.error("expert_count", "is missing, and the architecture has no files without experts"))
            }
        };
    }
    if feed_forward.experts.is_none() {
        return Err(
            r.error("expert_count", format!("is {count}, but `{}` has no experts", architecture.name))
        );
    }
    let count = r.checked("expert_count", count)?;
    let used = r.size("expert_used_count")?;
    if used > count {
        return Err(r.error("expert_used_count", format!("{used} of {count} experts cannot be used")));
    }
    let feed_forward = match r.find_size("expert_feed_forward_length")? {
        Some(size) => size,
        None => r
            .per_block("feed_forward_length", blocks)?
            .and_then(|sizes| sizes.first().copied())
            .ok_or_else(|| missing(r, "feed_forward_length"))?,
    };
    let scale = r.find_f32("expert_weights_scale")?.filter(|&s| s != 0.0).unwrap_or(1.0);
    Ok(Some(ExpertCounts { count, used, feed_forward, scale }))
}

fn read_scaling(r: &Reader<'_>, context: usize) -> Result<RopeScaling> {
    let factor = match r.find_f32("rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => r.find_f32("rope.scale_linear")?,
    };
    // A factor of 0 is how some converters write "none".
    let factor = factor.filter(|&f| f != 0.0);
    if factor.is_some_and(|f| f < 0.0) {
        return Err(r.error("rope.scaling.factor", "must be positive"));
    }
    let kind = r.metadata.find::<&str>(&r.key("rope.scaling.type"))?.unwrap_or("linear");
    match (kind, factor) {
        ("none", _) | ("linear", None) => Ok(RopeScaling::None),
        ("linear", Some(factor)) => Ok(RopeScaling::Linear(factor)),
        ("yarn", factor) => {
            let yarn = Yarn {
                ext_factor: 1.0,
                attn_factor: r.find_f32("rope.scaling.attn_factor")?.unwrap_or(1.0),
                beta_fast: r.find_f32("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: r.find_f32("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                original_context: r.find_size("rope.scaling.original_context_length")?.unwrap_or(context),
            };
            Ok(RopeScaling::Yarn(factor.unwrap_or(1.0), yarn))
        }
        (other, _) => {
            Err(r
                .error("rope.scaling.type", format!("`{other}` is not supported; none, linear and yarn are")))
        }
    }
}

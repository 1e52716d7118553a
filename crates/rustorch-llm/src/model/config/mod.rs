//! A model's configuration, read from metadata.

mod reader;
mod rope;

pub(super) use reader::MetadataReader;
pub(super) use rope::rope_params;

use crate::Result;
use crate::arch::Architecture;
use rustorch_formats::gguf;

/// The sizes that, with an [`Architecture`], define a model.
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
    /// What may differ between blocks, of each.
    pub layers: Vec<LayerConfig>,
    /// The mixture of experts, if the file has one.
    pub experts: Option<ExpertCounts>,
}

/// The sizes of one block.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerConfig {
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Elements of a head's queries and keys.
    pub key_length: usize,
    /// Elements of a head's values.
    pub value_length: usize,
    /// Inner width of the dense feed-forward network; 0 if there is none.
    pub feed_forward: usize,
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

impl ModelConfig {
    /// Reads and checks the sizes of a file.
    ///
    /// # Errors
    /// If one is missing or senseless; the error names its key.
    pub fn read(architecture: &Architecture, file: &gguf::File) -> Result<ModelConfig> {
        let r = MetadataReader::new(file.metadata(), architecture.name);
        let blocks = r.size("block_count")?;
        if blocks > 4096 {
            return Err(r.error("block_count", format!("{blocks} is more than 4096")));
        }
        let embedding = r.size("embedding_length")?;
        let experts = read_experts(&r, architecture, blocks)?;
        let table =
            architecture.embedding_table().and_then(|name| file.find_tensor(&format!("{name}.weight")));
        let vocabulary = match table {
            Some(table) => table.shape().first().copied().unwrap_or(0),
            None => r.size("vocab_size")?,
        };
        Ok(ModelConfig {
            vocabulary,
            embedding,
            blocks,
            context: r.size("context_length")?,
            layers: read_layers(&r, blocks, embedding, experts.is_some())?,
            experts,
        })
    }
}

fn read_layers(
    r: &MetadataReader<'_>,
    blocks: usize,
    embedding: usize,
    has_experts: bool,
) -> Result<Vec<LayerConfig>> {
    let heads =
        r.per_block("attention.head_count", blocks)?.ok_or_else(|| r.missing("attention.head_count"))?;
    let kv_heads = r.per_block("attention.head_count_kv", blocks)?.unwrap_or_else(|| heads.clone());
    let key_length = match r.find_size("attention.key_length")? {
        Some(length) => length,
        None if embedding.is_multiple_of(heads[0]) => embedding / heads[0],
        None => {
            return Err(r.error("attention.head_count", format!("{} does not divide {embedding}", heads[0])));
        }
    };
    let value_length = r.find_size("attention.value_length")?.unwrap_or(key_length);
    let feed_forward = match r.per_block("feed_forward_length", blocks)? {
        Some(sizes) => sizes,
        None if has_experts => vec![0; blocks],
        None => return Err(r.missing("feed_forward_length")),
    };
    let sizes = heads.into_iter().zip(kv_heads).zip(feed_forward);
    sizes
        .map(|((heads, kv_heads), feed_forward)| {
            if !heads.is_multiple_of(kv_heads) {
                let message = format!("{kv_heads} does not divide the {heads} query heads");
                return Err(r.error("attention.head_count_kv", message));
            }
            Ok(LayerConfig { heads, kv_heads, key_length, value_length, feed_forward })
        })
        .collect()
}

fn read_experts(
    r: &MetadataReader<'_>,
    architecture: &Architecture,
    blocks: usize,
) -> Result<Option<ExpertCounts>> {
    let with_experts = architecture.kinds.iter().filter(|parts| Architecture::has_experts(parts)).count();
    let Some(count) = r.find_size("expert_count")? else {
        return match with_experts == architecture.kinds.len() {
            false => Ok(None),
            true => {
                Err(r.error("expert_count", "is missing, and the architecture has no files without experts"))
            }
        };
    };
    if with_experts == 0 {
        return Err(
            r.error("expert_count", format!("is {count}, but `{}` has no experts", architecture.name))
        );
    }
    let used = r.size("expert_used_count")?;
    if used > count {
        return Err(r.error("expert_used_count", format!("{used} of {count} experts cannot be used")));
    }
    let feed_forward = match r.find_size("expert_feed_forward_length")? {
        Some(size) => size,
        None => r
            .per_block("feed_forward_length", blocks)?
            .and_then(|sizes| sizes.first().copied())
            .ok_or_else(|| r.missing("feed_forward_length"))?,
    };
    let scale = r.find_f32("expert_weights_scale")?.filter(|&s| s != 0.0).unwrap_or(1.0);
    Ok(Some(ExpertCounts { count, used, feed_forward, scale }))
}

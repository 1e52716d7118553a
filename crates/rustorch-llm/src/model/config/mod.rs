//! A model's configuration, read from metadata.

mod reader;
mod rope;

pub(super) use reader::MetadataReader;
use reader::Pattern;
pub(super) use rope::rope_params;

use crate::Result;
use crate::arch::{Architecture, Scores};
use rustorch_formats::gguf;
use std::ops::Range;

/// The sizes that, with an [`Architecture`], define a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Tokens in the vocabulary: rows of the embedding table.
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub embedding: usize,
    /// Number of blocks, those that predict further tokens not counted.
    pub blocks: usize,
    /// Blocks behind them that predict the tokens after the next; they are not loaded.
    pub nextn_blocks: usize,
    /// Context length of the training.
    pub context: usize,
    /// Width of the embedding that each block has beside the residual stream; 0 if there is none.
    pub per_layer_embedding: usize,
    /// Whether tokens see only those before them.
    pub causal: bool,
    /// Whether attention rotates queries and keys, where the architecture leaves this to the file.
    pub rotates: bool,
    /// Whether attention and feed-forward network of a block both start from the residual stream before it, where the architecture
    /// leaves this to the file.
    pub parallel_residual: bool,
    /// What may differ between blocks, of each.
    pub layers: Vec<LayerConfig>,
    /// The mixture of experts, if the file has one.
    pub experts: Option<ExpertCounts>,
}

/// The sizes of one block.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerConfig {
    /// Query heads; 0 if there is no attention.
    pub heads: usize,
    /// Key/value heads; 0 if there is no attention.
    pub kv_heads: usize,
    /// Elements of a head's queries and keys.
    pub key_length: usize,
    /// Elements of a head's values.
    pub value_length: usize,
    /// Inner width of the dense feed-forward network; 0 if there is none.
    pub feed_forward: usize,
    /// How many of the last tokens attention sees; all if not given.
    pub window: Option<usize>,
    /// How many tokens the chunks have of which attention sees one; all tokens are one chunk if not given.
    pub chunk: Option<usize>,
    /// Whether the block is recurrent instead of having attention.
    pub recurrent: bool,
    /// The earlier block whose keys and values it uses instead of its own, if any.
    pub keys_of: Option<usize>,
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
    /// Groups of as many consecutive experts; 1 if there are none.
    pub groups: usize,
    /// How many groups each token uses.
    pub groups_used: usize,
    /// Factor of the chosen experts' weights.
    pub scale: f32,
    /// How scores become weights, where the file says so.
    pub scores: Option<Scores>,
    /// Whether the chosen experts' weights are scaled to sum to 1, where the file says so.
    pub normalize: Option<bool>,
}

impl ModelConfig {
    /// Reads and checks the sizes of a file.
    ///
    /// # Errors
    /// If one is missing or senseless; the error names its key.
    pub fn read(architecture: &Architecture, file: &gguf::File) -> Result<ModelConfig> {
        let r = MetadataReader::new(file.metadata(), architecture.name);
        let all_blocks = r.size("block_count")?;
        if all_blocks > 4096 {
            return Err(r.error("block_count", format!("{all_blocks} is more than 4096")));
        }
        let nextn_blocks = r.find_size("nextn_predict_layers")?.unwrap_or(0);
        let Some(blocks) = all_blocks.checked_sub(nextn_blocks).filter(|&blocks| blocks > 0) else {
            let message = format!("{nextn_blocks} of {all_blocks} blocks leave none");
            return Err(r.error("nextn_predict_layers", message));
        };
        let embedding = r.size("embedding_length")?;
        let experts = read_experts(&r, architecture, all_blocks)?;
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
            nextn_blocks,
            context: r.size("context_length")?,
            per_layer_embedding: r.find_size("embedding_length_per_layer_input")?.unwrap_or(0),
            causal: r.find_flag("attention.causal")?.unwrap_or(architecture.causal),
            rotates: r.find_flag("rope.scaling.finetuned")?.unwrap_or(true),
            parallel_residual: r.find_flag("use_parallel_residual")?.unwrap_or(false),
            layers: read_layers(&r, architecture, all_blocks, embedding)?,
            experts,
        })
    }
}

impl ModelConfig {
    /// The indices of the blocks that predict the tokens after the next.
    pub(crate) fn predicting_blocks(&self) -> Range<usize> {
        self.blocks..self.blocks + self.nextn_blocks
    }
}

fn read_layers(
    r: &MetadataReader<'_>,
    architecture: &Architecture,
    blocks: usize,
    embedding: usize,
) -> Result<Vec<LayerConfig>> {
    let heads = r.per_block("attention.head_count", blocks)?.unwrap_or_else(|| vec![0; blocks]);
    let kv_heads = r.per_block("attention.head_count_kv", blocks)?.unwrap_or_else(|| heads.clone());
    let most_heads = heads.iter().copied().max().unwrap_or(0);
    let key_length = match r.find_size("attention.key_length")? {
        Some(length) => length,
        None if most_heads == 0 => 0,
        None if embedding.is_multiple_of(most_heads) => embedding / most_heads,
        None => {
            return Err(r.error("attention.head_count", format!("{most_heads} does not divide {embedding}")));
        }
    };
    let value_length = r.find_size("attention.value_length")?.unwrap_or(key_length);
    let feed_forward = r.per_block("feed_forward_length", blocks)?.unwrap_or_else(|| vec![0; blocks]);
    let windowed_lengths = [
        r.find_size("attention.key_length_swa")?.unwrap_or(key_length),
        r.find_size("attention.value_length_swa")?.unwrap_or(value_length),
    ];
    refuse_what_no_part_computes(r, architecture)?;
    let windows = read_windows(r, architecture, blocks)?;
    let chunked = architecture.windows.is_some_and(|windows| windows.chunked);
    let owners = read_owners(r, &windows)?;
    let recurrent = read_recurrent(r, architecture, blocks)?;
    let sizes = heads.into_iter().zip(kv_heads).zip(feed_forward).zip(windows).zip(owners).zip(recurrent);
    sizes
        .map(|(((((heads, kv_heads), feed_forward), window), keys_of), recurrent)| {
            if kv_heads > 0 && !heads.is_multiple_of(kv_heads) {
                let message = format!("{kv_heads} does not divide the {heads} query heads");
                return Err(r.error("attention.head_count_kv", message));
            }
            let full_lengths = [key_length, value_length];
            let [key_length, value_length] = if window.is_some() { windowed_lengths } else { full_lengths };
            let (window, chunk) = if chunked { (None, window) } else { (window, None) };
            Ok(LayerConfig {
                heads,
                kv_heads,
                key_length,
                value_length,
                feed_forward,
                window,
                chunk,
                recurrent,
                keys_of,
            })
        })
        .collect()
}

/// Metadata that llama.cpp computes with in this architecture, and none of its parts here does.
fn refuse_what_no_part_computes(r: &MetadataReader<'_>, architecture: &Architecture) -> Result<()> {
    let scale = r.find_f32("attention.temperature_scale")?.unwrap_or(0.0);
    if scale != 0.0 && !architecture.features().contains(&"attention temperature") {
        let message = format!(
            "{scale} is not supported: the attention of {} has no temperature here",
            architecture.name
        );
        return Err(r.error("attention.temperature_scale", message));
    }
    let chunked = architecture.windows.is_some_and(|windows| windows.chunked);
    if chunked && r.find_i64("attention.sliding_window")? == Some(0) {
        return Err(r.error("attention.sliding_window", "0, attention without chunks, is not supported"));
    }
    Ok(())
}

/// The window of each block.
fn read_windows(
    r: &MetadataReader<'_>,
    architecture: &Architecture,
    blocks: usize,
) -> Result<Vec<Option<usize>>> {
    let Some(windows) = architecture.windows else { return Ok(vec![None; blocks]) };
    let Some(size) = r.find_size("attention.sliding_window")?.or(windows.size) else {
        return Ok(vec![None; blocks]);
    };
    let pattern = r.find_pattern("attention.sliding_window_pattern")?;
    let pattern = pattern.unwrap_or(Pattern::Period(windows.period));
    let pattern = match pattern {
        Pattern::Period(period) if windows.first_is_full => {
            Pattern::Flags((0..blocks).map(|block| block % period != 0).collect())
        }
        pattern => pattern,
    };
    Ok((0..blocks).map(|block| pattern.contains(block).then_some(size)).collect())
}

/// Which blocks are recurrent.
fn read_recurrent(r: &MetadataReader<'_>, architecture: &Architecture, blocks: usize) -> Result<Vec<bool>> {
    let Some(period) = architecture.recurrent else { return Ok(vec![false; blocks]) };
    let pattern = match r.find_pattern("attention.recurrent_layers")? {
        Some(pattern) => pattern,
        None => Pattern::Period(r.find_size("full_attention_interval")?.unwrap_or(period)),
    };
    Ok((0..blocks).map(|block| pattern.contains(block)).collect())
}

/// Of each block the one whose keys and values it uses, if not its own: the last blocks share those of the last block of their kind, with a
/// window or without, before them.
fn read_owners(r: &MetadataReader<'_>, windows: &[Option<usize>]) -> Result<Vec<Option<usize>>> {
    let shared = r.find_size("attention.shared_kv_layers")?.unwrap_or(0);
    let Some(own) = windows.len().checked_sub(shared) else {
        return Err(r.error("attention.shared_kv_layers", format!("{shared} is more than the blocks")));
    };
    let owner = |block: usize| {
        let like = |&before: &usize| windows[before].is_some() == windows[block].is_some();
        (0..own).rev().find(like).ok_or_else(|| {
            r.error("attention.shared_kv_layers", format!("block {block} has no keys and values to share"))
        })
    };
    (0..windows.len()).map(|block| (block >= own).then(|| owner(block)).transpose()).collect()
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
    let groups = r.find_size("expert_group_count")?.unwrap_or(1);
    let groups_used = r.find_size("expert_group_used_count")?.unwrap_or(groups);
    // A group's score is that of its two best experts.
    if groups > 1
        && (!count.is_multiple_of(groups) || count / groups < 2 || groups_used * (count / groups) < used)
        || groups_used > groups
    {
        let message =
            format!("{count} experts, {used} of {groups_used} of {groups} groups, cannot be chosen");
        return Err(r.error("expert_group_count", message));
    }
    let scores = match r.find_size("expert_gating_func")? {
        None => None,
        Some(1) => Some(Scores::Softmax),
        Some(2) => Some(Scores::Sigmoid),
        Some(3) => Some(Scores::SoftmaxOfChosen),
        Some(other) => {
            let message = format!(
                "{other} is not supported; 1 (softmax), 2 (sigmoid) and 3 (softmax of the chosen) are"
            );
            return Err(r.error("expert_gating_func", message));
        }
    };
    let normalize = r.find_flag("expert_weights_norm")?;
    Ok(Some(ExpertCounts { count, used, feed_forward, groups, groups_used, scale, scores, normalize }))
}

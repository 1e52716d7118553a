//! Architectures, each a page of data that one decoder runs.
//!
//! An architecture is lists of [`Part`]s: for the embedding, for each kind of block, for the output. Parts say which tensors there are, how
//! they are named, and which variant of a computation they stand for. Everything numeric (sizes, heads, frequencies) comes from the file's
//! metadata. An architecture made of known parts is a file with a constant, and its line in [`Architecture::ALL`].

mod common;
mod factor;
mod part;

mod llama;
mod qwen2;
mod qwen3;
mod qwen3moe;

pub use factor::Factor;
pub use part::{Attention, Bias, Experts, Linear, Mlp, Norm, Output, Part, Rope};

use crate::model::ModelConfig;

/// A decoder-only transformer.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// The name in `general.architecture`, and the prefix of the metadata keys.
    pub name: &'static str,
    /// The models that are converted under this name.
    pub models: &'static str,
    /// From token ids to the residual stream.
    pub embedding: &'static [Part],
    /// The kinds of blocks.
    pub kinds: &'static [&'static [Part]],
    /// Of which kind a block is: an index into `kinds`.
    pub kind: fn(&ModelConfig, usize) -> usize,
    /// From the residual stream to the logits.
    pub output: &'static [Part],
    /// Tensors that files have and the decoder has no use for.
    pub left_out: &'static [LeftOut],
}

/// Tensors of a file that are passed over on purpose.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut {
    /// Their names; a `*` at the beginning or the end stands for anything.
    pub tensors: &'static str,
    /// Why they are not needed.
    pub reason: &'static str,
}

impl Architecture {
    /// Every architecture that the decoder runs.
    pub const ALL: &'static [&'static Architecture] =
        &[&llama::LLAMA, &qwen2::QWEN2, &qwen3::QWEN3, &qwen3moe::QWEN3MOE];

    /// The architecture of this name.
    pub fn find(name: &str) -> Option<&'static Architecture> {
        Self::ALL.iter().copied().find(|a| a.name == name)
    }

    /// The parts of block `index`, first to last.
    pub fn block(&self, config: &ModelConfig, index: usize) -> &'static [Part] {
        self.kinds[(self.kind)(config, index)]
    }

    /// The name of the table that token ids choose rows of.
    pub fn embedding_table(&self) -> Option<&'static str> {
        self.embedding.iter().find_map(|part| match part {
            Part::Embedding(name) => Some(*name),
            _ => None,
        })
    }

    /// Whether a mixture of experts is among these parts.
    pub fn has_experts(parts: &[Part]) -> bool {
        parts.iter().any(|part| match part {
            Part::Experts(_) => true,
            Part::Parallel(branches) => branches.iter().any(|branch| Architecture::has_experts(branch)),
            _ => false,
        })
    }

    /// Why a tensor of this name is passed over, if it is.
    pub fn left_out(&self, tensor: &str) -> Option<&'static LeftOut> {
        self.left_out.iter().find(|left_out| left_out.matches(tensor))
    }
}

impl LeftOut {
    fn matches(&self, tensor: &str) -> bool {
        match (self.tensors.strip_prefix('*'), self.tensors.strip_suffix('*')) {
            (Some(end), _) => tensor.ends_with(end),
            (_, Some(start)) => tensor.starts_with(start),
            (None, None) => tensor == self.tensors,
        }
    }
}

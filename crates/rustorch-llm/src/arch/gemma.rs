//! Gemma: GeGLU, and embeddings scaled by the root of their width.

use super::common::{ATTENTION, DECODER, GEGLU, pre_norm};
use super::{Architecture, Factor, Part};

pub(super) const GEMMA: Architecture = Architecture {
    name: "gemma",
    models: "Gemma 1",
    embedding: GEMMA_EMBEDDING,
    kinds: &[&pre_norm(ATTENTION, Part::Mlp(GEGLU))],
    ..DECODER
};

/// Embeddings of all generations.
pub(super) const GEMMA_EMBEDDING: &[Part] = &[
    Part::Embedding("token_embd"),
    Part::Scale(Factor::computed(|config, _| (config.embedding as f32).sqrt())),
];

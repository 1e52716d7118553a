//! BLOOM: ALiBi instead of rotations, and a norm of the embeddings.

use super::common::{ATTENTION, DECODER, GELU, LAYER_NORM_OUTPUT, pre_layer_norm};
use super::{Architecture, Attention, Factor, Part};

pub(super) const BLOOM: Architecture = Architecture {
    name: "bloom",
    models: "BLOOM, BLOOMZ",
    embedding: &[Part::Embedding("token_embd"), Part::biased_layer_norm("token_embd_norm")],
    kinds: &[&pre_layer_norm(Attention { rope: None, alibi: Some(ALIBI), ..ATTENTION }, Part::Mlp(GELU))],
    output: LAYER_NORM_OUTPUT,
    ..DECODER
};

/// The usual slopes.
pub(super) const ALIBI: Factor = Factor::computed(|_, _| 8.0);

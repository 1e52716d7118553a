//! Qwen 3 (dense): queries and keys normalised in each head. Its own files have no biases; those of kin may.

use super::common::{ATTENTION, DECODER, SWIGLU};
use super::{Architecture, Attention, Norm, Part};

pub(super) const QWEN3: Architecture = Architecture {
    name: "qwen3",
    models: "Qwen 3",
    kinds: &[&[
        Part::rms("attn_norm"),
        Part::Attention(QWEN3_ATTENTION),
        Part::Add,
        Part::rms("ffn_norm"),
        Part::Mlp(SWIGLU),
        Part::Add,
    ]],
    ..DECODER
};

/// Shared with the mixture-of-experts variant.
pub(super) const QWEN3_ATTENTION: Attention = Attention {
    query_norm: Some(Norm::rms("attn_q_norm")),
    key_norm: Some(Norm::rms("attn_k_norm")),
    ..ATTENTION
};

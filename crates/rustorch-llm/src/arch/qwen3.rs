//! Qwen 3 (dense): queries and keys normalised in each head. Its own files have no biases; those of kin may.

use super::common::{ATTENTION, DECODER, SWIGLU, pre_norm};
use super::{Architecture, Attention, HeadNorm, Part, RankedRows, Ranking};

pub(super) const QWEN3: Architecture = Architecture {
    name: "qwen3",
    models: "Qwen 3",
    kinds: &[&pre_norm(QWEN3_ATTENTION, Part::Mlp(SWIGLU))],
    ranking: Ranking { rows: RankedRows::Last, gelu: false, softmax: true },
    ..DECODER
};

/// Shared with its variants.
pub(super) const QWEN3_ATTENTION: Attention = Attention {
    query_norm: Some(HeadNorm::rms("attn_q_norm")),
    key_norm: Some(HeadNorm::rms("attn_k_norm")),
    ..ATTENTION
};

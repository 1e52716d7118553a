//! Qwen 3 (dense): queries and keys normalised in each head. Its own files have no biases; those of kin may.

use super::{Architecture, Attention, Block, FeedForward, Linear, SWIGLU};
use rustorch_core::{GluOp, RopeStyle};

/// Shared with the mixture-of-experts variant.
pub(super) const ATTENTION: Attention = Attention {
    norm: "attn_norm",
    query: Linear::maybe_biased("attn_q"),
    key: Linear::maybe_biased("attn_k"),
    value: Linear::maybe_biased("attn_v"),
    query_norm: Some("attn_q_norm"),
    key_norm: Some("attn_k_norm"),
    rope: RopeStyle::Halves,
    rope_factors: None,
    output: Linear::plain("attn_output"),
};

pub(super) const QWEN3: Architecture = Architecture {
    name: "qwen3",
    embedding: "token_embd",
    block: Block {
        attention: ATTENTION,
        feed_forward: FeedForward { norm: "ffn_norm", gate: GluOp::Silu, dense: Some(SWIGLU), experts: None },
    },
    output_norm: "output_norm",
    output: Linear::maybe_biased("output"),
};

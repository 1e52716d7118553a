//! Qwen 1.5, 2 and 2.5 (dense): biased projections to queries, keys and values.

use super::{Architecture, Attention, Block, FeedForward, Gated, Linear, SWIGLU};
use rustorch_core::{GluOp, RopeStyle};

pub(super) const QWEN2: Architecture = Architecture {
    name: "qwen2",
    embedding: "token_embd",
    block: Block {
        attention: Attention {
            norm: "attn_norm",
            query: Linear::biased("attn_q"),
            key: Linear::biased("attn_k"),
            value: Linear::biased("attn_v"),
            query_norm: None,
            key_norm: None,
            rope: RopeStyle::Halves,
            rope_factors: None,
            output: Linear::plain("attn_output"),
        },
        feed_forward: FeedForward {
            norm: "ffn_norm",
            gate: GluOp::Silu,
            dense: Some(Gated { scaled: false, ..SWIGLU }),
            experts: None,
        },
    },
    output_norm: "output_norm",
    output: Linear::maybe_biased("output"),
};

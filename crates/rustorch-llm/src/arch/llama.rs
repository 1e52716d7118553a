//! LLaMA 1–3, Mistral, Mixtral, TinyLlama, SmolLM and everything else converted as `llama`.

use super::{Architecture, Attention, Block, FeedForward, Gated, Linear, SWIGLU_EXPERTS};
use rustorch_core::{GluOp, RopeStyle};

pub(super) const LLAMA: Architecture = Architecture {
    name: "llama",
    embedding: "token_embd",
    block: Block {
        attention: Attention {
            norm: "attn_norm",
            query: Linear::maybe_biased("attn_q"),
            key: Linear::maybe_biased("attn_k"),
            value: Linear::maybe_biased("attn_v"),
            query_norm: None,
            key_norm: None,
            rope: RopeStyle::Adjacent,
            rope_factors: Some("rope_freqs"),
            output: Linear::maybe_biased("attn_output"),
        },
        feed_forward: FeedForward {
            norm: "ffn_norm",
            gate: GluOp::Silu,
            dense: Some(Gated {
                gate: Linear::maybe_biased("ffn_gate"),
                up: Linear::maybe_biased("ffn_up"),
                down: Linear::maybe_biased("ffn_down"),
                scaled: true,
            }),
            experts: Some(SWIGLU_EXPERTS),
        },
    },
    output_norm: "output_norm",
    output: Linear::maybe_biased("output"),
};

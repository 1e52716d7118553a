//! LLaMA 1–3, Mistral, Mixtral, TinyLlama, SmolLM and everything else converted as `llama`.

use super::common::{ATTENTION, DECODER, SWIGLU, SWIGLU_EXPERTS, dense_or_experts};
use super::{Architecture, Attention, Linear, Mlp, Part, Rope};
use rustorch_core::RopeStyle;

pub(super) const LLAMA: Architecture = Architecture {
    name: "llama",
    models: "LLaMA 1–3, Mistral, Mixtral, TinyLlama, SmolLM",
    kinds: &[
        &[
            Part::rms("attn_norm"),
            Part::Attention(LLAMA_ATTENTION),
            Part::Add,
            Part::rms("ffn_norm"),
            Part::Mlp(LLAMA_MLP),
            Part::Add,
        ],
        &[
            Part::rms("attn_norm"),
            Part::Attention(LLAMA_ATTENTION),
            Part::Add,
            Part::rms("ffn_norm"),
            Part::Experts(SWIGLU_EXPERTS),
            Part::Add,
        ],
    ],
    kind: dense_or_experts,
    ..DECODER
};

/// Attention of LLaMA's kin.
pub(super) const LLAMA_ATTENTION: Attention = Attention {
    rope: Rope { style: RopeStyle::Adjacent, factors: Some("rope_freqs") },
    output: Linear::maybe_biased("attn_output"),
    ..ATTENTION
};

/// The dense network of LLaMA's kin.
pub(super) const LLAMA_MLP: Mlp = Mlp {
    gate: Linear::maybe_biased("ffn_gate"),
    up: Linear::maybe_biased("ffn_up"),
    down: Linear::maybe_biased("ffn_down"),
    ..SWIGLU
};

//! LLaMA 1–3, Mistral, Mixtral, TinyLlama, SmolLM and everything else converted as `llama`.

use super::common::{ATTENTION, DECODER, SWIGLU, SWIGLU_EXPERTS, dense_or_experts, pre_norm};
use super::{Architecture, Attention, Part, Rope};
use rustorch_core::RopeStyle;

pub(super) const LLAMA: Architecture = Architecture {
    name: "llama",
    models: "LLaMA 1–3, Mistral, Mixtral, TinyLlama, SmolLM",
    kinds: &[
        &pre_norm(LLAMA_ATTENTION, Part::Mlp(SWIGLU)),
        &pre_norm(LLAMA_ATTENTION, Part::Experts(SWIGLU_EXPERTS)),
    ],
    kind: dense_or_experts,
    ..DECODER
};

/// Attention of LLaMA's kin.
pub(super) const LLAMA_ATTENTION: Attention =
    Attention { rope: Some(Rope::new(RopeStyle::Adjacent).with_factors()), ..ATTENTION };

//! Qwen 3 with a mixture of experts in every block.

use super::common::{DECODER, SWIGLU_EXPERTS};
use super::qwen3::QWEN3_ATTENTION;
use super::{Architecture, Part};

pub(super) const QWEN3MOE: Architecture = Architecture {
    name: "qwen3moe",
    models: "Qwen 3 with a mixture of experts",
    kinds: &[&[
        Part::rms("attn_norm"),
        Part::Attention(QWEN3_ATTENTION),
        Part::Add,
        Part::rms("ffn_norm"),
        Part::Experts(SWIGLU_EXPERTS),
        Part::Add,
    ]],
    ..DECODER
};

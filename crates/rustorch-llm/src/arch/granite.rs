//! Granite 3 and 4 (dense): LLaMA with scales of embeddings, residuals, scores and logits.

use super::common::{DECODER, OUTPUT, SWIGLU};
use super::llama::LLAMA_ATTENTION;
use super::{Architecture, Factor, Part};

pub(super) const GRANITE: Architecture = Architecture {
    name: "granite",
    models: "Granite 3 and 4 (dense)",
    embedding: &[Part::Embedding("token_embd"), Part::Scale(Factor::metadata("embedding_scale"))],
    kinds: &[&scaled(Part::Attention(LLAMA_ATTENTION), Part::Mlp(SWIGLU))],
    output: &[
        Part::rms("output_norm"),
        Part::Output(OUTPUT),
        Part::Scale(Factor::metadata("logit_scale").inverted()),
    ],
    ..DECODER
};

/// A block whose branches are scaled before they are added.
pub(super) const fn scaled(mixer: Part, feed_forward: Part) -> [Part; 8] {
    [
        Part::rms("attn_norm"),
        mixer,
        Part::Scale(Factor::metadata("residual_scale")),
        Part::Add,
        Part::rms("ffn_norm"),
        feed_forward,
        Part::Scale(Factor::metadata("residual_scale")),
        Part::Add,
    ]
}

//! Gemma 2: norms behind attention and network, too, soft caps, and a window in every other block.

use super::common::{ATTENTION, DECODER, GEGLU, OUTPUT};
use super::factor::inverse_sqrt_head;
use super::gemma::GEMMA_EMBEDDING;
use super::{Architecture, Attention, Factor, Part, Windows};
use crate::model::ModelConfig;

pub(super) const GEMMA2: Architecture = Architecture {
    name: "gemma2",
    models: "Gemma 2",
    embedding: GEMMA_EMBEDDING,
    kinds: &[&sandwich(Attention {
        scale: Factor::computed(scale),
        softcap: Some("attn_logit_softcapping"),
        ..ATTENTION
    })],
    output: GEMMA_OUTPUT,
    windows: Some(Windows::new(Some(4096), 2)),
    ..DECODER
};

/// A block with norms before and behind attention and network.
pub(super) const fn sandwich(attention: Attention) -> [Part; 8] {
    [
        Part::rms("attn_norm"),
        Part::Attention(attention),
        Part::rms("post_attention_norm"),
        Part::Add,
        Part::rms("ffn_norm"),
        Part::Mlp(GEGLU),
        Part::rms("post_ffw_norm"),
        Part::Add,
    ]
}

/// Logits with a soft cap.
pub(super) const GEMMA_OUTPUT: &[Part] =
    &[Part::rms("output_norm"), Part::Output(OUTPUT), Part::SoftCap("final_logit_softcapping")];

/// 1/√(elements of a head), but of the model of 27 billion parameters, which no metadata tells apart, 1/√(width per head).
fn scale(config: &ModelConfig, layer: usize) -> f32 {
    match config.blocks {
        46 => 1.0 / ((config.embedding / config.layers[0].heads) as f32).sqrt(),
        _ => inverse_sqrt_head(config, layer),
    }
}

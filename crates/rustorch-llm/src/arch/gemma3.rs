//! Gemma 3: as Gemma 2, with norms of queries and keys instead of soft caps, and a window in five of six blocks, which rotate by a base of
//! their own.

use super::common::{ATTENTION, DECODER};
use super::factor::inverse_sqrt_head;
use super::gemma::GEMMA_EMBEDDING;
use super::gemma2::{GEMMA_OUTPUT, sandwich};
use super::{Architecture, Attention, Factor, HeadNorm, Rope, WindowedRope, Windows};
use crate::model::ModelConfig;
use rustorch_core::RopeStyle;

pub(super) const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    models: "Gemma 3 (text)",
    embedding: GEMMA_EMBEDDING,
    kinds: &[&sandwich(GEMMA3_ATTENTION)],
    output: GEMMA_OUTPUT,
    windows: Some(Windows::new(None, 6)),
    ..DECODER
};

pub(super) const GEMMA3_ATTENTION: Attention = Attention {
    query_norm: Some(HeadNorm::rms("attn_q_norm")),
    key_norm: Some(HeadNorm::rms("attn_k_norm")),
    rope: Some(Rope {
        windowed: WindowedRope::Unscaled { base: Some(10_000.0) },
        ..Rope::new(RopeStyle::Halves)
    }),
    scale: Factor::computed(scale),
    ..ATTENTION
};

/// 1/√(elements of a head), but of the model of 27 billion parameters, which no metadata tells apart, 1/√(width per head).
fn scale(config: &ModelConfig, layer: usize) -> f32 {
    match config.blocks {
        62 => 1.0 / ((config.embedding / config.layers[0].heads) as f32).sqrt(),
        _ => inverse_sqrt_head(config, layer),
    }
}

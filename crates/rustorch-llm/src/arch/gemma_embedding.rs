//! EmbeddingGemma: Gemma 3 whose tokens see both sides, with two layers behind the mean.

use super::common::DECODER;
use super::factor::inverse_sqrt_head;
use super::gemma::GEMMA_EMBEDDING as EMBEDDING;
use super::gemma2::sandwich;
use super::gemma3::GEMMA3_ATTENTION;
use super::{Architecture, Attention, Factor, Part, Windows};

pub(super) const GEMMA_EMBEDDING: Architecture = Architecture {
    name: "gemma-embedding",
    models: "EmbeddingGemma",
    embedding: EMBEDDING,
    kinds: &[&sandwich(Attention { scale: Factor::computed(inverse_sqrt_head), ..GEMMA3_ATTENTION })],
    output: &[Part::rms("output_norm")],
    windows: Some(Windows::new(None, 6)),
    causal: false,
    ..DECODER
};

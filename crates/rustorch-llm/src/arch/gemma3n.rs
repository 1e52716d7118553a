//! Gemma 3n: four residual streams of which each block computes one and predicts the others, an embedding for each block, a layer of low rank
//! beside attention, and in the first ten blocks a network most of whose gates are 0. The last blocks share keys and values.

use super::common::{ATTENTION, DECODER, GEGLU};
use super::factor::one;
use super::gemma2::GEMMA_OUTPUT;
use super::gemma4::{PER_LAYER_EMBEDDING, PER_LAYER_INPUT};
use super::{
    AltUp, Architecture, Attention, Factor, HeadNorm, Linear, Mlp, Part, Rope, WindowedRope, Windows,
};
use rustorch_core::RopeStyle;

pub(super) const GEMMA3N: Architecture = Architecture {
    name: "gemma3n",
    models: "Gemma 3n (text)",
    embedding: &[
        Part::Embedding("token_embd"),
        Part::Scale(Factor::computed(|config, _| (config.embedding as f32).sqrt())),
        Part::PerLayerEmbedding(PER_LAYER_EMBEDDING),
        Part::AltUp(AltUp::Expand),
    ],
    kinds: &[&block(Mlp { sparsity: Some(TWENTIETH), ..GEGLU }), &block(GEGLU)],
    kind: |_, layer| usize::from(layer >= 10),
    output: &[Part::AltUp(AltUp::Merge), GEMMA_OUTPUT[0], GEMMA_OUTPUT[1], GEMMA_OUTPUT[2]],
    windows: Some(Windows::new(None, 5)),
    ..DECODER
};

/// Above so many standard deviations is a twentieth of a normal distribution.
const TWENTIETH: f32 = 1.644_853_6;

const fn block(feed_forward: Mlp) -> [Part; 14] {
    [
        Part::AltUp(AltUp::Predict),
        Part::rms("attn_norm"),
        MIXER,
        Part::Add,
        Part::Scale(Factor::computed(|_, _| std::f32::consts::FRAC_1_SQRT_2)),
        Part::Replace,
        Part::rms("ffn_norm"),
        Part::Mlp(feed_forward),
        Part::rms("post_ffw_norm"),
        Part::Add,
        Part::AltUp(AltUp::Correct),
        Part::PerLayerInput(PER_LAYER_INPUT),
        Part::rms("post_norm"),
        Part::AltUp(AltUp::AddToOthers),
    ]
}

/// Attention beside a layer of low rank.
const MIXER: Part = Part::Parallel(&[
    &[Part::Attention(GEMMA3N_ATTENTION), Part::rms("post_attention_norm")],
    &[
        Part::LowRank(Linear::plain("laurel_l"), Linear::plain("laurel_r")),
        Part::rms("laurel_post_norm"),
        Part::Add,
    ],
]);

const GEMMA3N_ATTENTION: Attention = Attention {
    query_norm: Some(HeadNorm::rms("attn_q_norm")),
    key_norm: Some(HeadNorm::rms("attn_k_norm")),
    value_norm: true,
    rope: Some(Rope {
        windowed: WindowedRope::Unscaled { base: Some(10_000.0) },
        ..Rope::new(RopeStyle::Halves)
    }),
    scale: Factor::computed(one),
    ..ATTENTION
};

//! Gemma 4: heads of another size in blocks with a window, values normalised in each head, and by size of the model an embedding for each
//! block with keys and values that the last blocks share (E2B, E4B), or experts beside the dense network (26B).

use super::common::{ATTENTION, DECODER, GEGLU, SWIGLU_EXPERTS};
use super::factor::one;
use super::gemma2::GEMMA_OUTPUT;
use super::{
    Activation, Architecture, Attention, Experts, Factor, HeadNorm, Linear, Norm, Part, PerLayerEmbedding,
    PerLayerInput, Rope, RouterInput, WindowedRope, Windows,
};
use rustorch_core::RopeStyle;

pub(super) const GEMMA4: Architecture = Architecture {
    name: "gemma4",
    models: "Gemma 4 (text)",
    embedding: &[
        Part::Embedding("token_embd"),
        Part::Scale(Factor::computed(|config, _| (config.embedding as f32).sqrt())),
        Part::PerLayerEmbedding(PER_LAYER_EMBEDDING),
    ],
    kinds: &[
        &[
            Part::rms("attn_norm"),
            Part::Attention(GEMMA4_ATTENTION),
            Part::rms("post_attention_norm"),
            Part::Add,
            Part::rms("ffn_norm"),
            Part::Mlp(GEGLU),
            Part::rms("post_ffw_norm"),
            Part::Add,
            Part::ScaleBy("layer_output_scale"),
        ],
        &[
            Part::rms("attn_norm"),
            Part::Attention(GEMMA4_ATTENTION),
            Part::rms("post_attention_norm"),
            Part::Add,
            Part::rms("ffn_norm"),
            Part::Mlp(GEGLU),
            Part::rms("post_ffw_norm"),
            Part::Add,
            Part::PerLayerInput(PER_LAYER_INPUT),
            Part::rms("post_norm"),
            Part::Add,
            Part::ScaleBy("layer_output_scale"),
        ],
        &[
            Part::rms("attn_norm"),
            Part::Attention(GEMMA4_ATTENTION),
            Part::rms("post_attention_norm"),
            Part::Add,
            Part::Parallel(&[
                &[Part::rms("ffn_norm"), Part::Mlp(GEGLU), Part::rms("post_ffw_norm_1")],
                &[Part::rms("pre_ffw_norm_2"), Part::Experts(EXPERTS), Part::rms("post_ffw_norm_2")],
            ]),
            Part::rms("post_ffw_norm"),
            Part::Add,
            Part::ScaleBy("layer_output_scale"),
        ],
    ],
    kind: |config, _| match (config.experts, config.per_layer_embedding) {
        (Some(_), _) => 2,
        (None, 0) => 0,
        (None, _) => 1,
    },
    output: GEMMA_OUTPUT,
    windows: Some(Windows::new(None, 6)),
    ..DECODER
};

/// The embedding for each block.
pub(super) const PER_LAYER_EMBEDDING: PerLayerEmbedding = PerLayerEmbedding {
    table: "per_layer_token_embd",
    projection: Linear::plain("per_layer_model_proj"),
    norm: Norm::rms("per_layer_proj_norm"),
};

/// What a block makes of its embedding.
pub(super) const PER_LAYER_INPUT: PerLayerInput =
    PerLayerInput { gate: Linear::plain("inp_gate"), projection: Linear::plain("proj") };

const GEMMA4_ATTENTION: Attention = Attention {
    query_norm: Some(HeadNorm::rms("attn_q_norm")),
    key_norm: Some(HeadNorm::rms("attn_k_norm")),
    value_norm: true,
    rope: Some(Rope {
        factors: true,
        windowed: WindowedRope::Unscaled { base: Some(10_000.0) },
        ..Rope::new(RopeStyle::Halves)
    }),
    scale: Factor::computed(one),
    ..ATTENTION
};

const EXPERTS: Experts = Experts {
    router_input: RouterInput::NormedResidual { scale: "ffn_gate_inp.scale" },
    activation: Activation::GeluTanh,
    ..SWIGLU_EXPERTS
};

//! MiniCPM 1 to 4: Granite's block, with scales that older files do not name.

use super::common::{OUTPUT, SWIGLU};
use super::granite::GRANITE;
use super::llama::LLAMA_ATTENTION;
use super::{Architecture, Factor, Part};

pub(super) const MINICPM: Architecture = Architecture {
    name: "minicpm",
    models: "MiniCPM 1–4",
    embedding: &[
        Part::Embedding("token_embd"),
        Part::Scale(Factor::metadata("embedding_scale").or(|_, _| 12.0)),
    ],
    kinds: &[&[
        Part::rms("attn_norm"),
        Part::Attention(LLAMA_ATTENTION),
        Part::Scale(RESIDUAL),
        Part::Add,
        Part::rms("ffn_norm"),
        Part::Mlp(SWIGLU),
        Part::Scale(RESIDUAL),
        Part::Add,
    ]],
    output: &[
        Part::rms("output_norm"),
        Part::Output(OUTPUT),
        Part::Scale(
            Factor::metadata("logit_scale").inverted().or(|config, _| config.embedding as f32 / 256.0),
        ),
    ],
    ..GRANITE
};

const RESIDUAL: Factor =
    Factor::metadata("residual_scale").or(|config, _| 1.4 / (config.blocks as f32).sqrt());

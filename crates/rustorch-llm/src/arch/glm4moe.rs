//! GLM 4.5 and 4.6: norms of queries and keys in some sizes, and from some block on routed experts beside a shared one.

use super::common::{ATTENTION, DECODER, ROUTED, SHARED_EXPERT, SWIGLU};
use super::{Architecture, Attention, Experts, HeadNorm, Part, Scores};

pub(super) const GLM4MOE: Architecture = Architecture {
    name: "glm4moe",
    models: "GLM 4.5, 4.5 Air and 4.6",
    kinds: &[&[
        Part::rms("attn_norm"),
        Part::Attention(Attention {
            query_norm: Some(HeadNorm::rms("attn_q_norm").optional()),
            key_norm: Some(HeadNorm::rms("attn_k_norm").optional()),
            ..ATTENTION
        }),
        Part::Add,
        Part::rms("post_attention_norm"),
        Part::IfTensor {
            tensor: "ffn_gate_inp",
            then: &[Part::Parallel(&[
                &[Part::Experts(Experts { scores: Scores::Sigmoid, ..ROUTED })],
                &[Part::Mlp(SHARED_EXPERT)],
            ])],
            otherwise: &[Part::Mlp(SWIGLU)],
        },
        Part::Add,
    ]],
    ..DECODER
};

//! DeepSeek 2 to 3.1, Kimi K2, GLM 4.7 Flash: latent attention, and from some block on routed experts beside a shared one.

use super::common::{DECODER, ROUTED_AND_SHARED, SWIGLU};
use super::{Architecture, LatentAttention, Linear, Norm, Part, Rope};
use rustorch_core::RopeStyle;

pub(super) const DEEPSEEK2: Architecture = Architecture {
    name: "deepseek2",
    models: "DeepSeek 2, 2.5, 3 and R1, Kimi K2, Moonlight",
    kinds: &[&[
        Part::rms("attn_norm"),
        Part::LatentAttention(LatentAttention {
            query: Linear::plain("attn_q"),
            query_latent: (Linear::plain("attn_q_a"), Norm::rms("attn_q_a_norm"), Linear::plain("attn_q_b")),
            latent: Linear::plain("attn_kv_a_mqa"),
            latent_norm: Norm::rms("attn_kv_a_norm"),
            key: Linear::plain("attn_k_b"),
            value: Linear::plain("attn_v_b"),
            rope: Rope { without_magnitude: true, ..Rope::new(RopeStyle::Adjacent) },
            output: Linear::plain("attn_output"),
        }),
        Part::Add,
        Part::rms("ffn_norm"),
        Part::IfTensor { tensor: "ffn_gate_inp", then: ROUTED_AND_SHARED, otherwise: &[Part::Mlp(SWIGLU)] },
        Part::Add,
    ]],
    ..DECODER
};

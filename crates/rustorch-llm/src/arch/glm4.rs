//! GLM 4 (dense): norms before and behind attention and network, and half of each head rotated.

use super::common::{ATTENTION, DECODER, SWIGLU};
use super::{Architecture, Attention, Mlp, MlpGate, Part, Rope};
use rustorch_core::RopeStyle;

pub(super) const GLM4: Architecture = Architecture {
    name: "glm4",
    models: "GLM 4 (9B and 32B)",
    kinds: &[&[
        Part::rms("attn_norm"),
        Part::Attention(Attention { rope: Some(Rope::new(RopeStyle::Adjacent)), ..ATTENTION }),
        Part::rms("post_attention_norm"),
        Part::Add,
        Part::rms("ffn_norm"),
        Part::Mlp(Mlp { gate: MlpGate::InUp, ..SWIGLU }),
        Part::rms("post_ffw_norm"),
        Part::Add,
    ]],
    ..DECODER
};

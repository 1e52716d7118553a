//! Qwen 1.5, 2 and 2.5 (dense): biased projections to queries, keys and values.

use super::common::{ATTENTION, DECODER, SWIGLU};
use super::{Architecture, Attention, Linear, Mlp, Part};

pub(super) const QWEN2: Architecture = Architecture {
    name: "qwen2",
    models: "Qwen 1.5, 2 and 2.5",
    kinds: &[&[
        Part::rms("attn_norm"),
        Part::Attention(Attention {
            query: Linear::biased("attn_q"),
            key: Linear::biased("attn_k"),
            value: Linear::biased("attn_v"),
            ..ATTENTION
        }),
        Part::Add,
        Part::rms("ffn_norm"),
        Part::Mlp(Mlp { scaled: false, ..SWIGLU }),
        Part::Add,
    ]],
    ..DECODER
};

//! MPT: ALiBi instead of rotations, queries, keys and values within limits, and biases where files have them.

use super::common::{ATTENTION, DECODER, GELU, OUTPUT};
use super::{Architecture, Attention, Bias, Factor, Norm, Part};

pub(super) const MPT: Architecture = Architecture {
    name: "mpt",
    models: "MPT",
    kinds: &[&[
        norm("attn_norm"),
        Part::Attention(Attention {
            rope: None,
            alibi: Some(Factor::metadata("attention.max_alibi_bias").or(|_, _| 0.0)),
            clamp: Some("attention.clamp_kqv"),
            ..ATTENTION
        }),
        Part::Add,
        norm("ffn_norm"),
        Part::Mlp(GELU),
        Part::Add,
    ]],
    output: &[norm("output_norm"), Part::Output(OUTPUT)],
    ..DECODER
};

const fn norm(tensor: &'static str) -> Part {
    Part::Norm(Norm { bias: Bias::Optional, ..Norm::layer(tensor) })
}

//! OLMo 1: layer norms without weights, and queries, keys and values within limits.

use super::common::{ATTENTION, DECODER, OUTPUT, SWIGLU};
use super::{Architecture, Attention, Bias, Norm, NormKind, Part, Rope};
use rustorch_core::RopeStyle;

pub(super) const OLMO: Architecture = Architecture {
    name: "olmo",
    models: "OLMo 1",
    kinds: &[&[
        NORM,
        Part::Attention(Attention {
            rope: Some(Rope::new(RopeStyle::Adjacent)),
            clamp: Some("attention.clamp_kqv"),
            ..ATTENTION
        }),
        Part::Add,
        NORM,
        Part::Mlp(SWIGLU),
        Part::Add,
    ]],
    output: &[NORM, Part::Output(OUTPUT)],
    ..DECODER
};

const NORM: Part = Part::Norm(Norm { kind: NormKind::Layer, tensor: None, bias: Bias::None });

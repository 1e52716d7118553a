//! OLMo 1: layer norms without weights, and queries, keys and values within limits.

use super::common::{ADJACENT_ATTENTION, DECODER, OUTPUT, SWIGLU};
use super::{Architecture, Attention, Bias, Norm, NormKind, Part};

pub(super) const OLMO: Architecture = Architecture {
    name: "olmo",
    models: "OLMo 1",
    kinds: &[&[
        NORM,
        Part::Attention(Attention { clamp: Some("attention.clamp_kqv"), ..ADJACENT_ATTENTION }),
        Part::Add,
        NORM,
        Part::Mlp(SWIGLU),
        Part::Add,
    ]],
    output: &[NORM, Part::Output(OUTPUT)],
    ..DECODER
};

const NORM: Part = Part::Norm(Norm { kind: NormKind::Layer, tensor: None, bias: Bias::None });

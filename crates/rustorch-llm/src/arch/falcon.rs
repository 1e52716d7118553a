//! Falcon 1: attention and network side by side behind one norm (7B), or each behind its own (40B, 180B).

use super::common::{ATTENTION, DECODER, GELU, LAYER_NORM_OUTPUT};
use super::{Architecture, Part};

pub(super) const FALCON: Architecture = Architecture {
    name: "falcon",
    models: "Falcon 1 (7B, 40B and 180B), Falcon 2",
    kinds: &[&[
        Part::IfTensor {
            tensor: "attn_norm_2",
            then: &[Part::Parallel(&[
                &[Part::biased_layer_norm("attn_norm_2"), Part::Attention(ATTENTION)],
                &[Part::biased_layer_norm("attn_norm"), Part::Mlp(GELU)],
            ])],
            otherwise: &[
                Part::biased_layer_norm("attn_norm"),
                Part::Parallel(&[&[Part::Attention(ATTENTION)], &[Part::Mlp(GELU)]]),
            ],
        },
        Part::Add,
    ]],
    output: LAYER_NORM_OUTPUT,
    ..DECODER
};

//! StableLM: LLaMA's block with layer norms; the 12B has attention and network side by side behind one norm, and norms of each head.

use super::common::{ATTENTION, DECODER, LAYER_NORM_OUTPUT, SWIGLU, pre_layer_norm};
use super::{Architecture, Attention, HeadNorm, Part};

pub(super) const STABLELM: Architecture = Architecture {
    name: "stablelm",
    models: "StableLM 3B, StableLM 2",
    kinds: &[&[Part::IfTensor {
        tensor: "ffn_norm",
        then: &pre_layer_norm(STABLELM_ATTENTION, Part::Mlp(SWIGLU)),
        otherwise: &[
            Part::biased_layer_norm("attn_norm"),
            Part::Parallel(&[&[Part::Attention(STABLELM_ATTENTION)], &[Part::Mlp(SWIGLU)]]),
            Part::Add,
        ],
    }]],
    output: LAYER_NORM_OUTPUT,
    ..DECODER
};

const STABLELM_ATTENTION: Attention = Attention {
    query_norm: Some(HeadNorm::layer("attn_q_norm").optional()),
    key_norm: Some(HeadNorm::layer("attn_k_norm").optional()),
    ..ATTENTION
};

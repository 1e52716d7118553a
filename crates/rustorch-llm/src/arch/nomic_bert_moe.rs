//! Nomic Embed 2: BERT with rotary positions, and experts in every other block.

use super::bert::{BERT, BERT_EMBEDDING};
use super::common::{ATTENTION, GELU, SWIGLU_EXPERTS, post_norm};
use super::{Activation, Architecture, Experts, Part};

pub(super) const NOMIC_BERT_MOE: Architecture = Architecture {
    name: "nomic-bert-moe",
    models: "Nomic Embed 2",
    embedding: BERT_EMBEDDING,
    kinds: &[&post_norm(
        ATTENTION,
        Part::IfTensor {
            tensor: "ffn_gate_inp",
            then: &[Part::Experts(Experts {
                normalize: false,
                gate: None,
                activation: Activation::GeluTanh,
                ..SWIGLU_EXPERTS
            })],
            otherwise: &[Part::Mlp(GELU)],
        },
    )],
    ..BERT
};

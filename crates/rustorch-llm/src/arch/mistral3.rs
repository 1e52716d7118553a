//! Mistral Small 3, Ministral 3 and Devstral: LLaMA whose queries far from the beginning are scaled up.

use super::common::{DECODER, SWIGLU, SWIGLU_EXPERTS, dense_or_experts, pre_norm};
use super::llama::LLAMA_ATTENTION;
use super::{Architecture, Attention, Part, Temperature};

pub(super) const MISTRAL3: Architecture = Architecture {
    name: "mistral3",
    models: "Mistral Small 3, Ministral 3, Devstral",
    kinds: &[
        &pre_norm(MISTRAL3_ATTENTION, Part::Mlp(SWIGLU)),
        &pre_norm(MISTRAL3_ATTENTION, Part::Experts(SWIGLU_EXPERTS)),
    ],
    kind: dense_or_experts,
    ..DECODER
};

const MISTRAL3_ATTENTION: Attention =
    Attention { temperature: Some(Temperature::Metadata), ..LLAMA_ATTENTION };

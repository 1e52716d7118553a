//! Granite 3 with a mixture of experts, and in some models an expert that all tokens use.

use super::common::{SHARED_EXPERT, SWIGLU_EXPERTS};
use super::granite::{GRANITE, scaled};
use super::llama::LLAMA_ATTENTION;
use super::{Architecture, Part};

pub(super) const GRANITEMOE: Architecture = Architecture {
    name: "granitemoe",
    models: "Granite 3 with a mixture of experts",
    kinds: &[&scaled(Part::Attention(LLAMA_ATTENTION), GRANITE_EXPERTS)],
    ..GRANITE
};

/// Routed experts, beside a shared one where the file has it.
pub(super) const GRANITE_EXPERTS: Part = Part::IfTensor {
    tensor: "ffn_up_shexp",
    then: &[Part::Parallel(&[&[Part::Experts(SWIGLU_EXPERTS)], &[Part::Mlp(SHARED_EXPERT)]])],
    otherwise: &[Part::Experts(SWIGLU_EXPERTS)],
};

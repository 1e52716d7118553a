//! Arcee AFM: LLaMA with squared ReLU and no gate.

use super::common::{DECODER, SWIGLU, pre_norm};
use super::llama::LLAMA_ATTENTION;
use super::{Activation, Architecture, Mlp, MlpGate, Part};

pub(super) const ARCEE: Architecture = Architecture {
    name: "arcee",
    models: "Arcee AFM",
    kinds: &[&pre_norm(
        LLAMA_ATTENTION,
        Part::Mlp(Mlp { gate: MlpGate::None, activation: Activation::ReluSquared, ..SWIGLU }),
    )],
    ..DECODER
};

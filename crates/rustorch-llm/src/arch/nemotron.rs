//! Nemotron 4 and Minitron: layer norms with biases, and squared ReLU without a gate.

use super::common::{ATTENTION, DECODER, LAYER_NORM_OUTPUT, SWIGLU, pre_layer_norm};
use super::{Activation, Architecture, Mlp, MlpGate, Part};

pub(super) const NEMOTRON: Architecture = Architecture {
    name: "nemotron",
    models: "Nemotron 4, Minitron",
    kinds: &[&pre_layer_norm(
        ATTENTION,
        Part::Mlp(Mlp { gate: MlpGate::None, activation: Activation::ReluSquared, ..SWIGLU }),
    )],
    output: LAYER_NORM_OUTPUT,
    ..DECODER
};

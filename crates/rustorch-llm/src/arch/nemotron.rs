//! Nemotron 4 and Minitron: layer norms with biases, and squared ReLU without a gate.

use super::common::{ATTENTION, DECODER, LAYER_NORM_OUTPUT, pre_layer_norm};
use super::nemotron_h::SQUARED_RELU;
use super::{Architecture, Part};

pub(super) const NEMOTRON: Architecture = Architecture {
    name: "nemotron",
    models: "Nemotron 4, Minitron",
    kinds: &[&pre_layer_norm(ATTENTION, Part::Mlp(SQUARED_RELU))],
    output: LAYER_NORM_OUTPUT,
    ..DECODER
};

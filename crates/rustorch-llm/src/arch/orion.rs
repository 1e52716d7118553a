//! Orion: LLaMA with layer norms that have biases.

use super::common::{ATTENTION, DECODER, LAYER_NORM_OUTPUT, SWIGLU, pre_layer_norm};
use super::{Architecture, Part};

pub(super) const ORION: Architecture = Architecture {
    name: "orion",
    models: "Orion 14B",
    kinds: &[&pre_layer_norm(ATTENTION, Part::Mlp(SWIGLU))],
    output: LAYER_NORM_OUTPUT,
    ..DECODER
};

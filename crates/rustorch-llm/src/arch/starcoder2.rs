//! StarCoder 2: GPT-2's block with rotary positions.

use super::common::{ATTENTION, DECODER, GELU, LAYER_NORM_OUTPUT, pre_layer_norm};
use super::{Architecture, Part};

pub(super) const STARCODER2: Architecture = Architecture {
    name: "starcoder2",
    models: "StarCoder 2",
    kinds: &[&pre_layer_norm(ATTENTION, Part::Mlp(GELU))],
    output: LAYER_NORM_OUTPUT,
    ..DECODER
};

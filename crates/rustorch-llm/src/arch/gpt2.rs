//! GPT-2: learned positions, layer norms with biases, and GELU without a gate.

use super::common::{ATTENTION, DECODER, GELU, LAYER_NORM_OUTPUT, LEARNED_POSITIONS, pre_layer_norm};
use super::{Architecture, Attention, Part};

pub(super) const GPT2: Architecture = Architecture {
    name: "gpt2",
    models: "GPT-2, Cerebras-GPT",
    embedding: LEARNED_POSITIONS,
    kinds: &[&pre_layer_norm(Attention { rope: None, ..ATTENTION }, Part::Mlp(GELU))],
    output: LAYER_NORM_OUTPUT,
    ..DECODER
};

//! Nemotron H and Nemotron Nano 2: each block is one of Mamba 2, attention that does not rotate, and squared ReLU without a gate.

use super::common::{ATTENTION, DECODER, SWIGLU};
use super::{Activation, Architecture, Attention, Mlp, MlpGate, Part};
use crate::model::ModelConfig;

pub(super) const NEMOTRON_H: Architecture = Architecture {
    name: "nemotron_h",
    models: "Nemotron H, Nemotron Nano 2",
    kinds: &[MAMBA, ATTENTION_BLOCK, &[Part::rms("attn_norm"), Part::Mlp(SQUARED_RELU), Part::Add]],
    kind,
    ..DECODER
};

pub(super) const MAMBA: &[Part] = &[Part::rms("attn_norm"), Part::Mamba2, Part::Add];

pub(super) const ATTENTION_BLOCK: &[Part] =
    &[Part::rms("attn_norm"), Part::Attention(Attention { rope: None, ..ATTENTION }), Part::Add];

pub(super) const SQUARED_RELU: Mlp =
    Mlp { gate: MlpGate::None, activation: Activation::ReluSquared, ..SWIGLU };

/// Blocks without heads of keys and values and without a feed-forward network are recurrent.
fn kind(config: &ModelConfig, layer: usize) -> usize {
    let layer = &config.layers[layer];
    match (layer.kv_heads, layer.feed_forward) {
        (0, 0) => 0,
        (_, 0) => 1,
        _ => 2,
    }
}

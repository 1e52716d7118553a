//! Granite 4: Granite's block with Mamba 2; attention, which most models do not rotate, where blocks have heads of keys and values. Experts
//! where blocks have a router.

use super::common::SWIGLU;
use super::granite::{GRANITE, scaled};
use super::granitemoe::GRANITE_EXPERTS;
use super::llama::LLAMA_ATTENTION;
use super::{Architecture, Attention, Part};

pub(super) const GRANITEHYBRID: Architecture = Architecture {
    name: "granitehybrid",
    models: "Granite 4 (hybrid)",
    kinds: &[
        &scaled(Part::Mamba2, FEED_FORWARD),
        &scaled(Part::Attention(Attention { rope: None, ..LLAMA_ATTENTION }), FEED_FORWARD),
        &scaled(Part::Attention(LLAMA_ATTENTION), FEED_FORWARD),
    ],
    kind: |config, layer| match (config.layers[layer].kv_heads, config.rotates) {
        (0, _) => 0,
        (_, false) => 1,
        (_, true) => 2,
    },
    ..GRANITE
};

const FEED_FORWARD: Part =
    Part::IfTensor { tensor: "ffn_gate_inp", then: &[GRANITE_EXPERTS], otherwise: &[Part::Mlp(SWIGLU)] };

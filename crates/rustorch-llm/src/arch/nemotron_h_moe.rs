//! Nemotron 3: Nemotron H with experts, of a width of their own in some sizes, beside a shared one.

use super::common::{ROUTED, SHARED_EXPERT};
use super::nemotron_h::{ATTENTION_BLOCK, MAMBA, NEMOTRON_H, SQUARED_RELU};
use super::{Activation, Architecture, Experts, Linear, Mlp, MlpGate, Part, Scores};

pub(super) const NEMOTRON_H_MOE: Architecture = Architecture {
    name: "nemotron_h_moe",
    models: "Nemotron 3",
    kinds: &[
        MAMBA,
        ATTENTION_BLOCK,
        &[
            Part::rms("attn_norm"),
            Part::IfTensor {
                tensor: "ffn_gate_inp",
                then: &[Part::Parallel(&[&[Part::Experts(EXPERTS)], &[Part::Mlp(SHARED)]])],
                otherwise: &[Part::Mlp(SQUARED_RELU)],
            },
            Part::Add,
        ],
    ],
    ..NEMOTRON_H
};

const EXPERTS: Experts = Experts {
    scores: Scores::Sigmoid,
    latent: Some([Linear::plain("ffn_latent_down"), Linear::plain("ffn_latent_up")]),
    gate: None,
    activation: Activation::ReluSquared,
    ..ROUTED
};

const SHARED: Mlp = Mlp { gate: MlpGate::None, activation: Activation::ReluSquared, ..SHARED_EXPERT };

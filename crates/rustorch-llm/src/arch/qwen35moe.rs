//! Qwen 3.5 and 3.6 with a mixture of experts, and an expert that all tokens use behind a gate.

use super::common::{SHARED_EXPERT, SWIGLU_EXPERTS};
use super::qwen35::{DELTA_NET, GATED_ATTENTION, QWEN35, block};
use super::{Architecture, Mlp, Part};

pub(super) const QWEN35MOE: Architecture = Architecture {
    name: "qwen35moe",
    models: "Qwen 3.5 and 3.6 with a mixture of experts (text)",
    kinds: &[&block(Part::Attention(GATED_ATTENTION), EXPERTS), &block(Part::DeltaNet(DELTA_NET), EXPERTS)],
    ..QWEN35
};

/// Routed experts beside a shared one.
pub(super) const EXPERTS: Part = Part::Parallel(&[
    &[Part::Experts(SWIGLU_EXPERTS)],
    &[Part::Mlp(Mlp { sigmoid_gate: Some("ffn_gate_inp_shexp"), ..SHARED_EXPERT })],
]);

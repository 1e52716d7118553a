//! Qwen 1.5 and 2 with a mixture of experts, and an expert that all tokens use behind a gate.

use super::common::{ATTENTION, DECODER, SHARED_EXPERT, SWIGLU_EXPERTS, pre_norm};
use super::{Architecture, Experts, Mlp, Part};

pub(super) const QWEN2MOE: Architecture = Architecture {
    name: "qwen2moe",
    models: "Qwen 1.5 and 2 with a mixture of experts",
    kinds: &[&pre_norm(
        ATTENTION,
        Part::Parallel(&[
            &[Part::Experts(Experts { normalize: false, ..SWIGLU_EXPERTS })],
            &[Part::Mlp(Mlp { sigmoid_gate: Some("ffn_gate_inp_shexp"), ..SHARED_EXPERT })],
        ]),
    )],
    ..DECODER
};

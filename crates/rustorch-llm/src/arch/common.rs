//! What most architectures have in common.

use super::factor::inverse_sqrt_head;
use super::{Architecture, Attention, Experts, Factor, LeftOut, Linear, Mlp, Output, Part, Rope};
use crate::model::ModelConfig;
use rustorch_core::{GluOp, RopeStyle};

/// A decoder between a table of embeddings and a norm with a linear layer, which may share that table.
pub(super) const DECODER: Architecture = Architecture {
    name: "",
    models: "",
    embedding: &[Part::Embedding("token_embd")],
    kinds: &[],
    kind: alike,
    output: &[Part::rms("output_norm"), Part::Output(OUTPUT)],
    left_out: LEFT_OUT,
};

/// The output layer, or the table of embeddings in its place.
pub(super) const OUTPUT: Output = Output { linear: Linear::maybe_biased("output"), tied: Some("token_embd") };

/// What no architecture here uses.
pub(super) const LEFT_OUT: &[LeftOut] = &[
    LeftOut { tensors: "*.input_scale", reason: "for hardware that quantizes activations by it" },
    LeftOut { tensors: "cls.*", reason: "a classifier, for ranking" },
];

/// All blocks are of the first kind.
pub(super) fn alike(_: &ModelConfig, _: usize) -> usize {
    0
}

/// The first kind of block without experts, the second with experts.
pub(super) fn dense_or_experts(config: &ModelConfig, _: usize) -> usize {
    usize::from(config.experts.is_some())
}

/// Grouped-query attention with rotary positions.
pub(super) const ATTENTION: Attention = Attention {
    query: Linear::maybe_biased("attn_q"),
    key: Linear::maybe_biased("attn_k"),
    value: Linear::maybe_biased("attn_v"),
    query_norm: None,
    key_norm: None,
    rope: Rope { style: RopeStyle::Halves, factors: None },
    scale: Factor::metadata("attention.scale").or(inverse_sqrt_head),
    output: Linear::plain("attn_output"),
};

/// The dense SwiGLU network.
pub(super) const SWIGLU: Mlp = Mlp {
    gate: Linear::plain("ffn_gate"),
    up: Linear::plain("ffn_up"),
    down: Linear::plain("ffn_down"),
    activation: GluOp::Silu,
    scaled: true,
};

/// The mixture of SwiGLU networks.
pub(super) const SWIGLU_EXPERTS: Experts = Experts {
    router: "ffn_gate_inp",
    gate: "ffn_gate_exps",
    up: "ffn_up_exps",
    down: "ffn_down_exps",
    activation: GluOp::Silu,
    normalize: true,
};

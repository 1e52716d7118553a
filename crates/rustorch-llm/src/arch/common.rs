//! What most architectures have in common.

use super::factor::inverse_sqrt_head;
use super::{
    Activation, Architecture, Attention, Experts, Factor, LeftOut, Linear, Mlp, MlpGate, Output, Part,
    RankedRows, Ranking, Rope, RouterInput, Scores,
};
use crate::model::ModelConfig;
use rustorch_core::RopeStyle;

/// A decoder between a table of embeddings and a norm with a linear layer, which may share that table.
pub(super) const DECODER: Architecture = Architecture {
    name: "",
    models: "",
    embedding: &[Part::Embedding("token_embd")],
    kinds: &[],
    kind: alike,
    output: &[Part::rms("output_norm"), Part::Output(OUTPUT)],
    windows: None,
    recurrent: None,
    causal: true,
    ranking: Ranking { rows: RankedRows::First, gelu: false, softmax: false },
    left_out: LEFT_OUT,
};

/// The output layer, or the table of embeddings in its place.
pub(super) const OUTPUT: Output = Output { linear: Linear::maybe_biased("output"), tied: Some("token_embd") };

/// What no architecture here uses.
pub(super) const LEFT_OUT: &[LeftOut] =
    &[LeftOut { tensors: "*.input_scale", reason: "for hardware that quantizes activations by it" }];

/// A block of pre-norm residual layers: attention, then a feed-forward network.
pub(super) const fn pre_norm(attention: Attention, feed_forward: Part) -> [Part; 6] {
    [
        Part::rms("attn_norm"),
        Part::Attention(attention),
        Part::Add,
        Part::rms("ffn_norm"),
        feed_forward,
        Part::Add,
    ]
}

/// Encoder blocks of post-norm residual layers, whose norms have biases.
pub(super) const fn post_norm(attention: Attention, feed_forward: Part) -> [Part; 8] {
    [
        Part::Attention(attention),
        Part::Add,
        Part::biased_layer_norm("attn_output_norm"),
        Part::Replace,
        feed_forward,
        Part::Add,
        Part::biased_layer_norm("layer_output_norm"),
        Part::Replace,
    ]
}

/// Tables of embeddings and of positions.
pub(super) const LEARNED_POSITIONS: &[Part] =
    &[Part::Embedding("token_embd"), Part::PositionEmbedding("position_embd")];

/// Layer norm with a bias, and the logits.
pub(super) const LAYER_NORM_OUTPUT: &[Part] = &[Part::biased_layer_norm("output_norm"), Part::Output(OUTPUT)];

/// [`pre_norm`] with layer norms that have biases.
pub(super) const fn pre_layer_norm(attention: Attention, feed_forward: Part) -> [Part; 6] {
    [
        Part::biased_layer_norm("attn_norm"),
        Part::Attention(attention),
        Part::Add,
        Part::biased_layer_norm("ffn_norm"),
        feed_forward,
        Part::Add,
    ]
}

/// [`pre_norm`] with experts, beside a shared one where the file has it, in blocks that have a router, and a dense network in the others.
pub(super) const fn pre_norm_routed(attention: Attention, routed: &'static [Part]) -> [Part; 6] {
    pre_norm(
        attention,
        Part::IfTensor { tensor: "ffn_gate_inp", then: routed, otherwise: &[Part::Mlp(SWIGLU)] },
    )
}

/// Routed experts beside a shared one.
pub(super) const ROUTED_AND_SHARED: &[Part] =
    &[Part::Parallel(&[&[Part::Experts(ROUTED)], &[Part::Mlp(SHARED_EXPERT)]])];

/// Experts that are chosen as the metadata says, with a bias where the file has it.
pub(super) const ROUTED: Experts = Experts {
    normalize: false,
    by_metadata: true,
    selection_bias: Some("exp_probs_b.bias"),
    ..SWIGLU_EXPERTS
};

/// The first kind of block has attention, the second, without heads of keys and values, is recurrent.
pub(super) fn attention_or_no_kv_heads(config: &ModelConfig, layer: usize) -> usize {
    usize::from(config.layers[layer].kv_heads == 0)
}

/// All blocks are of the first kind.
pub(super) fn alike(_: &ModelConfig, _: usize) -> usize {
    0
}

/// The first kind of block without experts, the second with experts.
pub(super) fn dense_or_experts(config: &ModelConfig, _: usize) -> usize {
    usize::from(config.experts.is_some())
}

/// The first kind of block sees everything, the second has a window.
pub(super) fn full_or_windowed(config: &ModelConfig, layer: usize) -> usize {
    usize::from(config.layers[layer].window.is_some())
}

/// The first kind of block has attention, the second is recurrent.
pub(super) fn attention_or_recurrent(config: &ModelConfig, layer: usize) -> usize {
    usize::from(config.layers[layer].recurrent)
}

/// Grouped-query attention with rotary positions.
pub(super) const ATTENTION: Attention = Attention {
    query: Linear::maybe_biased("attn_q"),
    key: Linear::maybe_biased("attn_k"),
    value: Linear::maybe_biased("attn_v"),
    fused: Linear::maybe_biased("attn_qkv"),
    query_norm: None,
    key_norm: None,
    value_norm: false,
    norm_after_rope: false,
    rope: Some(Rope::new(RopeStyle::Halves)),
    scale: Factor::metadata("attention.scale").or(inverse_sqrt_head),
    clamp: None,
    alibi: None,
    softcap: None,
    sinks: None,
    temperature: None,
    gated: false,
    output: Linear::maybe_biased("attn_output"),
};

/// Attention that rotates adjacent elements together.
pub(super) const ADJACENT_ATTENTION: Attention =
    Attention { rope: Some(Rope::new(RopeStyle::Adjacent)), ..ATTENTION };

/// The dense SwiGLU network.
pub(super) const SWIGLU: Mlp = Mlp {
    gate: MlpGate::Separate(Linear::maybe_biased("ffn_gate")),
    up: Linear::maybe_biased("ffn_up"),
    down: Linear::maybe_biased("ffn_down"),
    activation: Activation::Silu,
    sparsity: None,
    shared: false,
    sigmoid_gate: None,
    scaled: true,
};

/// The dense GeGLU network.
pub(super) const GEGLU: Mlp = Mlp { activation: Activation::GeluTanh, ..SWIGLU };

/// A network with GELU and no gate.
pub(super) const GELU: Mlp = Mlp { gate: MlpGate::None, activation: Activation::GeluTanh, ..SWIGLU };

/// A SwiGLU network that all tokens use beside the experts that they are routed to.
pub(super) const SHARED_EXPERT: Mlp = Mlp {
    gate: MlpGate::Separate(Linear::plain("ffn_gate_shexp")),
    up: Linear::plain("ffn_up_shexp"),
    down: Linear::plain("ffn_down_shexp"),
    shared: true,
    ..SWIGLU
};

/// The mixture of SwiGLU networks.
pub(super) const SWIGLU_EXPERTS: Experts = Experts {
    router: Linear::plain("ffn_gate_inp"),
    router_input: RouterInput::Branch,
    scores: Scores::Softmax,
    normalize: true,
    by_metadata: false,
    selection_bias: None,
    weigh_inputs: false,
    latent: None,
    gate: Some(Linear::plain("ffn_gate_exps")),
    up: Linear::plain("ffn_up_exps"),
    fused: Linear::plain("ffn_gate_up_exps"),
    down: Linear::plain("ffn_down_exps"),
    activation: Activation::Silu,
};

//! gpt-oss: biased layers, attention sinks, a window in every other block, and experts with clamped SwiGLU whose weights are a softmax over
//! the chosen ones.

use super::common::{ATTENTION, DECODER, SWIGLU_EXPERTS};
use super::{Activation, Architecture, Attention, Experts, Linear, Part, Scores, Windows};

pub(super) const GPT_OSS: Architecture = Architecture {
    name: "gpt-oss",
    models: "gpt-oss 20B and 120B",
    kinds: &[&[
        Part::rms("attn_norm"),
        Part::Attention(Attention { sinks: Some("attn_sinks"), ..ATTENTION }),
        Part::Add,
        Part::rms("post_attention_norm"),
        Part::Experts(Experts {
            router: Linear::biased("ffn_gate_inp"),
            scores: Scores::SoftmaxOfChosen,
            normalize: false,
            gate: Some(Linear::biased("ffn_gate_exps")),
            up: Linear::biased("ffn_up_exps"),
            down: Linear::biased("ffn_down_exps"),
            activation: Activation::ClampedSwiglu { alpha: 1.702, limit: 7.0 },
            ..SWIGLU_EXPERTS
        }),
        Part::Add,
    ]],
    windows: Some(Windows::new(None, 2)),
    ..DECODER
};

//! Qwen 3.5 and 3.6 (dense): gated delta networks in three of four blocks; attention in the fourth, whose results have gates and which rotates
//! a part of each head.

use super::common::{ATTENTION, DECODER, SWIGLU, attention_or_recurrent};
use super::{Architecture, Attention, DeltaNet, DeltaRates, HeadNorm, Linear, Part};
use rustorch_core::HeadBroadcast;

pub(super) const QWEN35: Architecture = Architecture {
    name: "qwen35",
    models: "Qwen 3.5 and 3.6 (text)",
    kinds: &[
        &block(Part::Attention(GATED_ATTENTION), Part::Mlp(SWIGLU)),
        &block(Part::DeltaNet(DELTA_NET), Part::Mlp(SWIGLU)),
    ],
    kind: attention_or_recurrent,
    recurrent: Some(4),
    ..DECODER
};

/// A block of pre-norm residual layers.
pub(super) const fn block(mixer: Part, feed_forward: Part) -> [Part; 6] {
    [Part::rms("attn_norm"), mixer, Part::Add, Part::rms("post_attention_norm"), feed_forward, Part::Add]
}

pub(super) const GATED_ATTENTION: Attention = Attention {
    query_norm: Some(HeadNorm::rms("attn_q_norm")),
    key_norm: Some(HeadNorm::rms("attn_k_norm")),
    gated: true,
    ..ATTENTION
};

pub(super) const DELTA_NET: DeltaNet = DeltaNet {
    qkv: Linear::plain("attn_qkv"),
    gate: Linear::plain("attn_gate"),
    convolution: "ssm_conv1d",
    rates: DeltaRates::Separate { beta: Linear::plain("ssm_beta"), alpha: Linear::plain("ssm_alpha") },
    dt_bias: "ssm_dt.bias",
    a: "ssm_a",
    norm: "ssm_norm",
    output: Linear::plain("ssm_out"),
    broadcast: HeadBroadcast::Tiled,
};

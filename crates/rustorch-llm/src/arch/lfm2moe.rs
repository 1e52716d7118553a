//! LFM2 with a mixture of experts from some block on.

use super::common::{ROUTED, SWIGLU};
use super::lfm2::{LFM2, block};
use super::qwen3::QWEN3_ATTENTION;
use super::{Architecture, Experts, Part};

pub(super) const LFM2MOE: Architecture = Architecture {
    name: "lfm2moe",
    models: "LFM2 with a mixture of experts",
    kinds: &[&block(Part::Attention(QWEN3_ATTENTION), FEED_FORWARD), &block(Part::ShortConv, FEED_FORWARD)],
    ..LFM2
};

const FEED_FORWARD: Part = Part::IfTensor {
    tensor: "ffn_gate_inp",
    then: &[Part::Experts(Experts { normalize: true, ..ROUTED })],
    otherwise: &[Part::Mlp(SWIGLU)],
};

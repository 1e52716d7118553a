//! Jamba: Mamba; attention that does not rotate where blocks have heads of keys and values. Experts where blocks have a router.

use super::common::{ATTENTION, DECODER, SWIGLU, SWIGLU_EXPERTS, attention_or_no_kv_heads};
use super::lfm2::block;
use super::{Architecture, Attention, Experts, Part};

pub(super) const JAMBA: Architecture = Architecture {
    name: "jamba",
    models: "Jamba",
    kinds: &[
        &block(Part::Attention(Attention { rope: None, ..ATTENTION }), FEED_FORWARD),
        &block(Part::Mamba, FEED_FORWARD),
    ],
    kind: attention_or_no_kv_heads,
    ..DECODER
};

const FEED_FORWARD: Part = Part::IfTensor {
    tensor: "ffn_gate_inp",
    then: &[Part::Experts(Experts { normalize: false, ..SWIGLU_EXPERTS })],
    otherwise: &[Part::Mlp(SWIGLU)],
};

//! OLMoE: a mixture of experts, and norms of all heads' queries and keys together.

use super::common::{ATTENTION, DECODER, SWIGLU_EXPERTS, pre_norm};
use super::{Architecture, Attention, Experts, HeadNorm, Part};

pub(super) const OLMOE: Architecture = Architecture {
    name: "olmoe",
    models: "OLMoE",
    kinds: &[&pre_norm(
        Attention {
            query_norm: Some(HeadNorm::whole("attn_q_norm")),
            key_norm: Some(HeadNorm::whole("attn_k_norm")),
            ..ATTENTION
        },
        Part::Experts(Experts { normalize: false, ..SWIGLU_EXPERTS }),
    )],
    ..DECODER
};

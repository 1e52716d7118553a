//! MiniMax M2: norms of all heads' queries and keys together, and experts in every block.

use super::common::{ATTENTION, DECODER, ROUTED, pre_norm};
use super::{Architecture, Attention, Experts, HeadNorm, Part, Scores};

pub(super) const MINIMAX_M2: Architecture = Architecture {
    name: "minimax-m2",
    models: "MiniMax M2",
    kinds: &[&pre_norm(
        Attention {
            query_norm: Some(HeadNorm::whole("attn_q_norm")),
            key_norm: Some(HeadNorm::whole("attn_k_norm")),
            ..ATTENTION
        },
        Part::Experts(Experts { scores: Scores::Sigmoid, normalize: true, ..ROUTED }),
    )],
    ..DECODER
};

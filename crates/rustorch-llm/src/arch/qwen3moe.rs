//! Qwen 3 with a mixture of experts in every block.

use super::{Architecture, Block, FeedForward, SWIGLU_EXPERTS, qwen3};
use rustorch_core::GluOp;

pub(super) const QWEN3MOE: Architecture = Architecture {
    name: "qwen3moe",
    block: Block {
        attention: qwen3::ATTENTION,
        feed_forward: FeedForward {
            norm: "ffn_norm",
            gate: GluOp::Silu,
            dense: None,
            experts: Some(SWIGLU_EXPERTS),
        },
    },
    ..qwen3::QWEN3
};

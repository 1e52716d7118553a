//! Qwen 3 with a mixture of experts in every block.

use super::common::{DECODER, SWIGLU_EXPERTS, pre_norm};
use super::qwen3::QWEN3_ATTENTION;
use super::{Architecture, Part};

pub(super) const QWEN3MOE: Architecture = Architecture {
    name: "qwen3moe",
    models: "Qwen 3 with a mixture of experts",
    kinds: &[&pre_norm(QWEN3_ATTENTION, Part::Experts(SWIGLU_EXPERTS))],
    ..DECODER
};

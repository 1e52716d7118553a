//! Hunyuan A13B: Hunyuan's attention, and experts beside a shared one in every block.

use super::common::{DECODER, SHARED_EXPERT, SWIGLU_EXPERTS, pre_norm};
use super::qwen3::QWEN3_ATTENTION;
use super::{Architecture, Attention, Part};

pub(super) const HUNYUAN_MOE: Architecture = Architecture {
    name: "hunyuan-moe",
    models: "Hunyuan A13B",
    kinds: &[&pre_norm(
        Attention { norm_after_rope: true, ..QWEN3_ATTENTION },
        Part::Parallel(&[&[Part::Experts(SWIGLU_EXPERTS)], &[Part::Mlp(SHARED_EXPERT)]]),
    )],
    ..DECODER
};

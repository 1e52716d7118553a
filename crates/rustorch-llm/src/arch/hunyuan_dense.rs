//! Hunyuan (dense): queries and keys normalised in each head, behind their rotation.

use super::common::{DECODER, SWIGLU, pre_norm};
use super::qwen3::QWEN3_ATTENTION;
use super::{Architecture, Attention, Part};

pub(super) const HUNYUAN_DENSE: Architecture = Architecture {
    name: "hunyuan-dense",
    models: "Hunyuan 0.5B–7B",
    kinds: &[&pre_norm(Attention { norm_after_rope: true, ..QWEN3_ATTENTION }, Part::Mlp(SWIGLU))],
    ..DECODER
};

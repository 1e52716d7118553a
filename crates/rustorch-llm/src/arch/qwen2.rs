//! Qwen 1.5, 2 and 2.5 (dense): biased projections to queries, keys and values.

use super::common::{ATTENTION, DECODER, SWIGLU, pre_norm};
use super::{Architecture, Mlp, Part};

pub(super) const QWEN2: Architecture = Architecture {
    name: "qwen2",
    models: "Qwen 1.5, 2 and 2.5",
    kinds: &[&pre_norm(ATTENTION, Part::Mlp(Mlp { scaled: false, ..SWIGLU }))],
    ..DECODER
};

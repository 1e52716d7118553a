//! ERNIE 4.5 (dense): LLaMA by another name.

use super::common::{ADJACENT_ATTENTION, DECODER, SWIGLU, pre_norm};
use super::{Architecture, Part};

pub(super) const ERNIE4_5: Architecture = Architecture {
    name: "ernie4_5",
    models: "ERNIE 4.5 0.3B",
    kinds: &[&pre_norm(ADJACENT_ATTENTION, Part::Mlp(SWIGLU))],
    ..DECODER
};

//! ERNIE 4.5 (dense): LLaMA by another name.

use super::common::{ATTENTION, DECODER, SWIGLU, pre_norm};
use super::{Architecture, Attention, Part, Rope};
use rustorch_core::RopeStyle;

pub(super) const ERNIE4_5: Architecture = Architecture {
    name: "ernie4_5",
    models: "ERNIE 4.5 0.3B",
    kinds: &[&pre_norm(
        Attention { rope: Some(Rope::new(RopeStyle::Adjacent)), ..ATTENTION },
        Part::Mlp(SWIGLU),
    )],
    ..DECODER
};

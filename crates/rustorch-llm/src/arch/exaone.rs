//! EXAONE 3 and 3.5: LLaMA that rotates halves.

use super::common::{ATTENTION, DECODER, SWIGLU, pre_norm};
use super::{Architecture, Attention, Part, Rope};
use rustorch_core::RopeStyle;

pub(super) const EXAONE: Architecture = Architecture {
    name: "exaone",
    models: "EXAONE 3 and 3.5",
    kinds: &[&pre_norm(
        Attention { rope: Some(Rope::new(RopeStyle::Halves).with_factors()), ..ATTENTION },
        Part::Mlp(SWIGLU),
    )],
    ..DECODER
};

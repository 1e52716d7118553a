//! SmolLM 3: every fourth block does not rotate.

use super::common::{ATTENTION, DECODER, SWIGLU, pre_norm};
use super::{Architecture, Attention, Part, Rope};
use rustorch_core::RopeStyle;

pub(super) const SMOLLM3: Architecture = Architecture {
    name: "smollm3",
    models: "SmolLM 3",
    kinds: &[
        &pre_norm(Attention { rope: Some(Rope::new(RopeStyle::Adjacent)), ..ATTENTION }, Part::Mlp(SWIGLU)),
        &pre_norm(Attention { rope: None, ..ATTENTION }, Part::Mlp(SWIGLU)),
    ],
    kind: |_, layer| usize::from(layer % 4 == 3),
    ..DECODER
};

//! Phi 3, 3.5 and 4: one layer for queries, keys and values, one for gate and gated values, and rotations with factors by the length of
//! the context. Files name windows, which llama.cpp does not use, so that they are not used here.

use super::common::{ATTENTION, DECODER, SWIGLU, pre_norm};
use super::{Architecture, Attention, Mlp, MlpGate, Part, Rope};
use rustorch_core::RopeStyle;

pub(super) const PHI3: Architecture = Architecture {
    name: "phi3",
    models: "Phi 3, 3.5 and 4",
    kinds: &[&pre_norm(
        Attention { rope: Some(Rope::new(RopeStyle::Halves).with_factors()), ..ATTENTION },
        Part::Mlp(Mlp { gate: MlpGate::InUp, ..SWIGLU }),
    )],
    ..DECODER
};

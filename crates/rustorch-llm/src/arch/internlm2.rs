//! InternLM 2 to 3: LLaMA by another name.

use super::common::{ATTENTION, DECODER, SWIGLU, pre_norm};
use super::{Architecture, Attention, Part, Rope};
use rustorch_core::RopeStyle;

pub(super) const INTERNLM2: Architecture = Architecture {
    name: "internlm2",
    models: "InternLM 2, 2.5 and 3",
    kinds: &[&pre_norm(
        Attention { rope: Some(Rope::new(RopeStyle::Adjacent)), ..ATTENTION },
        Part::Mlp(SWIGLU),
    )],
    ..DECODER
};

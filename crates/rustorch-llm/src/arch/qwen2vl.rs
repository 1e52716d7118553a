//! The text of Qwen 2 VL and 2.5 VL: of text, the three positions that its rotation distinguishes are one.

use super::common::{ATTENTION, DECODER, SWIGLU, pre_norm};
use super::{Architecture, Part};

pub(super) const QWEN2VL: Architecture = Architecture {
    name: "qwen2vl",
    models: "Qwen 2 VL and 2.5 VL (text)",
    kinds: &[&pre_norm(ATTENTION, Part::Mlp(SWIGLU))],
    ..DECODER
};

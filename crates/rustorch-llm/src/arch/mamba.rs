//! Mamba and Falcon Mamba.

use super::common::DECODER;
use super::{Architecture, Part};

pub(super) const MAMBA: Architecture = Architecture {
    name: "mamba",
    models: "Mamba, Falcon Mamba",
    kinds: &[&[Part::rms("attn_norm"), Part::Mamba, Part::Add]],
    ..DECODER
};

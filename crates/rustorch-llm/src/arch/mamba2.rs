//! Mamba 2 and Codestral Mamba.

use super::common::DECODER;
use super::{Architecture, Part};

pub(super) const MAMBA2: Architecture = Architecture {
    name: "mamba2",
    models: "Mamba 2, Codestral Mamba",
    kinds: &[&[Part::rms("attn_norm"), Part::Mamba2, Part::Add]],
    ..DECODER
};

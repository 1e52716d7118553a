//! Falcon H1: attention and Mamba 2 side by side in every block.

use super::common::{ATTENTION, DECODER, SWIGLU};
use super::lfm2::block;
use super::{Architecture, Part};

pub(super) const FALCON_H1: Architecture = Architecture {
    name: "falcon-h1",
    models: "Falcon H1",
    kinds: &[&block(Part::Parallel(&[&[Part::Attention(ATTENTION)], &[Part::Mamba2]]), Part::Mlp(SWIGLU))],
    ..DECODER
};

//! Baichuan 1 and 2: LLaMA's block; the 13B, which its number of blocks tells apart, has ALiBi instead of rotations.

use super::bloom::ALIBI;
use super::common::{ADJACENT_ATTENTION, ATTENTION, DECODER, SWIGLU, pre_norm};
use super::{Architecture, Attention, Part};

pub(super) const BAICHUAN: Architecture = Architecture {
    name: "baichuan",
    models: "Baichuan 1 and 2",
    kinds: &[
        &pre_norm(ADJACENT_ATTENTION, Part::Mlp(SWIGLU)),
        &pre_norm(Attention { rope: None, alibi: Some(ALIBI), ..ATTENTION }, Part::Mlp(SWIGLU)),
    ],
    kind: |config, _| usize::from(config.blocks == 40),
    ..DECODER
};

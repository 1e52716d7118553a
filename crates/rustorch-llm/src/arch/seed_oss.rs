//! Seed-OSS: LLaMA that rotates halves, with biased projections.

use super::common::{ATTENTION, DECODER, SWIGLU};
use super::{Architecture, Part};

pub(super) const SEED_OSS: Architecture = Architecture {
    name: "seed_oss",
    models: "Seed-OSS",
    kinds: &[&[
        Part::rms("attn_norm"),
        Part::Attention(ATTENTION),
        Part::Add,
        Part::rms("post_attention_norm"),
        Part::Mlp(SWIGLU),
        Part::Add,
    ]],
    ..DECODER
};

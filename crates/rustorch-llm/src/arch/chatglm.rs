//! ChatGLM 2 and 3, and GLM 4 as first published: one layer for queries, keys and values, one for gate and gated values, and half of each
//! head rotated.

use super::common::{ADJACENT_ATTENTION, DECODER, SWIGLU, pre_norm};
use super::{Architecture, Mlp, MlpGate, Part};

pub(super) const CHATGLM: Architecture = Architecture {
    name: "chatglm",
    models: "ChatGLM 2 and 3, GLM 4 (9B, 2024)",
    kinds: &[&pre_norm(ADJACENT_ATTENTION, Part::Mlp(Mlp { gate: MlpGate::InUp, ..SWIGLU }))],
    ..DECODER
};

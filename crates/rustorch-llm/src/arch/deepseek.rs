//! DeepSeek 1: from some block on routed experts beside a shared one. The weights of the chosen experts do not sum to 1.

use super::common::{ADJACENT_ATTENTION, DECODER, SHARED_EXPERT, SWIGLU_EXPERTS, pre_norm_routed};
use super::{Architecture, Experts, Part};

pub(super) const DEEPSEEK: Architecture = Architecture {
    name: "deepseek",
    models: "DeepSeek MoE 16B",
    kinds: &[&pre_norm_routed(
        ADJACENT_ATTENTION,
        &[Part::Parallel(&[
            &[Part::Experts(Experts { normalize: false, ..SWIGLU_EXPERTS })],
            &[Part::Mlp(SHARED_EXPERT)],
        ])],
    )],
    ..DECODER
};

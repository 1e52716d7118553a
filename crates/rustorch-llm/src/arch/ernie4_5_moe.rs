//! ERNIE 4.5 with a mixture of experts, from some block on and in every few, beside a shared one.

use super::common::{ADJACENT_ATTENTION, DECODER, SHARED_EXPERT, SWIGLU_EXPERTS, pre_norm_routed};
use super::{Architecture, Experts, Part};

pub(super) const ERNIE4_5_MOE: Architecture = Architecture {
    name: "ernie4_5-moe",
    models: "ERNIE 4.5 with a mixture of experts",
    kinds: &[&pre_norm_routed(
        ADJACENT_ATTENTION,
        &[Part::IfTensor {
            tensor: "ffn_up_shexp",
            then: &[Part::Parallel(&[&[EXPERTS], &[Part::Mlp(SHARED_EXPERT)]])],
            otherwise: &[EXPERTS],
        }],
    )],
    ..DECODER
};

const EXPERTS: Part = Part::Experts(Experts { selection_bias: Some("exp_probs_b.bias"), ..SWIGLU_EXPERTS });

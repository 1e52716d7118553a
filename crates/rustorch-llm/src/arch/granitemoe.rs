//! Granite 3 with a mixture of experts, and in some models an expert that all tokens use.

use super::common::{SHARED_EXPERT, SWIGLU_EXPERTS};
use super::granite::{GRANITE, scaled};
use super::{Architecture, Part};

pub(super) const GRANITEMOE: Architecture = Architecture {
    name: "granitemoe",
    models: "Granite 3 with a mixture of experts",
    kinds: &[
        &scaled(Part::Experts(SWIGLU_EXPERTS)),
        &scaled(Part::Parallel(&[&[Part::Experts(SWIGLU_EXPERTS)], &[Part::Mlp(SHARED_EXPERT)]])),
    ],
    kind: |config, _| usize::from(config.experts.is_some_and(|experts| experts.shared > 0)),
    ..GRANITE
};

//! Qwen 3 Next: Qwen 3.5 with a mixture of experts, but for the order of heads and of the projections to decays and updates.

use super::qwen35::{DELTA_NET, GATED_ATTENTION, QWEN35, block};
use super::qwen35moe::EXPERTS;
use super::{Architecture, DeltaNet, DeltaRates, Linear, Part};
use rustorch_core::HeadBroadcast;

pub(super) const QWEN3NEXT: Architecture = Architecture {
    name: "qwen3next",
    models: "Qwen 3 Next",
    kinds: &[
        &block(Part::Attention(GATED_ATTENTION), EXPERTS),
        &block(
            Part::DeltaNet(DeltaNet {
                rates: DeltaRates::Interleaved(Linear::plain("ssm_ba")),
                broadcast: HeadBroadcast::Interleaved,
                ..DELTA_NET
            }),
            EXPERTS,
        ),
    ],
    ..QWEN35
};

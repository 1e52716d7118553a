//! dots.llm1: norms of queries and keys, and from some block on routed experts beside a shared one.

use super::Architecture;
use super::common::{DECODER, ROUTED_AND_SHARED, pre_norm_routed};
use super::qwen3::QWEN3_ATTENTION;

pub(super) const DOTS1: Architecture = Architecture {
    name: "dots1",
    models: "dots.llm1",
    kinds: &[&pre_norm_routed(QWEN3_ATTENTION, ROUTED_AND_SHARED)],
    ..DECODER
};

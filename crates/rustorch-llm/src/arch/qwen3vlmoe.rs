//! The text of Qwen 3 VL with a mixture of experts.

use super::Architecture;
use super::qwen3moe::QWEN3MOE;

pub(super) const QWEN3VLMOE: Architecture =
    Architecture { name: "qwen3vlmoe", models: "Qwen 3 VL with a mixture of experts (text)", ..QWEN3MOE };

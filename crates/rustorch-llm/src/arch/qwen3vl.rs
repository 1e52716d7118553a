//! The text of Qwen 3 VL: of text, the three positions that its rotation distinguishes are one, and there is nothing from images to add.

use super::Architecture;
use super::qwen3::QWEN3;

pub(super) const QWEN3VL: Architecture =
    Architecture { name: "qwen3vl", models: "Qwen 3 VL (text)", ..QWEN3 };

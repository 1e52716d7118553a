//! LLaMA whose tokens see both sides, as embedders are made of it.

use super::Architecture;
use super::llama::LLAMA;

pub(super) const LLAMA_EMBED: Architecture =
    Architecture { name: "llama-embed", models: "Llama Embed Nemotron", causal: false, ..LLAMA };

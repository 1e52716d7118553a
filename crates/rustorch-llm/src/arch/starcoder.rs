//! StarCoder 1 and SantaCoder: GPT-2 with one head of keys and values.

use super::Architecture;
use super::gpt2::GPT2;

pub(super) const STARCODER: Architecture =
    Architecture { name: "starcoder", models: "StarCoder 1, SantaCoder", ..GPT2 };

//! Ling 2 and Ring 2: as dots.llm1, with one layer for queries, keys and values.

use super::Architecture;
use super::dots1::DOTS1;

pub(super) const BAILINGMOE2: Architecture =
    Architecture { name: "bailingmoe2", models: "Ling 2.0 and Ring 2.0", ..DOTS1 };

//! Nomic Embed 1 and 1.5: BERT with rotary positions and SwiGLU.

use super::bert::{BERT, BERT_EMBEDDING};
use super::common::{ATTENTION, SWIGLU, post_norm};
use super::{Architecture, Part};

pub(super) const NOMIC_BERT: Architecture = Architecture {
    name: "nomic-bert",
    models: "Nomic Embed 1 and 1.5",
    embedding: BERT_EMBEDDING,
    kinds: &[&post_norm(ATTENTION, Part::Mlp(SWIGLU))],
    ..BERT
};

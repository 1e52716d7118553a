//! BERT, and RoBERTa, XLM-RoBERTa, BGE and E5 converted as `bert`: post-norm, learned positions and token types.

use super::common::{ATTENTION, DECODER, GELU, post_norm};
use super::{Architecture, Attention, Part};

pub(super) const BERT: Architecture = Architecture {
    name: "bert",
    models: "BERT, RoBERTa, XLM-RoBERTa, BGE, E5, MiniLM",
    embedding: &[
        Part::Embedding("token_embd"),
        Part::TokenType("token_types"),
        Part::PositionEmbedding("position_embd"),
        Part::biased_layer_norm("token_embd_norm"),
    ],
    kinds: &[&post_norm(Attention { rope: None, ..ATTENTION }, Part::Mlp(GELU))],
    output: &[],
    causal: false,
    ..DECODER
};

/// Tables of embeddings and of token types, and a norm.
pub(super) const BERT_EMBEDDING: &[Part] = &[
    Part::Embedding("token_embd"),
    Part::TokenType("token_types"),
    Part::biased_layer_norm("token_embd_norm"),
];

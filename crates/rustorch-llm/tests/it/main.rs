//! Tests of `rustorch-llm` by its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod architecture_docs;
mod architectures;
mod captured;
mod chat;
mod common;
mod convert;
mod embedding;
mod evaluate;
mod greedy;
mod hybrid_f32;
mod imatrix;
mod logits;
mod numerics_fast;
mod quantize;
mod sampling;
mod session;
mod tokenizer_made;
mod tokenizer_oracle;
mod tokenizer_vocab;

//! Language models from GGUF files: tokenizers, architectures, decoding, sampling, embeddings.

pub mod arch;
pub mod chat;
pub mod convert;
pub mod embedding;
mod error;
pub mod evaluate;
pub mod generate;
pub mod imatrix;
mod language_model;
pub mod model;
pub mod quantize;
pub mod sampling;
pub mod tokenizer;

pub use error::{Error, Result};
pub use language_model::LanguageModel;

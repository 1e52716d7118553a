//! Language models from GGUF files: tokenizers, architectures, decoding, sampling.

pub mod chat;
pub mod sampling;
pub mod tokenizer;

//! Language models from GGUF files: tokenizers, architectures, decoding, sampling.

pub mod tokenizer;

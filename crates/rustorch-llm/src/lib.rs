//! Language models from GGUF files: tokenizers, architectures, decoding, sampling.

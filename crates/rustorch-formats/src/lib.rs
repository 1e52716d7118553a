//! Model file formats: GGUF.

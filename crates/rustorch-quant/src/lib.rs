//! ggml block formats: layout, bit-exact decoding, encoding.

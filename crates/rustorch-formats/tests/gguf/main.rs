//! Tests of reading and writing GGUF by the public interface alone.

// Everything here is a test, but clippy only knows functions that are marked as one.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod malformed;
mod mutations;
mod reader;
mod split;
mod support;
mod writer;

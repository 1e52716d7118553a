//! Tests of reading and writing files by the public interface, and of a module that needs nothing of the rest. The library has no unit
//! tests, so that it is compiled once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

// Everything here is a test, but clippy only knows functions that are marked as one.
mod atomic;
mod bytes;
mod common;
mod graph;
mod idx;
mod malformed;
mod metadata;
mod mutations;
mod numpy;
mod reader;
mod safetensors;
mod split;
mod torch;
mod values;
mod writer;
mod zip;

// A module with tests of its own.
#[path = "../../src/gguf/summary.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod summary;

use rustorch_formats::gguf::TensorRef;

#[global_allocator]
static ALLOCATOR: rustorch_testkit::allocations::CountingAllocator =
    rustorch_testkit::allocations::CountingAllocator;

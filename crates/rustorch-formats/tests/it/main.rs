//! Tests of reading and writing files by the public interface alone.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

// Everything here is a test, but clippy only knows functions that are marked as one.
mod common;
mod idx;
mod malformed;
mod mutations;
mod numpy;
mod reader;
mod safetensors;
mod split;
mod torch;
mod writer;
mod zip;

#[global_allocator]
static ALLOCATOR: rustorch_testkit::allocations::CountingAllocator =
    rustorch_testkit::allocations::CountingAllocator;

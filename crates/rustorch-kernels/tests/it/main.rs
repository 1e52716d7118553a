//! Tests of `rustorch-kernels` by its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod common;
mod compilers;
mod declines;
mod dialects;
mod docs;
mod forks;
mod rows;
mod scratch_cache;
mod streams;
mod valid;

//! Tests of `naga-c` by its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod behaviour;
mod common;
mod compile;
mod extensions;
mod floats;
mod integers;
mod refusals;
mod text;

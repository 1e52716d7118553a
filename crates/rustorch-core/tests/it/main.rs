//! The integration tests of the vocabulary, a module for each behaviour.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod layout;
mod overlap;
mod view_op;

//! Checks of the repository's structure.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod modules;
mod sources;
mod torch_coverage;
mod unit_tests;

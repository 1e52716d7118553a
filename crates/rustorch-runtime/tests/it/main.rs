//! Tests of `rustorch-runtime` by its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod backend;
mod common;
mod cost;
mod execution;
mod faults;
mod hybrid;
mod in_place;
mod manager;
mod memory;
mod operand;
mod placement;
mod profile;
mod property;
mod registry;

//! Tests of `rustorch-opencl` by its public interface, and of the modules below it that need nothing of the rest. The library has no
//! unit tests, so that it is compiled once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

#[cfg(target_os = "linux")]
mod absent;
mod common;
mod driver;
mod kernel_cache;
mod kernels;
mod loss;
#[cfg(target_os = "linux")]
mod peers;
mod streams;
mod subgroups;
mod suite;

// Modules with tests of their own, and what they need.
#[path = "../../src/describe/notation.rs"]
mod notation;
#[path = "../../src/status.rs"]
mod status;
#[path = "../../src/sys/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use a part")]
mod sys;

//! Tests of `rustorch-opencl` by its public interface.
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
mod kernels;
mod loss;
#[cfg(target_os = "linux")]
mod peers;
mod streams;
mod subgroups;
mod suite;

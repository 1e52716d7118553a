//! Tests of `rustorch-cuda` by its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

#[cfg(target_os = "linux")]
mod absent;
#[cfg(target_os = "linux")]
mod blas;
mod common;
#[cfg(target_os = "linux")]
mod emulator;
#[cfg(target_os = "linux")]
mod fake;
mod gpu;
mod kernels;
mod nvrtc;
#[cfg(target_os = "linux")]
mod streams;
mod subgroups;
mod suite;

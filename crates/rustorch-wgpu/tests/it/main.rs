//! Tests of `rustorch-wgpu` by its public interface, and of a module that needs nothing of the rest. The library has no unit tests, so
//! that it is compiled once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod blas;
mod common;
mod conformance;
mod driver;
mod edges;
mod fused;
mod mul_mat_id;
#[cfg(target_os = "linux")]
mod peers;
mod random;
mod rows;
mod sizes;
mod special;
mod splitting;
mod splitting_spatial;
mod subgroups;
mod suite;

// A module with tests of its own.
#[path = "../../src/cache/file.rs"]
mod file;

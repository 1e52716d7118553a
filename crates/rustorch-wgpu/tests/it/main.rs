//! Tests of `rustorch-wgpu` by its public interface.
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

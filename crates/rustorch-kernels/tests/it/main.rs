//! Tests of `rustorch-kernels` by its public interface, and of the modules below it that need nothing of the rest. The library has
//! no unit tests, so that it is compiled once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod blas;
mod common;
mod compilers;
mod declines;
mod dialects;
mod docs;
mod forks;
mod pointwise;
mod rows;
mod scratch_cache;
mod signature;
mod splitting;
mod streams;
mod valid;

// Modules with tests of their own, and what they need.
#[path = "../../src/engine/probe/answers.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod answers;
#[path = "../../src/cache.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod cache;
#[path = "../../src/splitting/halo.rs"]
#[allow(dead_code, reason = "the tests use a part")]
mod halo;
mod library {
    pub(crate) use crate::taps;
}
#[path = "../../src/subgroup_use.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod subgroup_use;
#[path = "../../src/library/taps.rs"]
#[allow(dead_code, reason = "the tests use a part")]
mod taps;

use rustorch_kernels::{Arithmetic, Hardware, Subgroups, wgsl};

//! Tests of `rustorch-tensor` by its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod channel_norm;
mod common;
mod complex;
mod conv;
mod display;
mod erfinv;
mod errors;
mod fast_path;
mod fuse;
mod in_place;
mod interpolate;
mod linalg;
mod linalg_properties;
mod numerics;
mod ops;
mod pooling;
mod semantics;
mod views;

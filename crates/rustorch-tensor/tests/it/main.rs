//! Tests of `rustorch-tensor` by its public interface, and of a module that needs nothing of the rest. The library has no unit tests, so
//! that it is compiled once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod allocations;
mod attention_backward;
mod autocast;
mod capture;
mod capture_gradients;
mod capture_host;
mod channel_norm;
mod checkpoint;
mod common;
mod complex;
mod conv;
mod cross_entropy;
mod display;
mod distributions;
mod dropout;
mod erfinv;
mod errors;
mod everyday;
mod fast_path;
mod faults;
mod function;
mod functional;
mod fuse;
mod gather_sum;
mod gradient_cases;
mod gradient_docs;
mod gradients;
mod graph_files;
mod in_place;
mod indexing;
mod interpolate;
mod kv_cache;
mod linalg;
mod linalg_properties;
mod methods;
mod models;
mod norm_backward;
mod numerics;
mod ops;
mod pooling;
mod programs;
mod recurrent;
mod rnn_gates;
mod saved;
mod semantics;
mod smooth_programs;
mod special;
mod stress;
mod tape;
mod threads;
mod torch_compositions;
mod views;

// A module with tests of its own.
#[path = "../../src/display/number.rs"]
#[allow(dead_code, reason = "the tests use a part")]
mod number;

//! Tests of `rustorch-quant` by its public interface, and of the modules below it that need nothing of the rest. The library has no
//! unit tests, so that it is compiled once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod dequantize;
mod properties;
mod quantize;

// Modules with tests of their own.
#[path = "../../src/grid/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use a part")]
mod grid;
#[path = "../../src/le.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod le;

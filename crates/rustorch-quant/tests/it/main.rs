//! Tests of `rustorch-quant` by its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod dequantize;
mod properties;
mod quantize;

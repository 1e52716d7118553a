//! The driver on every adapter of the machine, by kernels of its own.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

mod cache;
mod common;
mod faults;
mod order;
mod swiftshader;
mod timestamps;

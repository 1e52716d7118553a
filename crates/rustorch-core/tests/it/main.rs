//! The tests of the vocabulary, a module for each behaviour. The library has no unit tests, so that it is compiled once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod cost;
mod device;
mod graph;
mod layout;
mod op;
mod overlap;
mod philox;
mod profile;
mod promote;
mod serial;
mod shape;
mod view_op;

// Modules with tests of their own, which need nothing of the rest.
#[path = "../../src/cache.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod cache;
#[path = "../../src/stream.rs"]
#[allow(unreachable_pub, reason = "public in the library")]
mod stream;

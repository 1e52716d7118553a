//! Tests of `rustorch-testkit` by its public interface, and of the modules below it that need nothing of the rest. The library has
//! no unit tests, so that it is compiled once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod cases;
mod conformance;
mod environment;
mod fuzz;
mod sample;
mod tolerance;

// Modules with tests of their own.
#[path = "../../src/child.rs"]
#[allow(unreachable_pub, reason = "public in the library")]
mod child;
#[path = "../../src/skip.rs"]
#[allow(unreachable_pub, reason = "public in the library")]
mod skip;

use child::{child, in_child};

//! Tests of `rustorch-hub` by its public interface, and of the modules below it that need nothing of the rest. The library has no unit
//! tests, so that it is compiled once.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod pull;

// Modules with tests of their own, and what they need.
#[path = "../../src/error.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod error;
#[path = "../../src/name.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod name;
#[path = "../../src/url.rs"]
mod url;

use error::{Error, Result};
use name::ModelName;

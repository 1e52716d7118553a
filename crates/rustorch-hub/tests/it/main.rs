//! Tests of `rustorch-hub` by its public interface.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod pull;

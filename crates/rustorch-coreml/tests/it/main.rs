//! Tests of packages by the public interface, and of layouts, a module that needs nothing of the rest.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

// Everything here is a test, but clippy only knows functions that are marked as one.
mod accepted;
mod arguments;
#[allow(dead_code, unreachable_pub, reason = "an example uses it, too")]
mod cases;
mod device;
mod emit;
mod fake;
mod functions;
mod info;
mod layouts;
mod oracle;
mod proof;
#[allow(dead_code, unreachable_pub, reason = "an example uses it, too")]
mod prove;
mod resident;
mod states;
mod support;

#[path = "../../src/layout.rs"]
mod layout;

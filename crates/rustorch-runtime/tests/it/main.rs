//! Tests of `rustorch-runtime` by its public interface, and of the modules below it that need nothing of the rest. The library has no
//! unit tests, so that it is compiled once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod backend;
mod common;
mod cost;
mod env;
mod execution;
mod explanations;
mod fallback;
mod faults;
mod hybrid;
mod in_place;
mod mac;
mod manager;
mod memory;
mod operand;
mod partition;
mod partition_fixtures;
mod passes;
mod placement;
mod prepared;
mod profile;
mod property;
mod region_faults;
mod region_states;
mod registry;
mod state_faults;

// Modules with tests of their own, and what they need.
#[path = "../../src/cost/busy.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod busy;
#[path = "../../src/cost/corner.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod corner;
#[path = "../../src/explain.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod explain;
mod record {
    pub(crate) use rustorch_runtime::Record;
}
#[path = "../../src/memory/free_list.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod free_list;
#[path = "../../src/cost/plausible.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod plausible;
#[path = "../../src/placement.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod policies;
#[path = "../../src/cost/probe.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod probe;
#[path = "../../src/memory/size_class.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod size_class;
#[path = "../../src/cost/values.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use a part")]
mod values;

use rustorch_runtime::text;

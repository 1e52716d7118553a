//! `RUSTORCH_DEVICES` and `RUSTORCH_DISABLE_GPU`: which devices a run may use.

#![allow(clippy::unwrap_used, reason = "a test may fail by a panic")]

use crate::common::{self, MODEL, Run, run_where};
use rustorch_testkit::{Requirement, skip};

fn explain(backend: &str, variables: &[(&str, &str)]) -> Run {
    run_where(variables, &["explain", "-m", MODEL, "-b", backend, "-n", "2", "--json"], b"")
}

/// Whether this machine has such a device.
pub(crate) fn has(family: &str) -> bool {
    let rows = common::succeed_json(&["devices", "--json"]);
    rows.as_array().unwrap().iter().any(|row| {
        row["present"] == true && row["device"].as_str().unwrap().split(':').next() == Some(family)
    })
}

/// The devices that ran anything.
fn devices(run: &Run) -> Vec<String> {
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let mut found: Vec<String> = report["profile"]["summary"]
        .as_array()
        .unwrap()
        .iter()
        .map(|op| op["device"].as_str().unwrap().to_owned())
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The devices that ran operations or might have.
fn considered(run: &Run) -> Vec<String> {
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let mut found: Vec<String> = Vec::new();
    for operation in report["profile"]["operations"].as_array().unwrap() {
        found.push(operation["device"].as_str().unwrap().to_owned());
        let others = operation["others"].as_array().unwrap().iter();
        found.extend(others.map(|other| other.as_str().unwrap().split(' ').next().unwrap().to_owned()));
    }
    found.sort();
    found.dedup();
    found
}

#[test]
fn without_gpus_everything_runs_on_the_cpu() {
    let off = [("RUSTORCH_DISABLE_GPU", "1")];
    let run = explain("hybrid", &off);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(devices(&run), ["cpu"]);
    let refused = explain("vulkan", &off);
    assert!(refused.code != 0 && refused.err.contains("RUSTORCH_DISABLE_GPU"), "{refused:?}");
}

#[test]
fn the_fallback_order_is_what_the_variable_names() {
    for family in [Requirement::OpenCl, Requirement::Vulkan] {
        if !has(family.word()) {
            return skip(family, "the program lists no such device");
        }
    }
    // Each operation is placed by cost among the devices that the variable names, and by nothing else.
    for (order, named) in
        [("opencl:0,cpu", &["opencl:0"][..]), ("vulkan:0,opencl:0", &["opencl:0", "vulkan:0"]), ("cpu", &[])]
    {
        let run = run_where(
            &[("RUSTORCH_DEVICES", order)],
            &["explain", "-m", MODEL, "-b", "hybrid", "-n", "2", "--json", "--all"],
            b"",
        );
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(considered(&run), [&["cpu"], named].concat(), "{order}");
    }
    let refused = explain("vulkan", &[("RUSTORCH_DEVICES", "opencl")]);
    assert!(refused.code != 0 && refused.err.contains("RUSTORCH_DEVICES leaves it out"), "{refused:?}");
    let refused = explain("hybrid", &[("RUSTORCH_DEVICES", "toaster")]);
    assert!(refused.code != 0 && refused.err.contains("toaster"), "{refused:?}");
}

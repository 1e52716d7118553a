//! Core ML as a device, on systems that have none; `coreml list` and `forget`; plans for a Mac.

use crate::common::{MODEL, Run, fail, run, run_where, succeed, succeed_json};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

#[cfg(not(target_vendor = "apple"))]
#[test]
fn other_systems_say_what_there_is() {
    let why = format!("Core ML is part of macOS and iOS, and this is {}", std::env::consts::OS);
    for name in ["coreml", "coreml-hybrid", "coreml-hybrid:cpu", "mac-hybrid"] {
        fail(&["-p", "x", "-b", name], 4, &[&why, name, "there is auto, hybrid, cpu"]);
    }
    let devices = succeed(&["devices"]);
    let line = devices.lines().find(|line| line.starts_with("coreml ")).unwrap();
    assert!(line.contains(&format!("not found: {why}")), "{line}");
    // A child process that is asked to examine a program ends, and does nothing else.
    let run = run_where(&[("RUSTORCH_COREML_REQUEST", "/nonexistent")], &["devices"], b"");
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (1, "", ""));
}

#[test]
fn options_are_checked_and_those_without_effect_reported() {
    fail(&["-p", "x", "--coreml-units", "gpu"], 2, &["all", "cpu-and-neural-engine"]);
    fail(&["-p", "x", "-b", "coreml-hybrid:gpu"], 2, &["names no device"]);
    let args = ["-b", "cpu", "--coreml-units", "cpu", "--allow-f16", "-p", "x", "-n", "1", "--raw"];
    let Run { code, err, .. } = run(&args);
    assert_eq!(code, 0, "{err}");
    for option in ["--coreml-units", "--allow-f16"] {
        let note = format!("{option} has no effect: Core ML is not among the devices");
        assert!(err.contains(&note), "{err}");
    }
}

const ADMITTED: &str = "0123456789abcdef0123456789abcdef";
const REFUSED: &str = "fedcba9876543210fedcba9876543210";

/// A folder in which two programs were examined.
fn examined(folder: &Path) {
    let verdict = json!({
        "refused": null, "program": "2 matmul, 1 softmax", "system": "macos Version 14.5 (Build 23F79)", "units": "all", "f16": true,
        "plan": { "cpu": 0.25, "gpu": 0.0, "neural_engine": 0.75 }, "error": 1e-3, "seconds": 0.0012, "seconds_without": 0.004, "in_place": true,
    });
    let mut refused = verdict.clone();
    refused["refused"] = json!("compiling took longer than 600 s");
    refused["units"] = json!("cpu-and-gpu");
    for empty in ["plan", "error", "seconds", "seconds_without", "in_place"] {
        refused[empty] = Value::Null;
    }
    let cache = folder.join("coreml");
    fs::create_dir(&cache).unwrap();
    for (key, verdict) in [(ADMITTED, verdict), (REFUSED, refused)] {
        fs::write(cache.join(format!("{key}.json")), verdict.to_string()).unwrap();
    }
    fs::write(cache.join("admission.lock"), "").unwrap();
}

#[test]
fn programs_are_listed_and_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let coreml =
        |args: &[&str]| run_where(&[("RUSTORCH_CACHE_DIR", path)], &[&["coreml"], args].concat(), b"");
    let out = |args: &[&str]| {
        let run = coreml(args);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
        run.out
    };
    assert!(out(&["list"]).starts_with("No program was examined"));
    assert_eq!(out(&["list", "--json"]).trim(), "[]");
    examined(folder.path());
    assert_eq!(
        out(&["list"]),
        format!(
            "{ADMITTED} admitted: 2 matmul, 1 softmax
    asked for: compute units all, f16, on macos Version 14.5 (Build 23F79)
    1.200 ms a run, 4.000 ms without Core ML
    Core ML's plan prefers: CPU 25 %, GPU 0 %, Neural Engine 75 % (of its own estimate of the cost)
{REFUSED} refused: 2 matmul, 1 softmax
    asked for: compute units cpu-and-gpu, f16, on macos Version 14.5 (Build 23F79)
    refused: compiling took longer than 600 s
"
        )
    );
    let rows: Value = serde_json::from_str(&out(&["list", "--json"])).unwrap();
    assert_eq!((&rows[0]["key"], &rows[0]["units"]), (&json!(ADMITTED), &json!("all")));
    assert_eq!(rows[1]["refused"], "compiling took longer than 600 s");
    let wrong = coreml(&["forget", ADMITTED, "0"]);
    assert!(
        wrong.code == 2 && wrong.err.contains("`rustorch-cli coreml list` prints the keys"),
        "{}",
        wrong.err
    );
    assert_eq!(coreml(&["forget"]).code, 2);
    // Nothing was forgotten.
    assert_eq!(out(&["forget", REFUSED]), "Forgot 1 program.\n");
    assert!(!out(&["list"]).contains(REFUSED));
    assert_eq!(out(&["forget", "--all"]), "Forgot 1 program.\n");
    assert!(out(&["list"]).starts_with("No program was examined"));
}

#[test]
fn plans_assume_a_mac_on_any_machine() {
    let plan = |backend: &str| {
        succeed_json(&[
            "plan", "-m", MODEL, "-b", backend, "--assume", "apple", "-c", "64", "-p", "9", "--json",
        ])
    };
    for backend in ["coreml", "coreml-hybrid", "coreml-hybrid:metal", "mac-hybrid", "hybrid"] {
        let plan = plan(backend);
        assert_eq!(plan["assumed"], true);
        assert_eq!(plan["devices"], json!(["coreml", "metal:0", "cpu"]));
        let prompt = &plan["graphs"]["prompt"];
        assert_eq!(prompt["compilers"], json!(["coreml"]), "{backend}");
        let operations = prompt["operations"].as_array().unwrap();
        // What writes to the cache in place may be in a region; what reads it rounds as ggml does, which is told.
        let reasons = operations.iter().flat_map(|node| node["in_no_region"].as_array().unwrap());
        let says: Vec<&str> = reasons.map(|reason| reason["says"].as_str().unwrap()).collect();
        assert!(!says.contains(&"writes in place"), "{backend}: {says:?}");
        assert!(says.iter().any(|says| says.contains("round as ggml does")), "{backend}: {says:?}");
        let on_metal = operations.iter().filter(|node| node["device"] == "metal:0").count();
        assert!(backend == "coreml-hybrid" || backend == "hybrid" || on_metal > 0, "{backend}");
    }
    let text = succeed(&["plan", "-m", MODEL, "-b", "mac-hybrid", "--assume", "apple", "-c", "64"]);
    assert!(text.contains("Assumed: Core ML and Metal of an Apple M1"), "{text}");
    assert!(text.contains("ggml"), "matmuls round as ggml does: {text}");
    fail(&["plan", "-m", MODEL, "-b", "cpu", "--assume", "apple"], 2, &["--assume is for"]);
    fail(&["plan", "-m", MODEL, "--assume", "windows"], 2, &["apple"]);
}

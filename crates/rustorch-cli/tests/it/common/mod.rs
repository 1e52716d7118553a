//! Runs the program and looks at what it leaves.

#[cfg(unix)]
pub(crate) mod terminal;

use rustorch::devices::{DiscoveredDevice, discover};
use rustorch::runtime::{Calibration, CostCache};
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Once;

/// The model that the program carries, as a file.
pub(crate) const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/shakespeare.gguf");

/// What a run of the program left.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Measures the devices once for all runs of the program, which otherwise would each do so: on a machine that is as busy as one
/// that runs tests, what they measure is not kept.
fn calibrate() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        let cache = CostCache::new(env!("CARGO_TARGET_TMPDIR")).keep_disturbed();
        for found in discover() {
            let DiscoveredDevice::Present(backend) = found else { continue };
            if cache.load(&*backend).is_some_and(|known| known.is_settled()) {
                continue;
            }
            let calibration = Calibration::measure(&*backend).expect("the device computes");
            cache.store(&Calibration { attempts: u32::MAX, ..calibration });
        }
    });
}

/// The program, with an environment that does not depend on the user's.
pub(crate) fn program() -> Command {
    calibrate();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rustorch-cli"));
    for name in ["RUSTORCH_THREADS", "RUSTORCH_DEVICES", "RUSTORCH_DISABLE_GPU", "RUST_BACKTRACE"] {
        command.env_remove(name);
    }
    // Measurements of devices are kept for the other tests, and what a busy machine makes of them is told to nobody.
    command
        .env("RUSTORCH_CACHE_DIR", env!("CARGO_TARGET_TMPDIR"))
        .env("RUST_LOG", "rustorch_runtime::cost=off");
    command
}

/// Runs the program with nothing on standard input.
pub(crate) fn run(args: &[&str]) -> Run {
    run_with(args, b"")
}

/// Runs the program with these bytes on standard input.
pub(crate) fn run_with(args: &[&str], input: &[u8]) -> Run {
    run_where(&[], args, input)
}

/// As [`run_with`], with these environment variables.
pub(crate) fn run_where(variables: &[(&str, &str)], args: &[&str], input: &[u8]) -> Run {
    let mut command = program();
    command
        .envs(variables.iter().copied())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // A program that fails early does not read; the pipe is then closed, which is no failure of the test.
    let _ = child.stdin.take().expect("piped").write_all(input);
    let output = child.wait_with_output().expect("the program ends");
    let run = Run {
        code: output.status.code().unwrap_or_else(|| panic!("{args:?} was killed: {}", output.status)),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    };
    assert!(!run.err.contains("panicked"), "{args:?}: {}", run.err);
    run
}

/// Runs the program, which is to succeed and to be quiet but for the note that an answer was cut at `-n`, and gives what it printed.
pub(crate) fn succeed(args: &[&str]) -> String {
    let run = run(args);
    let is_cut = run.err.starts_with("(cut: -n ") && run.err.lines().count() == 1;
    assert!(run.code == 0 && (run.err.is_empty() || is_cut), "{args:?}: {run:?}");
    run.out
}

/// As [`succeed`], read as JSON.
pub(crate) fn succeed_json(args: &[&str]) -> Value {
    serde_json::from_str(&succeed(args)).expect("JSON")
}

/// Runs the program, which is to fail with this code, to print nothing, and to say these things.
pub(crate) fn fail(args: &[&str], code: i32, says: &[&str]) {
    fail_with(args, b"", code, says);
}

/// As [`fail`], with standard input.
pub(crate) fn fail_with(args: &[&str], input: &[u8], code: i32, says: &[&str]) {
    let run = run_with(args, input);
    assert_eq!((run.code, run.out.as_str()), (code, ""), "{args:?}: {}", run.err);
    assert!(run.err.starts_with("error: "), "{args:?}: {}", run.err);
    for text in says {
        assert!(run.err.contains(text), "{args:?} should say `{text}`: {}", run.err);
    }
}

/// llama.cpp's answers for the carried model.
pub(crate) fn reference() -> Value {
    let text = include_str!("../../../assets/shakespeare.greedy.json");
    serde_json::from_str(text).expect("JSON")
}

/// A list of ids in JSON.
pub(crate) fn ids(value: &Value) -> Vec<u32> {
    let list = value.as_array().expect("a list");
    list.iter().map(|id| u32::try_from(id.as_u64().expect("a number")).expect("an id")).collect()
}

/// A folder for a test's files, with a model in it that is damaged as the function says.
pub(crate) fn damaged(change: impl FnOnce(&mut Vec<u8>)) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("model.gguf");
    let mut bytes = std::fs::read(MODEL).expect("the carried model");
    change(&mut bytes);
    std::fs::write(&path, bytes).expect("a file");
    (dir, path)
}

/// The carried model with some of its bytes replaced, as often as they occur.
pub(crate) fn replaced(from: &[u8], to: &[u8]) -> (tempfile::TempDir, PathBuf) {
    assert_eq!(from.len(), to.len());
    damaged(|bytes| {
        let mut found = 0;
        for at in 0..=bytes.len() - from.len() {
            if bytes[at..].starts_with(from) {
                bytes[at..at + to.len()].copy_from_slice(to);
                found += 1;
            }
        }
        assert!(found > 0, "the model has no such bytes");
    })
}

/// The carried model with these entries in its metadata.
pub(crate) fn with_metadata(entries: &[(&str, rustorch::gguf::Value)]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("model.gguf");
    let file = rustorch::gguf::File::open(MODEL).expect("the carried model");
    let mut writer = rustorch::gguf::Writer::copy_of(&file);
    for (key, value) in entries {
        writer.metadata_mut().set(key, value.clone()).expect("a key");
    }
    writer.write_file(&path).expect("a file");
    (dir, path)
}

/// The carried model without its chat template.
pub(crate) fn without_template() -> (tempfile::TempDir, PathBuf) {
    replaced(b"tokenizer.chat_template", b"tokenizer.chat_TEMPLATE")
}

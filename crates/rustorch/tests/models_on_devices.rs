//! Language models on every device of the machine: the tokens of llama.cpp, whatever the device.
//!
//! Expected: `NAME.greedy64.txt` in the shared test data, what `llama-simple -m NAME.gguf -n 64 "Once upon a time"`
//! printed.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

mod common;

use rustorch::llm::model::Offload;
use std::path::PathBuf;

fn everything_on(name: &str) {
    let (Some(folder), Some((device, executor))) = (common::folder(), common::executor(name)) else { return };
    let only = std::env::var("MODEL").ok();
    let mut wrong = Vec::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|e| e == "gguf")) {
        let name = path.file_stem().unwrap().to_string_lossy();
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let expected = std::fs::read_to_string(path.with_extension("greedy64.txt")).unwrap();
        let offload = Offload { device, blocks: None, bytes: None };
        let ours = executor.scope(|| {
            let (mut session, moved) = common::session(path, Some(&offload));
            println!("{name}: {moved:?}");
            common::text(&mut session, 64, &mut |_| {})
        });
        if ours.trim_end_matches('\n') != expected.trim_end_matches('\n') {
            wrong.push(format!("{name}:\n  ours  {ours:?}\n  llama {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} files differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn vulkan_writes_what_llama_cpp_writes() {
    everything_on("vulkan");
}

#[test]
fn opencl_writes_what_llama_cpp_writes() {
    everything_on("opencl");
}

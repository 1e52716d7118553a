//! Language models on every device of the machine: the tokens of llama.cpp, whatever the device.
//!
//! Expected: `NAME.greedy64.txt` in the shared test data, what `llama-simple -m NAME.gguf -n 64 "Once upon a time"`
//! printed.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use rustorch::core::{Device, DeviceType};
use rustorch::devices;
use rustorch::llm::LanguageModel;
use rustorch::llm::generate::{GenerationOptions, Session, SessionOptions};
use rustorch::llm::model::Offload;
use rustorch::llm::sampling::{Sampler, SamplerConfig};
use rustorch::llm::tokenizer::{DecodeOptions, EncodeOptions};
use rustorch::runtime::{HybridExecutor, Placement};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PROMPT: &str = "Once upon a time";

fn folder() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/models");
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} does not exist", path.display());
    None
}

fn executor(name: &str) -> Option<(Device, HybridExecutor)> {
    let wanted: DeviceType = name.parse().unwrap();
    let DeviceType::Only(device) = wanted else { unreachable!("names of devices") };
    match devices::executor(wanted, None) {
        Ok(executor) => Some((device, executor.with_policy(Placement::Resident).unwrap())),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// What a model on a device writes after the prompt, prompt included.
fn text(path: &Path, offload: &Offload, tokens: usize) -> String {
    let mut model = LanguageModel::open(path).unwrap();
    let moved = model.offload(offload).unwrap();
    println!("{}: {moved:?}", path.file_name().unwrap().to_string_lossy());
    let model = Arc::new(model);
    let tokenizer = model.tokenizer().unwrap();
    let prompt = tokenizer.encode(PROMPT, EncodeOptions { add_special: true, parse_special: true });
    let options = SessionOptions { context: 128, ..SessionOptions::for_model(&model) };
    let mut session = Session::new(Arc::clone(&model), options).unwrap();
    let options = GenerationOptions { max_tokens: Some(tokens), show_special: true, ..Default::default() };
    let mut sampler = Sampler::new(SamplerConfig::greedy()).unwrap();
    let done = session.generate(&prompt, &mut sampler, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    let all: Vec<u32> = prompt.iter().chain(&done.tokens).copied().collect();
    let shown = DecodeOptions { special: true, strip_space_prefix: false, ..DecodeOptions::default() };
    tokenizer.decode(&all, shown)
}

fn everything_on(name: &str) {
    let (Some(folder), Some((device, executor))) = (folder(), executor(name)) else { return };
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
        let ours = executor.scope(|| text(path, &offload, 64));
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

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

use rustorch::core::{Backend, cache_dir, packed_bytes};
use rustorch::llm::model::Offload;
use rustorch::runtime::{HybridExecutor, Placement};
use rustorch_kernels::Engine;
use std::path::PathBuf;
use std::sync::Arc;

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
    // Other devices, and other drivers for the same one.
    for candidate in rustorch_opencl::discover().devices.iter().skip(1) {
        everything_on(&candidate.hardware().device.to_string());
    }
}

/// What the output layer of a large model is to a GPU whose kernels see 128 MiB at once, most weights of these files are to
/// one whose kernels see 64 KiB.
#[test]
fn weights_larger_than_what_kernels_see_at_once_are_multiplied_on_the_device() {
    const LIMIT: u64 = 64 << 10;
    let Some(folder) = common::folder() else { return };
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return println!("skipped: {none}"),
    };
    let driver = adapters[0].open_within(LIMIT, cache_dir().as_deref()).unwrap();
    let backend: Arc<dyn Backend> = Arc::new(Engine::new(driver).unwrap());
    let device = backend.device();
    let executor = HybridExecutor::builder().backend(backend).placement(Placement::Resident).build().unwrap();
    for name in ["stories260K-x4-Q4_K_M", "stories260K-x4-Q8_0", "stories260K-x4-F16"] {
        let path = folder.join(name).with_extension("gguf");
        let expected = std::fs::read_to_string(path.with_extension("greedy64.txt")).unwrap();
        let offload = Offload { device, blocks: None, bytes: None };
        let (ours, explanation) = executor.explain(|| {
            let (mut session, moved) = common::session(&path, Some(&offload));
            assert!(moved.output && moved.kept.is_empty(), "{name}: {moved:?}");
            common::text(&mut session, 64, &mut |_| {})
        });
        assert_eq!(ours.trim_end_matches('\n'), expected.trim_end_matches('\n'), "{name}");
        let large = explanation.records().iter().filter(|record| {
            record.op == "matmul" && {
                let (dtype, shape) = &record.args[1];
                packed_bytes(*dtype, shape.elements()) as u64 > LIMIT
            }
        });
        let (mut count, mut elsewhere) = (0, 0);
        for record in large {
            count += 1;
            elsewhere += usize::from(record.device != Some(device));
        }
        println!("{name}: {count} products with weights of more than {LIMIT} bytes");
        assert!(count >= 64 && elsewhere == 0, "{name}: {elsewhere} of {count} elsewhere");
    }
}

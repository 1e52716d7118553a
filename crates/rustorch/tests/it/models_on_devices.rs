//! Language models on every device of the machine: the tokens of llama.cpp, whatever the device.
//!
//! Expected: `NAME.greedy64.txt` in the shared test data, what `llama-simple -m NAME.gguf -n 64 "Once upon a time"`
//! printed.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use crate::common;
use rustorch::core::{Backend, OpKind, cache_dir, packed_bytes};
use rustorch::llm::model::Offload;
use rustorch::runtime::{HybridExecutor, Placement};
use rustorch_kernels::Engine;
use rustorch_testkit::conformance::Extent;
use rustorch_testkit::{Requirement, skip};
use std::path::PathBuf;
use std::sync::Arc;

/// One model in `share` (or those that `MODEL` names) writes 16 tokens, with `RUSTORCH_CONFORMANCE=all` each one 64.
fn everything_on(name: &str, share: usize) {
    let only = std::env::var("MODEL").ok();
    let (tokens, share) = match Extent::from_env(Extent::Sample) {
        Extent::Sample if only.is_none() => (16, share),
        Extent::Sample => (16, 1),
        _ => (64, 1),
    };
    models_on(name, only.as_deref(), tokens, share);
}

/// Whether a text is the expected one of 64 tokens, or its beginning of so many.
fn is_expected(ours: &str, expected: &str, tokens: usize) -> bool {
    let (ours, expected) = (ours.trim_end_matches('\n'), expected.trim_end_matches('\n'));
    match tokens {
        64 => ours == expected,
        // At least a character for each two tokens, after the prompt.
        _ => expected.starts_with(ours) && ours.len() > 16 + tokens / 2,
    }
}

/// Has one in `share` of the models whose names contain `only` write `tokens`, all of them on the device.
fn models_on(name: &str, only: Option<&str>, tokens: usize, share: usize) {
    let Some(folder) = common::folder() else { return };
    let Some((device, executor)) = common::executor(name) else {
        return assert!(std::env::var_os("FAKE_EMULATOR").is_none(), "the emulated GPU is not found");
    };
    let (mut wrong, mut count) = (Vec::new(), 0);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let models = files.iter().filter(|path| path.extension().is_some_and(|e| e == "gguf"));
    for path in models.step_by(share) {
        let name = path.file_stem().unwrap().to_string_lossy();
        if only.is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let expected = std::fs::read_to_string(path.with_extension("greedy64.txt")).unwrap();
        let offload = Offload { device, blocks: None, bytes: None };
        let ours = executor.scope(|| {
            let (mut session, moved) = common::session(path, Some(&offload));
            println!("{name}: {moved:?}");
            common::text(&mut session, tokens, &mut |_| {})
        });
        count += 1;
        if !is_expected(&ours, &expected, tokens) {
            wrong.push(format!("{name}:\n  ours  {ours:?}\n  llama {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} files differ\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 0, "no file is named like {only:?}");
}

#[test]
fn vulkan_writes_what_llama_cpp_writes() {
    everything_on("vulkan", 8);
}

#[test]
fn opencl_writes_what_llama_cpp_writes() {
    common::apart("models_on_devices::opencl_writes_what_llama_cpp_writes", || {
        everything_on("opencl", 20);
        // Other devices, and other drivers for the same one.
        for candidate in rustorch_opencl::discover().devices.iter().skip(1) {
            everything_on(&candidate.hardware().device.to_string(), 6);
        }
    });
}

#[test]
fn cuda_writes_what_llama_cpp_writes() {
    everything_on("cuda", 1);
}

/// One model and some tokens, or with `RUSTORCH_CONFORMANCE=all` each model (or those that `MODEL` names) and all tokens.
#[test]
#[cfg(target_os = "linux")]
fn an_emulated_gpu_writes_what_llama_cpp_writes() {
    common::fakes::emulated("models_on_devices::an_emulated_gpu_writes_what_llama_cpp_writes", &[], || {
        let only = std::env::var("MODEL").ok();
        match Extent::from_env(Extent::Sample) {
            Extent::Sample if only.is_none() => models_on("cuda", Some("x4-Q4_K_M"), 12, 1),
            _ => models_on("cuda", only.as_deref(), 64, 1),
        }
    });
}

/// What the output layer of a large model is to a GPU whose kernels see 128 MiB at once, most weights of these files are to
/// one whose kernels see 64 KiB.
#[test]
fn weights_larger_than_what_kernels_see_at_once_are_multiplied_on_the_device() {
    const LIMIT: u64 = 64 << 10;
    let Some(folder) = common::folder() else { return };
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    let driver = adapters[0].open_within(LIMIT, cache_dir().as_deref()).unwrap();
    let backend: Arc<dyn Backend> = Arc::new(Engine::new(driver).unwrap());
    let device = backend.device();
    let executor = HybridExecutor::builder().backend(backend).placement(Placement::Resident).build().unwrap();
    let tokens = if Extent::from_env(Extent::Sample) == Extent::Sample { 16 } else { 64 };
    for name in ["stories260K-x4-Q4_K_M", "stories260K-x4-Q8_0", "stories260K-x4-F16"] {
        let path = folder.join(name).with_extension("gguf");
        let expected = std::fs::read_to_string(path.with_extension("greedy64.txt")).unwrap();
        let offload = Offload { device, blocks: None, bytes: None };
        let (ours, explanation) = executor.explain(|| {
            let (mut session, moved) = common::session(&path, Some(&offload));
            assert!(moved.output && moved.unsupported.is_empty(), "{name}: {moved:?}");
            common::text(&mut session, tokens, &mut |_| {})
        });
        assert!(is_expected(&ours, &expected, tokens), "{name}: {ours:?}, not {expected:?}");
        let large = explanation.records().iter().filter(|record| {
            record.op == OpKind::MatMul && {
                let (dtype, shape) = &record.args[1];
                packed_bytes(*dtype, shape.numel()) as u64 > LIMIT
            }
        });
        let (mut count, mut elsewhere) = (0, 0);
        for record in large {
            count += 1;
            elsewhere += usize::from(record.device != Some(device));
        }
        println!("{name}: {count} matmuls with weights of more than {LIMIT} bytes");
        assert!(count >= tokens && elsewhere == 0, "{name}: {elsewhere} of {count} elsewhere");
    }
}

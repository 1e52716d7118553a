//! Everything computed in f32 with a device first in the fallback order: matmuls of dequantized weights run there, and the logits are
//! those of the dequantized weights.
//!
//! Expected: `fixtures/logits_f32.jsonl` of `rustorch-llm`, written by `tools/oracle/llama_logits_f32.py`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use crate::architectures_on_devices::agreement::error;
use crate::common::{self, oracle};
use rustorch::core::{DType, Device, Numerics};
use rustorch::llm::generate::Session;
use rustorch::llm::model::Offload;
use rustorch::runtime::Placement;
use rustorch_testkit::conformance::Extent;
use std::path::Path;

/// Block types without kernels, which the CPU multiplies.
const ELSEWHERE: [&str; 1] = ["IQ3_S"];

fn session(path: &Path, device: Device) -> Session {
    common::session_with(path, Some(&Offload { device, blocks: None, bytes: None }), Numerics::F32).0
}

/// Of one model in `share`, or with `RUSTORCH_CONFORMANCE=all` or `MODEL` of each.
fn logits_on(name: &str, share: usize) {
    let (Some(folder), Some((device, executor))) = (common::folder(), common::executor(name)) else { return };
    // As `--backend hybrid-f32` has it where the device is the first of the fallback order.
    let executor = executor.with_policy(Placement::FirstSupported).unwrap();
    let only = std::env::var("MODEL").ok();
    let share = if only.is_some() { 1 } else { Extent::share(share) };
    let lines = include_str!("../../../rustorch-llm/tests/fixtures/logits_f32.jsonl").lines();
    for line in lines.step_by(share) {
        let want: serde_json::Value = serde_json::from_str(line).unwrap();
        let model = want["model"].as_str().unwrap();
        if only.as_ref().is_some_and(|only| !model.contains(only.as_str())) {
            continue;
        }
        let tokens: Vec<u32> =
            want["tokens"].as_array().unwrap().iter().map(|t| t.as_u64().unwrap() as u32).collect();
        let theirs = oracle::floats(want["logits"].as_str().unwrap());
        let path = folder.join(model);
        let (at_once, explanation) =
            executor.explain(|| session(&path, device).feed(&tokens).unwrap().to_vec());
        assert_eq!(at_once.len(), theirs.len());
        let ours = error(&at_once, &theirs);
        println!("{model} on {device}: {ours:.2e} of the range");
        assert!(ours <= 1e-4, "{model}: {ours:e}");

        let products =
            explanation.records().iter().filter(|r| r.op.name() == "matmul" && r.args[1].0 != DType::F32);
        let here = products.clone().filter(|r| r.device == Some(device)).count();
        let all = products.count();
        assert!(all > 10, "{model}: {all} matmuls");
        if ELSEWHERE.iter().all(|ty| !model.contains(ty)) {
            assert_eq!(here, all, "{model}: {explanation}");
        }

        let one_by_one = executor.scope(|| {
            let mut session = session(&path, device);
            tokens.iter().map(|&token| session.feed(&[token]).unwrap().to_vec()).last().unwrap()
        });
        assert_eq!(at_once, one_by_one, "{model}: a row of a matmul must not depend on the others");
    }
}

#[test]
fn vulkan_gives_the_logits_of_the_decoded_weights() {
    logits_on("vulkan", 5);
}

#[test]
fn opencl_gives_the_logits_of_the_decoded_weights() {
    common::apart("hybrid_f32_on_devices::opencl_gives_the_logits_of_the_decoded_weights", || {
        logits_on("opencl", 8)
    });
}

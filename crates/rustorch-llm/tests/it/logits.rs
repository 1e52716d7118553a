//! Logits and greedy ids equal llama.cpp's, for every type of weights in small models of our own, and for every quantization and every
//! architecture of the shared test data.
//!
//! Expected: `fixtures/block_models/logits.jsonl` and `fixtures/logits.jsonl`, written by `tools/oracle/llama_logits.py`; the models in
//! `fixtures/block_models` by `tools/oracle/block_models.py`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use crate::common;
use rustorch_core::{DType, QuantType};
use rustorch_formats::gguf::File;
use rustorch_llm::LanguageModel;
use rustorch_llm::generate::{Session, SessionOptions};
use rustorch_testkit::conformance::Extent;
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

#[derive(Deserialize)]
struct Expected {
    model: String,
    tokens: Vec<u32>,
    logits: String,
    greedy: Vec<u32>,
    margin: f32,
}

impl Expected {
    fn all(text: &str) -> HashMap<String, Expected> {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .map(|e: Expected| (e.model.clone(), e))
            .collect()
    }

    fn logits(&self) -> Vec<f32> {
        common::floats(&self.logits)
    }
}

fn session(path: &Path) -> Session {
    let model: Arc<LanguageModel> = common::open(path);
    let options = SessionOptions { context: 128, ..SessionOptions::for_model(&model) };
    Session::new(model, options).unwrap()
}

/// Kullback–Leibler divergence of the distribution of `b` from that of `a`.
fn divergence(a: &[f32], b: &[f32]) -> f64 {
    let log_probabilities = |logits: &[f32]| -> Vec<f64> {
        let most = logits.iter().copied().fold(f32::MIN, f32::max) as f64;
        let sum: f64 = logits.iter().map(|&x| (x as f64 - most).exp()).sum();
        logits.iter().map(|&x| x as f64 - most - sum.ln()).collect()
    };
    let (p, q) = (log_probabilities(a), log_probabilities(b));
    p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum()
}

/// Whether this machine's mathematical library is the oracle's, which has other code for CPUs without fused
/// multiply-add. Whatever the instruction set, everything else rounds as there.
fn rounds_as_the_oracle() -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
    return false;
}

/// Block types whose sums are taken in another order than ggml's, so that logits differ in their last bits.
const SUMMED_OTHERWISE: [DType; 3] =
    [DType::Quant(QuantType::NVFP4), DType::Quant(QuantType::Q1_0), DType::Quant(QuantType::Q2_0)];
/// The models of our own.
const BLOCK_MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/block_models");
/// What llama.cpp computes with the shared models.
const SHARED: &str = include_str!("../fixtures/logits.jsonl");

/// Compares one model in `share` of a folder with what is expected; returns what disagrees.
fn compare(folder: &Path, expected: &str, share: usize) -> Vec<String> {
    let expected = Expected::all(expected);
    let mut wrong = Vec::new();
    for path in common::models(folder).into_iter().step_by(share) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let want = &expected[name];
        let mut session = session(&path);
        let ours = session.feed(&want.tokens).unwrap().to_vec();
        let theirs = want.logits();
        assert_eq!(ours.len(), theirs.len(), "{name}");

        let (low, high) = theirs.iter().fold((f32::MAX, f32::MIN), |(l, h), &x| (l.min(x), h.max(x)));
        let error = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / (high - low);
        let kl = divergence(&theirs, &ours);
        println!("{name}: largest error {error:.2e} of the range, KL {kl:.2e}, margin {}", want.margin);
        let dense = session.model().file().summary().by_dtype.iter().all(|d| d.dtype == DType::F32);
        if dense && error > 1e-4 {
            wrong.push(format!("{name}: an error of {error:.2e} of the logits' range"));
        }
        let dtypes = &session.model().file().summary().by_dtype;
        let sums_as_ggml = !dtypes.iter().any(|d| SUMMED_OTHERWISE.contains(&d.dtype));
        let quantized = dtypes.iter().any(|d| d.dtype.is_quant());
        if quantized && sums_as_ggml && rounds_as_the_oracle() && error != 0.0 {
            wrong.push(format!(
                "{name}: not llama.cpp's logits to the last bit, but {error:.2e} of their range apart"
            ));
        }
        if kl.is_nan() || kl > 1e-3 {
            wrong.push(format!("{name}: KL {kl:.2e}"));
        }

        let mut greedy = vec![common::argmax(&ours)];
        while greedy.len() < want.greedy.len() {
            let next = common::argmax(session.feed(&greedy[greedy.len() - 1..]).unwrap());
            greedy.push(next);
        }
        if greedy != want.greedy {
            wrong.push(format!(
                "{name}: greedy ids\n  ours  {greedy:?}\n  llama {:?} (margin {})",
                want.greedy, want.margin
            ));
        }
    }
    wrong
}

#[test]
fn every_type_of_weights_agrees_with_llama_cpp() {
    let wrong = compare(Path::new(BLOCK_MODELS), include_str!("../fixtures/block_models/logits.jsonl"), 1);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_models_of_our_own_multiply_with_every_type_of_weights() {
    // Formats of activations: llama.cpp does not multiply with weights in them.
    let of_activations = [QuantType::Q8_1, QuantType::Q8_K];
    let blocks = QuantType::ALL.iter().filter(|block| !of_activations.contains(block));
    let mut missing: BTreeSet<DType> =
        blocks.map(|&block| DType::Quant(block)).chain([DType::F32, DType::F16, DType::BF16]).collect();
    for path in common::models(Path::new(BLOCK_MODELS)) {
        let file = File::open(&path).unwrap();
        let matrices = file.tensors().filter(|tensor| tensor.shape().len() == 2);
        for matrix in matrices.filter(|tensor| tensor.name() != "token_embd.weight") {
            missing.remove(&matrix.dtype());
        }
    }
    assert!(
        missing.is_empty(),
        "no model multiplies with {missing:?}; add them to tools/oracle/block_models.py"
    );
}

/// Of one model in three, or with `RUSTORCH_CONFORMANCE=all` of each; so are architectures.
#[test]
fn every_quantization_agrees_with_llama_cpp() {
    let Some(folder) = common::shared("models") else { return };
    let wrong = compare(&folder, SHARED, Extent::share(3));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_architecture_agrees_with_llama_cpp() {
    let Some(folder) = common::shared("archs") else { return };
    let wrong = compare(&folder, SHARED, Extent::share(3));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! Logits and greedy ids equal llama.cpp's, for every quantization and every architecture of the shared test data.
//!
//! Expected: `fixtures/logits.jsonl`, written by `tools/oracle/llama_logits.py`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

mod common;

use rustorch_llm::LanguageModel;
use rustorch_llm::generate::{Session, SessionOptions};
use serde::Deserialize;
use std::collections::HashMap;
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
    fn all() -> HashMap<String, Expected> {
        let text = include_str!("fixtures/logits.jsonl");
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

/// Whether this machine's mathematical library is the oracle's, which has other code for processors without fused
/// products. Whatever the instruction set, everything else rounds as there.
fn rounds_as_the_oracle() -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
    return false;
}

/// Compares every model of a folder; returns what disagrees.
fn compare(folder: &Path) -> Vec<String> {
    let expected = Expected::all();
    let mut wrong = Vec::new();
    for path in common::models(folder) {
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
        let dense =
            session.model().file().summary().by_dtype.iter().all(|d| d.dtype == rustorch_core::DType::F32);
        if dense && error > 1e-4 {
            wrong.push(format!("{name}: an error of {error:.2e} of the logits' range"));
        }
        let quantized = session.model().file().summary().by_dtype.iter().any(|d| d.dtype.is_quant());
        if quantized && rounds_as_the_oracle() && error != 0.0 {
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
fn every_quantization_agrees_with_llama_cpp() {
    let Some(folder) = common::shared("models") else { return };
    let wrong = compare(&folder);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_architecture_agrees_with_llama_cpp() {
    let Some(folder) = common::shared("archs") else { return };
    let wrong = compare(&folder);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! Everything computed in f32: the logits are those of the decoded weights.
//!
//! Expected: `fixtures/logits_f32.jsonl`, written by `tools/oracle/llama_logits_f32.py`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use crate::common;
use rustorch_core::{DType, Numerics};
use rustorch_llm::LanguageModel;
use rustorch_llm::generate::{Session, SessionOptions};
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;

#[derive(Deserialize)]
struct Expected {
    model: String,
    tokens: Vec<u32>,
    logits: String,
}

fn session(path: &Path, numerics: Numerics) -> Session {
    let mut model = LanguageModel::open(path).unwrap();
    model.set_numerics(numerics);
    let model = Arc::new(model);
    let options = SessionOptions { context: 64, ..SessionOptions::for_model(&model) };
    Session::new(model, options).unwrap()
}

/// The largest difference, as a part of the range of the second.
fn error(ours: &[f32], theirs: &[f32]) -> f32 {
    let (low, high) = theirs.iter().fold((f32::MAX, f32::MIN), |(l, h), &x| (l.min(x), h.max(x)));
    ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / (high - low)
}

#[test]
fn logits_are_those_of_the_decoded_weights() {
    let Some(folder) = common::shared("models") else { return };
    let lines = include_str!("../fixtures/logits_f32.jsonl").lines();
    for want in lines.map(|line| serde_json::from_str::<Expected>(line).unwrap()) {
        let path = folder.join(&want.model);
        let theirs = common::floats(&want.logits);
        let mut whole = session(&path, Numerics::F32);
        assert_eq!(whole.cache().dtype(), DType::F32);
        let at_once = whole.feed(&want.tokens).unwrap().to_vec();
        let mut again = session(&path, Numerics::F32);
        let mut one_by_one = Vec::new();
        for &token in &want.tokens {
            one_by_one = again.feed(&[token]).unwrap().to_vec();
        }
        assert_eq!(at_once.len(), theirs.len());
        let ours = error(&at_once, &theirs);
        let rounded = error(session(&path, Numerics::Ggml).feed(&want.tokens).unwrap(), &theirs);
        println!("{}: {ours:.2e} of the range; {rounded:.2e} in the weights' precision", want.model);
        assert!(ours <= 1e-4, "{}: {ours:e}", want.model);
        // Otherwise the mode changes nothing, and the test says nothing.
        assert!(rounded > 4.0 * ours, "{}: {rounded:e} {ours:e}", want.model);
        assert_eq!(at_once, one_by_one, "{}", want.model);
    }
}

#[test]
fn the_cache_is_twice_as_large() {
    let mut model = LanguageModel::open(common::carried_path()).unwrap();
    let bytes = |model: &LanguageModel| model.model().new_cache(32).unwrap().bytes();
    let sixteen_bits = bytes(&model);
    model.set_numerics(Numerics::F32);
    assert_eq!(bytes(&model), 2 * sixteen_bits);
}

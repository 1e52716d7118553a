//! `Numerics::Fast` is as near to the model that was quantized as `Numerics::Ggml`, and writes the same text.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use crate::common;
use rustorch_core::Numerics;
use rustorch_llm::LanguageModel;
use rustorch_llm::evaluate::{Chunks, LogProbsReader, LogProbsWriter, kl_divergence, perplexity};
use rustorch_llm::tokenizer::EncodeOptions;
use rustorch_testkit::conformance::Extent;
use std::path::{Path, PathBuf};

/// One model in three, or with `RUSTORCH_CONFORMANCE=all` each.
fn models(folder: &Path) -> Vec<PathBuf> {
    common::models(folder).into_iter().step_by(Extent::share(3)).collect()
}

fn open(path: &Path, numerics: Numerics) -> LanguageModel {
    // SAFETY: nobody changes the test data.
    let mut model = unsafe { LanguageModel::open_mapped(path) }.unwrap();
    model.set_numerics(numerics);
    model
}

#[test]
fn divergence_from_the_unquantized_model_is_that_of_ggml_s_order_of_sums() {
    let Some(folder) = common::shared("models") else { return };
    let Some(text) = common::shared("text") else { return };
    let text = std::fs::read_to_string(text.join("tinyshakespeare.txt")).unwrap();
    // Half of each chunk is scored.
    let (context, scored) = (256, 2_000);
    let whole = open(&folder.join("stories260K-f32.gguf"), Numerics::F32);
    let chunks = Chunks::of_text(&whole, &text, context, Some(2 * scored / context + 1)).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let base = temporary.path().join("base.dat");
    let mut writer = LogProbsWriter::create(&base, &whole, &chunks).unwrap();
    perplexity(&whole, &chunks, Some(&mut writer), &mut |_, _| {}).unwrap();
    writer.finish().unwrap();
    for path in models(&folder) {
        let [ggml, fast] = [Numerics::Ggml, Numerics::Fast].map(|numerics| {
            let mut base = LogProbsReader::open(&base).unwrap();
            let found = kl_divergence(&open(&path, numerics), &mut base, &mut |_, _| {}).unwrap();
            assert!(found.tokens() >= scored, "{}", found.tokens());
            found.mean().value
        });
        println!("{}: {ggml:.6} as ggml, {fast:.6} fast", path.display());
        // Log probabilities are kept in 16 bits, whose roundings make a divergence of 1e-6 of a model from itself.
        assert!(fast <= 1.02 * ggml + 1e-6, "{}: {ggml} as ggml, {fast} fast", path.display());
    }
}

/// Tokens chosen one after another, and how far the last chosen are above two other tokens, where these are named.
fn greedy(model: &LanguageModel, prompt: &[u32], count: usize) -> (Vec<u32>, Vec<Vec<f32>>) {
    let mut cache = model.model().new_cache(prompt.len() + count).unwrap();
    let (mut tokens, mut rows) = (Vec::new(), Vec::new());
    let mut next = prompt.to_vec();
    for _ in 0..count {
        let logits = model.model().forward(&next, &mut cache, false).unwrap().to_vec::<f32>().unwrap();
        let best = common::argmax(&logits);
        tokens.push(best);
        rows.push(logits);
        next = vec![best];
    }
    (tokens, rows)
}

#[test]
fn greedy_text_is_the_same_unless_two_tokens_tie() {
    let Some(folder) = common::shared("models") else { return };
    for path in models(&folder) {
        let [ggml, fast] = [Numerics::Ggml, Numerics::Fast].map(|numerics| {
            let model = open(&path, numerics);
            let options = EncodeOptions { add_special: true, parse_special: true };
            let prompt = model.tokenizer().unwrap().encode("Once upon a time", options);
            greedy(&model, &prompt, 64)
        });
        if let Some(i) = (0..64).find(|&i| ggml.0[i] != fast.0[i]) {
            let logits = &fast.1[i];
            let apart = logits[fast.0[i] as usize] - logits[ggml.0[i] as usize];
            println!("{}: token {i} differs, {apart} apart", path.display());
            assert!(apart < 1e-3, "{}: token {i} differs, {apart} apart", path.display());
        }
    }
}

#[test]
fn a_prompt_in_any_pieces_on_any_number_of_threads_gives_the_same_bits() {
    let mut model = common::carried_model();
    model.set_numerics(Numerics::Fast);
    let ids: Vec<u32> = (0..60).map(|i| (i * 37 + 11) % 200 + 3).collect();
    let last = |threads: usize, pieces: usize| {
        let executor = rustorch_runtime::HybridExecutor::builder().threads(threads).build().unwrap();
        executor.scope(|| {
            let mut cache = model.model().new_cache(64).unwrap();
            let mut bits = Vec::new();
            for piece in ids.chunks(pieces) {
                let logits = model.model().forward(piece, &mut cache, false).unwrap();
                bits = logits.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect();
            }
            bits
        })
    };
    let whole = last(1, 60);
    for (threads, pieces) in [(2, 60), (1, 1), (2, 7), (3, 31)] {
        assert!(last(threads, pieces) == whole, "{threads} threads, {pieces} tokens at once");
    }
    model.set_numerics(Numerics::Ggml);
    assert!(last(1, 60) != whole, "the other numerics have other last bits");
}

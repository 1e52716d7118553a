//! `Numerics::Fast` is as near to the model that was quantized as `Numerics::Ggml`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use crate::common;
use rustorch_core::Numerics;
use rustorch_llm::LanguageModel;
use rustorch_llm::evaluate::{Chunks, LogProbsReader, LogProbsWriter, kl_divergence, perplexity};
use rustorch_testkit::conformance::Extent;
use std::path::{Path, PathBuf};

/// One model in five, or with `RUSTORCH_CONFORMANCE=all` each.
fn models(folder: &Path) -> Vec<PathBuf> {
    common::models(folder).into_iter().step_by(Extent::share(5)).collect()
}

fn open(path: &Path, numerics: Numerics) -> LanguageModel {
    // SAFETY: nobody changes the test data.
    let mut model = unsafe { LanguageModel::open_mapped(path) }.unwrap();
    model.set_numerics(numerics);
    model
}

/// Tokens whose distributions are compared, half of each chunk's.
const SCORED: usize = 2_000;
const CONTEXT: usize = 256;

/// Text may differ: where a sum rounds otherwise, an activation may round to another of its 8-bit codes, as between two of llama.cpp's own
/// orders.
#[test]
fn distributions_are_as_near_to_the_unquantized_model_s_as_by_ggml_s_order_of_sums() {
    let Some(folder) = common::shared("models") else { return };
    let Some(text) = common::shared("text") else { return };
    let text = std::fs::read_to_string(text.join("tinyshakespeare.txt")).unwrap();
    let whole = open(&folder.join("stories260K-f32.gguf"), Numerics::F32);
    let chunks = Chunks::of_text(&whole, &text, CONTEXT, Some(2 * SCORED / CONTEXT + 1)).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let base = temporary.path().join("whole");
    let mut writer = LogProbsWriter::create(&base, &whole, &chunks).unwrap();
    perplexity(&whole, &chunks, Some(&mut writer), &mut |_, _| {}).unwrap();
    writer.finish().unwrap();
    for path in models(&folder) {
        let [ggml, fast] = [Numerics::Ggml, Numerics::Fast].map(|numerics| {
            let mut base = LogProbsReader::open(&base).unwrap();
            let found = kl_divergence(&open(&path, numerics), &mut base, &mut |_, _| {}).unwrap();
            assert!(found.tokens() >= SCORED, "{}", found.tokens());
            found.mean().value
        });
        println!("{}: {ggml:.6} as ggml, {fast:.6} fast", path.display());
        // Log probabilities are kept in 16 bits: the unquantized model diverges from its own by 5e-6.
        assert!(fast <= 1.02 * ggml + 1e-5, "{}: {ggml} as ggml, {fast} fast", path.display());
    }
}

#[test]
fn a_prompt_in_any_pieces_on_any_number_of_threads_gives_the_same_bits() {
    let [fast, ggml] = [Numerics::Fast, Numerics::Ggml].map(|numerics| {
        let mut model = common::carried_model();
        model.set_numerics(numerics);
        model
    });
    let ids: Vec<u32> = (0..60).map(|i| (i * 37 + 11) % 200 + 3).collect();
    let last = |model: &LanguageModel, threads: usize, pieces: usize| {
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
    let whole = last(&fast, 1, 60);
    for (threads, pieces) in [(2, 60), (1, 1), (2, 7), (3, 31)] {
        assert!(last(&fast, threads, pieces) == whole, "{threads} threads, {pieces} tokens at once");
    }
    assert!(last(&ggml, 1, 60) != whole, "the other numerics have other last bits");
}

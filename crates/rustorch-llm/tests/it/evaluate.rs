//! Perplexity and divergence against llama-perplexity: `tools/oracle/llama_evaluate.py` makes the expected values.

use crate::common;
use rustorch_core::Numerics;
use rustorch_formats::gguf::File;
use rustorch_llm::LanguageModel;
use rustorch_llm::evaluate::{
    Chunks, Estimate, EvaluateError, LogProbsReader, LogProbsWriter, kl_divergence, perplexity,
};
use rustorch_llm::quantize::{Mixture, Quantization, QuantizeOptions};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Expected {
    context: usize,
    chunks: usize,
    model: ExpectedPerplexity,
    copy: ExpectedPerplexity,
    /// Figures by llama-perplexity's names, with their uncertainties.
    divergence: BTreeMap<String, Vec<f64>>,
}

#[derive(Deserialize)]
struct ExpectedPerplexity {
    running: Vec<f64>,
    perplexity: f64,
    uncertainty: f64,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/evaluate").join(name)
}

fn text() -> String {
    std::fs::read_to_string(fixture("text.txt")).unwrap()
}

fn near(what: &str, found: f64, expected: f64, relative: f64, absolute: f64) {
    let allowed = relative * expected.abs() + absolute;
    assert!((found - expected).abs() <= allowed, "{what}: {found}, llama.cpp has {expected}");
}

/// The embedded model made one mixture after another, the last of which is `F32`; activations, keys and values are not rounded. What llama-quantize makes
/// has the same data.
pub(crate) fn exact(mixtures: &[Mixture]) -> LanguageModel {
    let mut file = File::open(common::carried_path()).unwrap();
    for &mixture in mixtures {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let options = QuantizeOptions { allow_requantize: true, ..QuantizeOptions::new(mixture) };
        Quantization::plan(&file, &options).unwrap().write(&path, &|_, _| {}).unwrap();
        file = File::open(&path).unwrap();
    }
    let mut model = LanguageModel::from_file(file, &mut |_, _| {}).unwrap();
    model.set_numerics(Numerics::F32);
    model
}

#[test]
fn perplexity_and_divergence_are_llama_cpp_s() {
    let expected: Expected =
        serde_json::from_str(&std::fs::read_to_string(fixture("perplexity.json")).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base.dat");
    let model = exact(&[Mixture::F32]);
    let chunks = Chunks::of_text(&model, &text(), expected.context, Some(expected.chunks)).unwrap();
    assert_eq!(chunks.len(), expected.chunks);
    let check = |model: &LanguageModel, expected: &ExpectedPerplexity, base: Option<&mut LogProbsWriter>| {
        let mut running = Vec::new();
        let found = perplexity(model, &chunks, base, &mut |chunk, so_far| {
            running.push(so_far.estimate().value);
            assert_eq!(running.len(), chunk);
        });
        let found = found.unwrap();
        for (found, expected) in running.iter().zip(&expected.running) {
            near("running perplexity", *found, *expected, 1e-5, 5e-5);
        }
        let Estimate { value, uncertainty } = found.estimate();
        near("perplexity", value, expected.perplexity, 1e-5, 5e-5);
        near("uncertainty", uncertainty, expected.uncertainty, 1e-5, 5e-5);
        assert_eq!((running.len(), running.last()), (expected.running.len(), Some(&value)));
        assert_eq!(found.tokens(), chunks.len() * (chunks.context() - 1 - chunks.context() / 2));
    };
    let mut writer = LogProbsWriter::create(&base, &model, &chunks).unwrap();
    check(&model, &expected.model, Some(&mut writer));
    assert!(!base.exists(), "the file appears only when it is whole");
    writer.finish().unwrap();
    let copy = exact(&[Mixture::Q4_0, Mixture::F32]);
    check(&copy, &expected.copy, None);

    let mut rows = 0;
    let mut base = LogProbsReader::open(&base).unwrap();
    let found = kl_divergence(&copy, &mut base, &mut |chunk, _| rows = chunk).unwrap();
    assert_eq!(rows, expected.chunks);
    let (divergences, differences) = (found.divergences(), found.probability_differences());
    let plain = |value: f64| Estimate { value, uncertainty: 0.0 };
    let quantile = |of: &rustorch_llm::evaluate::Distribution, fraction| plain(of.quantile(fraction).into());
    for (name, found) in [
        ("Mean PPL(Q)", found.perplexity()),
        ("Mean PPL(base)", found.base_perplexity()),
        ("Cor(ln(PPL(Q)), ln(PPL(base)))", plain(found.correlation())),
        ("Mean ln(PPL(Q)/PPL(base))", found.log_ratio()),
        ("Mean PPL(Q)/PPL(base)", found.ratio()),
        ("Mean PPL(Q)-PPL(base)", found.difference()),
        ("Mean KLD", found.mean()),
        ("Maximum KLD", quantile(&divergences, 1.0)),
        ("99.0% KLD", quantile(&divergences, 0.99)),
        ("Median KLD", quantile(&divergences, 0.5)),
        ("5.0% KLD", quantile(&divergences, 0.05)),
        ("Minimum KLD", quantile(&divergences, 0.0)),
        ("Mean Δp", found.probability_difference()),
        ("Maximum Δp", quantile(&differences, 1.0)),
        ("75.0% Δp", quantile(&differences, 0.75)),
        ("Minimum Δp", quantile(&differences, 0.0)),
        ("RMS Δp", found.rms_probability_difference()),
        ("Same top p", found.same_top()),
    ] {
        let expected = expected.divergence.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        // llama-perplexity prints three to six decimals, of percents as of others.
        near(name, found.value, expected[0], 1e-3, 1e-5);
        if let Some(uncertainty) = expected.get(1) {
            near(name, found.uncertainty, *uncertainty, 1e-3, 1e-5);
        }
    }
}

#[test]
fn files_of_log_probabilities_are_llama_cpp_s() {
    let model = exact(&[Mixture::F32]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("base.dat");
    let chunks = Chunks::of_text(&model, &text(), 16, Some(2)).unwrap();
    let mut writer = LogProbsWriter::create(&path, &model, &chunks).unwrap();
    perplexity(&model, &chunks, Some(&mut writer), &mut |_, _| {}).unwrap();
    writer.finish().unwrap();
    let (ours, theirs) = (std::fs::read(&path).unwrap(), std::fs::read(fixture("base.dat")).unwrap());
    assert_eq!(ours.len(), theirs.len());
    // Sizes and tokens.
    let head = 20 + 4 * 32;
    assert_eq!(ours[..head], theirs[..head]);
    let row = 8 + 2 * 2048;
    for (i, (ours, theirs)) in ours[head..].chunks(row).zip(theirs[head..].chunks(row)).enumerate() {
        let float = |row: &[u8], at: usize| f32::from_le_bytes(row[at..at + 4].try_into().unwrap());
        for token in 0..2048 {
            let value = |row: &[u8]| {
                let code = u16::from_le_bytes(row[8 + 2 * token..][..2].try_into().unwrap());
                float(row, 0) * f32::from(code) + float(row, 4)
            };
            let (ours, theirs) = (value(ours), value(theirs));
            assert!((ours - theirs).abs() < 5e-3, "row {i}, token {token}: {ours}, llama.cpp has {theirs}");
        }
    }
    // A model is as far from itself as rounding to codes is.
    let mut theirs = LogProbsReader::open(fixture("base.dat")).unwrap();
    assert_eq!((theirs.chunks().len(), theirs.vocabulary()), (2, 2048));
    let found = kl_divergence(&model, &mut theirs, &mut |_, _| {}).unwrap();
    assert!(found.mean().value.abs() < 1e-4 && found.same_top().value > 0.9, "{:?}", found.mean());
    near("ratio", found.ratio().value, 1.0, 1e-3, 0.0);
}

#[test]
fn what_cannot_be_evaluated_is_refused() {
    let model = common::carried();
    let short = Chunks::of_text(&model, "Who is there?", 512, None).unwrap_err().to_string();
    assert!(short.contains("fewer than one chunk of 512") && short.contains("--ctx-size"), "{short}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("base.dat");
    let theirs = std::fs::read(fixture("base.dat")).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        LogProbsReader::open(&path).err().unwrap().to_string()
    };
    for bytes in [&b""[..], b"GGUF and more than twenty bytes", &theirs[..19]] {
        assert!(refused(bytes).contains("is no file of log probabilities"));
    }
    assert!(refused(&theirs[..theirs.len() - 1]).contains("chunks of 16 tokens"));
    let mut huge = theirs.clone();
    huge[8..20].fill(0xFF);
    assert!(refused(&huge).contains("4294967295"));
    let mut endless = theirs.clone();
    endless[148..152].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, endless).unwrap();
    let mut base = LogProbsReader::open(&path).unwrap();
    let error = kl_divergence(&model, &mut base, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, EvaluateError::Format { .. }), "{error}");
    // A vocabulary of 2 tokens: rows of 12 bytes.
    let mut other = theirs[..148].to_vec();
    other[12] = 2;
    other[13] = 0;
    other.resize(148 + 14 * 12, 0);
    std::fs::write(&path, other).unwrap();
    let mut base = LogProbsReader::open(&path).unwrap();
    let error = kl_divergence(&model, &mut base, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, EvaluateError::Vocabulary { base: 2, model: 2048 }), "{error}");
}

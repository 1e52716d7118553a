//! Activation statistics against llama-imatrix: `tools/oracle/llama_evaluate.py` makes the expected values.

use crate::architectures::fixture::Fixture;
use crate::common;
use crate::evaluate::exact;
use rustorch_core::{DType, Numerics};
use rustorch_formats::gguf::{File, Value};
use rustorch_llm::LanguageModel;
use rustorch_llm::evaluate::Chunks;
use rustorch_llm::imatrix::{ActivationStatistics, CollectOptions, collect};
use rustorch_llm::quantize::{ImportanceMatrix, Mixture, Quantization, QuantizeOptions};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/evaluate").join(name)
}

fn collected(
    model: &LanguageModel,
    context: usize,
    chunks: usize,
    options: CollectOptions,
) -> ActivationStatistics {
    let text = std::fs::read_to_string(fixture("text.txt")).unwrap();
    let chunks = Chunks::of_text(model, &text, context, Some(chunks)).unwrap();
    let mut statistics = ActivationStatistics::new(context);
    let mut seen = 0;
    collect(model, &chunks, &options, &mut statistics, &mut |chunk| seen = chunk).unwrap();
    assert_eq!(seen, chunks.len());
    statistics
}

#[test]
fn sums_of_the_embedded_model_are_llama_cpp_s() {
    let model = exact(&[Mixture::F32]);
    let mut found = collected(&model, 96, 6, CollectOptions::default());
    found.add_dataset("text.txt");
    let theirs = ActivationStatistics::open(fixture("imatrix.gguf")).unwrap();
    assert_eq!(found.iter().len(), theirs.iter().len());
    for ((name, found), (expected_name, expected)) in found.iter().zip(theirs.iter()) {
        assert_eq!((name, &found.counts), (expected_name, &expected.counts));
        for (i, (found, expected)) in found.sums.iter().zip(&expected.sums).enumerate() {
            let near = (found - expected).abs() <= 1e-3 * expected;
            assert!(near, "{name}, column {i}: {found}, llama.cpp has {expected}");
        }
    }
    // The file is llama-imatrix's but for the last bits of sums.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("imatrix.gguf");
    found.write(&path).unwrap();
    let [ours, theirs] = [&path, &fixture("imatrix.gguf")].map(|path| File::open(path).unwrap());
    assert_eq!(ours.metadata(), theirs.metadata());
    let tensors = |file: &File| -> Vec<(String, Vec<usize>, DType)> {
        file.tensors().map(|t| (t.name().to_owned(), t.shape().to_vec(), t.dtype())).collect()
    };
    assert_eq!(tensors(&ours), tensors(&theirs));
    let read = ActivationStatistics::open(&path).unwrap();
    assert_eq!(
        (read.chunk_count(), read.chunk_size(), read.datasets()),
        (6, 96, &["text.txt".to_owned()][..])
    );
    // Without a weight of the output, none is collected for the table that serves as such.
    let with_output = collected(&model, 96, 1, CollectOptions { output: true });
    let tied = model.file().find_tensor("output.weight").is_none();
    assert_eq!(with_output.iter().len(), found.iter().len() + usize::from(!tied));
}

#[test]
fn both_formats_make_the_same_quantized_model() {
    let [gguf, dat] = ["imatrix.gguf", "imatrix.dat"].map(fixture);
    let theirs = [&gguf, &dat].map(|path| ActivationStatistics::open(path).unwrap());
    assert_eq!(theirs[1].datasets(), theirs[0].datasets());
    assert_eq!(theirs[1].chunk_count(), theirs[0].chunk_count());
    let [gguf, dat] = [gguf, dat].map(|path| ImportanceMatrix::open(path).unwrap());
    assert_eq!((gguf.len(), dat.len()), (35, 35));
    for (name, _) in theirs[0].iter() {
        let [a, b] = [&gguf, &dat].map(|matrix| matrix.get(name).unwrap());
        let near = a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-6 * a);
        assert!(near && a.len() == b.len(), "{name}");
    }
    let file = File::open(common::carried_path()).unwrap();
    let options = QuantizeOptions {
        allow_requantize: true,
        importance: Some(dat),
        ..QuantizeOptions::new(Mixture::Q4_0)
    };
    let plan = Quantization::plan(&file, &options).unwrap();
    assert_eq!(plan.tensors().iter().filter(|tensor| tensor.importance.is_some()).count(), 35);
}

/// The keys and values that `llama-quantize --imatrix imatrix.gguf` (and `imatrix.dat`) writes into the embedded model's file.
#[test]
fn a_quantized_model_says_what_its_importances_are_of() {
    let file = File::open(common::carried_path()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("quantized.gguf");
    let written = |importance: Option<ImportanceMatrix>| {
        let options =
            QuantizeOptions { allow_requantize: true, importance, ..QuantizeOptions::new(Mixture::Q4_0) };
        Quantization::plan(&file, &options).unwrap().write(&target, &|_, _| {}).unwrap();
        let metadata = File::open(&target).unwrap().metadata().clone();
        metadata
            .iter()
            .filter(|(key, _)| key.starts_with("quantize."))
            .map(|(k, v)| (k.to_owned(), v.clone()))
            .collect()
    };
    for name in ["imatrix.gguf", "imatrix.dat"] {
        let path = fixture(name);
        let found: Vec<(String, Value)> = written(Some(ImportanceMatrix::open(&path).unwrap()));
        let expected: [(&str, Value); 4] = [
            ("quantize.imatrix.file", path.to_str().unwrap().into()),
            ("quantize.imatrix.dataset", "text.txt".into()),
            ("quantize.imatrix.entries_count", 35u32.into()),
            ("quantize.imatrix.chunks_count", 6u32.into()),
        ];
        assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value)));
    }
    assert_eq!(written(None), []);
}

#[derive(Deserialize)]
struct Line {
    name: String,
    context: usize,
    chunks: usize,
    weights: BTreeMap<String, Digest>,
}

#[derive(Deserialize)]
struct Digest {
    counts: Vec<u64>,
    total: f64,
    ramp: f64,
}

#[test]
fn sums_of_each_kind_of_layer_are_llama_cpp_s() {
    let text = std::fs::read_to_string(fixture("imatrix.jsonl")).unwrap();
    let mut lines = text.lines();
    let tokenizer: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    let fixtures = Fixture::all();
    let mut compared = 0;
    for line in lines {
        let line: Line = serde_json::from_str(line).unwrap();
        let mut header =
            fixtures.iter().find(|fixture| fixture.header.name == line.name).unwrap().header.clone();
        for (key, value) in tokenizer["tokenizer"].as_object().unwrap() {
            header = header.with(key, value.clone());
        }
        let mut model = header.open(|_, _| DType::F32).unwrap();
        model.set_numerics(Numerics::F32);
        let found = collected(&model, line.context, line.chunks, CollectOptions::default());
        let names: Vec<&str> = found.iter().map(|(name, _)| name).collect();
        assert!(
            names.iter().copied().eq(line.weights.keys().map(String::as_str)),
            "{}: {names:?}",
            line.name
        );
        for (name, expected) in &line.weights {
            let sums = found.get(name).unwrap();
            assert_eq!(sums.counts, expected.counts, "{}, {name}", line.name);
            let total: f64 = sums.sums.iter().sum();
            let ramp: f64 = sums.sums.iter().zip(1..).map(|(sum, i)| sum * f64::from(i)).sum();
            for (found, expected) in [(total, expected.total), (ramp, expected.ramp)] {
                let near = (found - expected).abs() <= 1e-3 * expected;
                assert!(near, "{}, {name}: {found}, llama.cpp has {expected}", line.name);
            }
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
}

#[test]
fn files_that_are_no_statistics_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("imatrix.dat");
    let theirs = std::fs::read(fixture("imatrix.dat")).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        ActivationStatistics::open(&path).unwrap_err().to_string()
    };
    assert!(refused(b"").contains("neither a GGUF file nor an imatrix.dat"));
    assert!(refused(&theirs[..4000]).contains("ends in entry"));
    // A length that no file has.
    assert!(refused(&[1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0x7F]).contains("ends in entry 0"));
    let model = ActivationStatistics::open(common::carried_path()).unwrap_err().to_string();
    assert!(
        model.contains("holds no activation statistics") && model.contains("shakespeare.gguf"),
        "{model}"
    );
    let missing = ActivationStatistics::open(folder.path().join("none")).unwrap_err().to_string();
    assert!(missing.contains("none"), "{missing}");
}

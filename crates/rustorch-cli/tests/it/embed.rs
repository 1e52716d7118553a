//! `embed` and `rerank`: what they write of the library's vectors and scores, which `rustorch-llm` compares with llama.cpp's.

use crate::common::{MODEL, fail, fail_with, run, run_with, succeed, succeed_json, with_metadata};
use rustorch::DType;
use rustorch::gguf::{File, Writer};
use rustorch::llm::LanguageModel;
use rustorch::llm::embedding::{Normalization, normalize};
use rustorch::llm::model::Pooling;
use rustorch::numpy::Array;
use serde_json::Value;
use std::path::Path;

const TEXTS: [&str; 3] = ["What news, my lord?", "Once more unto the breach", "a horse"];

/// The vectors of [`TEXTS`], row after row.
fn expected(pooling: Pooling, normalization: Normalization) -> Vec<Vec<f32>> {
    let model = LanguageModel::open(MODEL).unwrap();
    let encode = rustorch::llm::tokenizer::EncodeOptions { add_special: true, parse_special: true };
    let mut rows = Vec::new();
    for text in TEXTS {
        let vectors = model.embed(text, pooling, encode).unwrap().vectors;
        let mut values = vectors.to_vec::<f32>().unwrap();
        for row in values.chunks_mut(vectors.dims()[1]) {
            normalize(row, normalization);
            rows.push(row.to_vec());
        }
    }
    rows
}

fn floats(value: &Value) -> Vec<f32> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn formats_hold_the_same_vectors() {
    let texts = TEXTS.join("\n");
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mean = expected(Pooling::Mean, Normalization::EUCLIDEAN);
    let args = ["embed", "--pooling", "mean"];

    let report = succeed_json(&[&args[..], &["--json"], &TEXTS].concat());
    assert_eq!((&report["object"], &report["data"][2]["index"]), (&"list".into(), &2.into()));
    let tokens: usize = TEXTS.iter().map(|text| succeed(&["tokenize", text]).lines().count()).sum();
    assert_eq!(report["usage"]["prompt_tokens"], tokens);
    let data = report["data"].as_array().unwrap();
    assert_eq!(data.iter().map(|entry| floats(&entry["embedding"])).collect::<Vec<_>>(), mean);

    // Lines of a file and of standard input are the same texts.
    std::fs::write(path("texts"), &texts).unwrap();
    let raw = path("vectors.f32");
    assert_eq!(succeed(&[&args[..], &["-f", &path("texts"), "--format", "raw", "-o", &raw]].concat()), "");
    let bytes: Vec<u8> = mean.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(std::fs::read(&raw).unwrap(), bytes);
    let npy = path("vectors.npy");
    let told = run_with(&[&args[..], &["--format", "npy", "--output", &npy]].concat(), texts.as_bytes());
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    let array = Array::open(&npy).unwrap();
    assert_eq!(
        (array.shape(), array.dtype(), array.bytes()),
        (&[3, mean[0].len()][..], DType::F32, &bytes[..])
    );

    let text = run_with(&args, texts.as_bytes());
    for (line, row) in text.out.lines().zip(&mean) {
        let values: Vec<f64> = line.split(' ').map(|value| value.parse().unwrap()).collect();
        assert!(values.iter().zip(row).all(|(a, &b)| (a - f64::from(b)).abs() <= 5.001e-8), "{line}");
    }
    assert_eq!(text.out.lines().count(), 3);
}

#[test]
fn poolings_and_norms_are_the_file_s_or_those_asked_for() {
    let json = |args: &[&str]| succeed_json(&[&["embed", "--json"], args, &TEXTS].concat());
    let tokens = json(&["--normalize", "-1"]);
    let data = tokens["data"].as_array().unwrap();
    let rows: Vec<Vec<f32>> =
        data.iter().flat_map(|entry| entry["embedding"].as_array().unwrap().iter().map(floats)).collect();
    assert_eq!(rows, expected(Pooling::None, Normalization::None));
    let last = expected(Pooling::Last, Normalization::MaxAbsI16);
    assert_eq!(
        floats(&json(&["--pooling", "last", "--embd-normalize", "0"])["data"][1]["embedding"]),
        last[1]
    );
    let (_dir, path) = with_metadata(&[("llama.pooling_type", 3u32.into())]);
    assert_eq!(
        floats(&json(&["-m", path.to_str().unwrap(), "--normalize", "0"])["data"][1]["embedding"]),
        last[1]
    );
}

/// The carried model with a classifier of two labels.
fn reranker(dir: &Path) -> String {
    let file = File::open(MODEL).unwrap();
    let mut writer = Writer::copy_of(&file);
    let weights = (0..2 * 192).map(|i| ((i * i + 7 * i) % 31) as f32 / 31.0 - 0.5);
    let data: Vec<u8> = weights.flat_map(f32::to_le_bytes).collect();
    writer.tensor("cls.output.weight", &[2, 192], DType::F32, data).unwrap();
    let path = dir.join("reranker.gguf");
    writer.write_file(&path).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn documents_are_sorted_by_their_scores() {
    let dir = tempfile::tempdir().unwrap();
    let path = reranker(dir.path());
    let model = LanguageModel::open(&path).unwrap();
    let mut scores: Vec<(usize, f32)> =
        TEXTS.iter().map(|text| model.relevance("What?", text).unwrap()).enumerate().collect();
    scores.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let report = succeed_json(&[&["rerank", "-m", &path, "--json", "What?"], &TEXTS[..]].concat());
    let results = report["results"].as_array().unwrap();
    for (result, &(index, score)) in results.iter().zip(&scores) {
        assert_eq!(result["index"], index);
        assert!((result["relevance_score"].as_f64().unwrap() - f64::from(score)).abs() < 1e-7, "{result}");
    }
    assert_eq!(results.len(), 3);
    let best = run_with(&["rerank", "-m", &path, "What?", "--top-n", "2"], TEXTS.join("\n").as_bytes());
    let lines: Vec<&str> = best.out.lines().collect();
    assert_eq!((best.code, lines.len()), (0, 2), "{best:?}");
    assert!(lines[0].ends_with(&format!("  {}", TEXTS[scores[0].0])), "{lines:?}");
    // Both labels' scores, unscaled.
    let both = succeed_json(&["embed", "-m", &path, "--pooling", "rank", "--json", "a horse"]);
    assert_eq!(both["data"][0]["embedding"].as_array().unwrap().len(), 2);
}

#[test]
fn mistakes_are_named() {
    fail_with(&["embed"], b"", 2, &["the input is empty"]);
    fail(&["embed", "--normalize", "-2", "a"], 2, &["-1 or more"]);
    fail(&["embed", "--pooling", "max", "a"], 2, &["mean", "cls"]);
    fail(&["embed", "--pooling", "rank", "a"], 1, &["no classifier"]);
    fail(&["rerank", "a", "b"], 1, &["no classifier"]);
    let long = "word ".repeat(3000);
    fail(&["embed", "--pooling", "mean", "short", &long], 1, &["text 2", "longer than the 512"]);
    let terminal = run(&["embed", "a", "--format", "raw", "-o", "/no/such/folder/x"]);
    assert!(terminal.code == 1 && terminal.err.contains("/no/such/folder/x"), "{terminal:?}");
}

//! `graph`: the operations by which a model reads a prompt and decodes a token.

use crate::common::{MODEL, fail, succeed, succeed_json};
use rustorch::files::load_program;
use rustorch::llm::LanguageModel;
use rustorch::{DType, Tensor};

#[test]
fn the_text_counts_operations_and_bytes() {
    let text = succeed(&["graph", "-m", MODEL, "-c", "256"]);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for part in [
        "decode (1 token behind those in a cache of 256)",
        "prompt (256 tokens behind those in a cache of 256)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Five blocks, each with one attention and a write of keys and of values.
    assert!(
        rows.contains(&vec!["cached_attention", "5"]) && rows.contains(&vec!["slice_update", "10"]),
        "{text}"
    );
    assert!(text.contains("states: 10 ("), "{text}");
}

#[test]
fn json_has_the_same_for_programs() {
    let report = succeed_json(&["graph", "-m", MODEL, "--json", "-p", "7", "-c", "64"]);
    let decode = &report["graphs"]["decode"];
    assert_eq!((&decode["tokens"], &report["graphs"]["prompt"]["tokens"]), (&1.into(), &7.into()));
    assert_eq!(decode["operations"]["cached_attention"], 5);
    // Keys and values of five blocks: two heads of 32 numbers of two bytes for 64 tokens each.
    let model = LanguageModel::open(MODEL).unwrap();
    assert_eq!(decode["states"]["bytes"], model.model().cache_bytes(64));
    assert!(decode["constants"]["bytes"].as_u64().unwrap() > 2_000_000, "{report}");
    assert!(decode["temporary_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn listings_and_drawings_are_of_one_graph() {
    let list = succeed(&["graph", "-m", MODEL, "--list", "-c", "64"]);
    assert!(list.starts_with("graph(%0: i64[1], %1: i64[1], %2: i64[5]) {"), "{list}");
    assert!(list.contains("= cached_attention {") && list.trim_end().ends_with('}'), "{list}");
    let prompt = succeed(&["graph", "-m", MODEL, "--list", "-c", "64", "-p", "9"]);
    assert!(prompt.starts_with("graph(%0: i64[9], %1: i64[9], %2: i64[5]) {"), "{prompt}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.dot");
    assert_eq!(succeed(&["graph", "-m", MODEL, "--dot", path.to_str().unwrap()]), "");
    let dot = std::fs::read_to_string(path).unwrap();
    assert!(dot.starts_with("digraph") && dot.contains("cached_attention"), "{dot}");
}

#[test]
fn a_saved_graph_decodes_what_the_model_decodes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decode.safetensors");
    assert_eq!(succeed(&["graph", "-m", MODEL, "--save", path.to_str().unwrap(), "-c", "64"]), "");
    let program = load_program(&path).unwrap();
    let model = LanguageModel::open(MODEL).unwrap();
    let mut cache = model.model().new_cache(64).unwrap();
    for (position, id) in [5u32, 17, 300, 4, 4, 4].into_iter().enumerate() {
        let number = |x: usize| Tensor::from_slice(&[x as i64], [1]).unwrap();
        let rows = Tensor::full([5], position as i64, DType::I64).unwrap();
        let logits = program.run(&[&number(id as usize), &number(position), &rows]).unwrap().remove(0);
        let expected = model.model().forward(&[id], &mut cache, false).unwrap();
        assert_eq!(logits.to_bytes().unwrap(), expected.to_bytes().unwrap(), "at {position}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    fail(&["graph", "-m", MODEL, "-p", "65", "-c", "64"], 2, &["does not fit into a cache of 64"]);
    fail(&["graph", "-m", MODEL, "--dot", "a", "--json"], 2, &["cannot be used with"]);
}

//! `inspect`: what is in a model file.

use crate::common::{MODEL, succeed, succeed_json};
use rustorch::DType;
use rustorch::gguf::{File, Writer};

#[test]
fn the_text_names_the_file_its_metadata_and_a_summary() {
    let text = succeed(&["inspect", MODEL]);
    for part in [
        MODEL,
        "GGUF version 3",
        "metadata: 28 entries",
        "  general.architecture: string = \"llama\"",
        "  llama.context_length: u32 = 512",
        "string[2048]",
        "47 tensors, 2.36 M parameters",
        "Q8_0         36 tensors",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("token_embd.weight"));
    assert!(text.lines().all(|line| line.chars().count() < 200), "{text}");
    assert_eq!(succeed(&["inspect", "-m", MODEL]), text);
}

#[test]
fn tensors_are_listed_on_request() {
    let text = succeed(&["inspect", "--tensors"]);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    // Of the feed-forward network, from 512 to 192, in blocks of 32 values in 34 bytes.
    assert!(rows.contains(&vec!["blk.4.ffn_down.weight", "Q8_0", "192×512", "104448"]), "{text}");
    assert!(rows.contains(&vec!["blk.0.attn_norm.weight", "f32", "192", "768"]), "{text}");
    assert_eq!(rows.iter().filter(|row| row.len() == 4 && row[0].ends_with(".weight")).count(), 47);
}

#[test]
fn json_holds_everything() {
    let report = succeed_json(&["inspect", MODEL, "--json"]);
    assert_eq!((&report["file"], &report["parameters"]), (&MODEL.into(), &2_361_408.into()));
    assert_eq!(report["metadata"]["general.architecture"], "llama");
    assert_eq!(report["metadata"]["llama.embedding_length"], 192);
    assert_eq!(report["metadata"]["tokenizer.ggml.add_bos_token"], true);
    assert_eq!(report["metadata"]["tokenizer.ggml.tokens"].as_array().unwrap().len(), 2048);
    let tensors = report["tensors"].as_array().unwrap();
    assert_eq!(tensors.len(), 47);
    let bytes: u64 = tensors.iter().map(|t| t["bytes"].as_u64().unwrap()).sum();
    assert_eq!(report["bytes"], bytes);
    let elements: u64 = tensors
        .iter()
        .map(|t| t["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).product::<u64>())
        .sum();
    assert_eq!(report["parameters"], elements);
}

#[test]
fn what_the_decoder_leaves_out_is_told() {
    assert_eq!(succeed_json(&["inspect", "--json"])["left_out"], serde_json::json!([]));
    assert!(!succeed(&["inspect"]).contains("left out"));
    let file = File::open(MODEL).unwrap();
    let mut writer = Writer::copy_of(&file);
    for name in ["blk.0.attn_q.input_scale", "blk.1.attn_q.input_scale"] {
        writer.tensor(name, &[1], DType::F32, vec![0; 4]).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    writer.write_file(&path).unwrap();
    let path = path.to_str().unwrap();
    let text = succeed(&["inspect", path]);
    assert!(text.contains("left out: 2 tensors (for hardware that quantizes activations by it)"), "{text}");
    let left_out = &succeed_json(&["inspect", path, "--json"])["left_out"];
    assert_eq!(
        left_out[0]["tensors"],
        serde_json::json!(["blk.0.attn_q.input_scale", "blk.1.attn_q.input_scale"])
    );
}

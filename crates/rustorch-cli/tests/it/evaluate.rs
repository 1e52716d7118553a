//! `perplexity`, `imatrix` and `convert`. That their results are llama.cpp's is tested in `rustorch-llm`.

use crate::common::{MODEL, fail, run, run_with};
use rustorch::gguf::File;
use std::path::Path;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rustorch-llm/tests/fixtures");

fn fixture(name: &str) -> String {
    format!("{FIXTURES}/{name}")
}

#[test]
fn perplexity_is_told_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (text, base, copy) = (fixture("evaluate/text.txt"), path("base.dat"), path("q4_0.gguf"));
    let chunks = ["-f", &text, "-c", "64", "--chunks", "3"];
    let told = run(&[&["perplexity"], &chunks[..], &["--kl-divergence-base", &base]].concat());
    assert_eq!(told.code, 0, "{told:?}");
    assert!(
        told.err.starts_with("[1]") && told.err.contains(",[3]") && told.err.ends_with(",\n"),
        "{}",
        told.err
    );
    assert!(
        told.out.starts_with("perplexity: ") && told.out.contains("93 tokens scored, 3 chunks of 64"),
        "{}",
        told.out
    );
    // The same text from standard input, without the newline at its end.
    let text = std::fs::read(&text).unwrap();
    let piped = run_with(&["perplexity", "-c", "64", "--chunks", "3", "--json"], &text);
    let piped: serde_json::Value = serde_json::from_str(&piped.out).unwrap();
    assert_eq!((&piped["tokens"], piped["running"].as_array().unwrap().len()), (&93.into(), 3));
    let value = piped["perplexity"].as_f64().unwrap();
    assert!(told.out.contains(&format!("perplexity: {value:.4} ±")), "{} {value}", told.out);

    assert_eq!(run(&["quantize", MODEL, &copy, "Q4_0", "--allow-requantize"]).code, 0);
    let compared = ["perplexity", "-m", &copy, "--kl-divergence", "--kl-divergence-base", &base];
    let told = run(&compared);
    assert_eq!(told.code, 0, "{told:?}");
    assert_eq!(told.err.lines().count(), 4, "a header and a row for each chunk: {}", told.err);
    for part in ["PPL(base)", "kl divergence", "99.9 %", "same likeliest token"] {
        assert!(told.out.contains(part), "{part}: {}", told.out);
    }
    let json = run(&[&compared[..], &["--json", "-c", "64"]].concat());
    assert!(json.err.contains("-c has no effect"), "{}", json.err);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let base = json["perplexity"]["base_perplexity"]["value"].as_f64().unwrap();
    assert!((base - value).abs() < 1e-3 * value, "{base} {value}");
    assert!(json["kl_divergence"]["mean"]["value"].as_f64().unwrap() > 0.0);
    fail(&["perplexity", "--kl-divergence"], 2, &["--kl-divergence-base"]);
    fail(
        &["perplexity", "--kl-divergence", "--kl-divergence-base", MODEL],
        1,
        &["no file of log probabilities", MODEL],
    );
    fail(&["perplexity", "-f", "/no/such/text", "-c", "64"], 1, &["/no/such/text"]);
    fail(
        &["perplexity", "-f", &fixture("evaluate/text.txt"), "-c", "512", "--chunks", "0"],
        2,
        &["fewer than one chunk"],
    );
}

#[test]
fn statistics_of_activations_make_a_quantized_model() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (text, first, both) = (fixture("evaluate/text.txt"), path("first.gguf"), path("both.gguf"));
    let told = run(&["imatrix", "-f", &text, "-c", "64", "--chunks", "2", "-o", &first]);
    assert!(told.code == 0 && told.err.is_empty(), "{told:?}");
    assert_eq!(told.out, format!("{first}: 35 weights, 2 chunks of 64 tokens\n"));
    let told = run(&["imatrix", "-f", &text, "-c", "64", "--chunks", "1", "-o", &both, "--in-file", &first]);
    assert!(told.code == 0 && told.out.contains("3 chunks"), "{told:?}");
    let counts = |path: &str| {
        let file = File::open(path).unwrap();
        let bytes = file.tensor("blk.0.attn_q.weight.counts").unwrap().bytes().to_vec();
        f32::from_le_bytes(bytes.try_into().unwrap())
    };
    assert_eq!((counts(&first), counts(&both)), (128.0, 192.0));
    let target = path("q4_0.gguf");
    let told = run(&["quantize", MODEL, &target, "Q4_0", "--allow-requantize", "--imatrix", &both]);
    assert!(told.code == 0 && Path::new(&target).exists(), "{told:?}");
    fail(
        &["imatrix", "-f", &text, "-o", &path("x"), "--in-file", MODEL],
        3,
        &["holds no activation statistics"],
    );
    assert!(!Path::new(&path("x")).exists());
}

#[test]
fn a_folder_is_converted_and_runs() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("model");
    std::fs::create_dir(&folder).unwrap();
    for file in std::fs::read_dir(fixture("convert/qwen3")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    let (folder, target) = (folder.to_str().unwrap(), dir.path().join("model.gguf"));
    let target = target.to_str().unwrap();
    fail(&["convert", folder, target], 3, &["model.safetensors"]);
    let expected = std::fs::read(fixture("convert/qwen3/expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_slice(&expected).unwrap();
    let mut writer = rustorch::safetensors::Writer::new();
    for tensor in expected["weights"]["model.safetensors"].as_array().unwrap() {
        let shape: Vec<usize> = serde_json::from_value(tensor[1].clone()).unwrap();
        // Alike in all but their sizes: only that both ways give the same counts.
        let values = (0..shape.iter().product::<usize>()).map(|i| ((i * 37 + 11) % 101) as f32 / 500.0 - 0.1);
        let data: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        writer.tensor(tensor[0].as_str().unwrap(), &shape, rustorch::DType::F32, data).unwrap();
    }
    writer.write_file(Path::new(folder).join("model.safetensors")).unwrap();
    let told = run(&["convert", folder, target, "--outtype", "f16", "--name", "Small"]);
    assert!(told.code == 0 && told.err.is_empty() && told.out.contains("36 tensors"), "{told:?}");
    let shown = run(&["inspect", target]).out;
    assert!(shown.contains("qwen3") && shown.contains("general.name: string = \"Small\""), "{shown}");
    let ids = |model: &str| run(&["-m", model, "--ids", "-p", "1 260 17 42", "-n", "8", "--temp", "0"]).out;
    assert!(ids(target).split_whitespace().count() == 8, "{}", ids(target));
    assert_eq!(ids(target), ids(folder));
    fail(&["convert", folder, target, "--outtype", "q4_k"], 2, &["q8_0"]);
    fail(&["convert", "/no/such/folder", target], 3, &["/no/such/folder"]);
}

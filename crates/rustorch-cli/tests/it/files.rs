//! `quantize`, `split` and `merge`.

use crate::common::{MODEL, fail, run, run_with, succeed};
use rustorch::gguf::File;
use std::path::Path;

/// The dtypes of a file's tensors and their bytes, by name and in order.
fn tensors(path: &Path) -> Vec<(String, String, Vec<u8>)> {
    let file = File::open(path).unwrap();
    let all = file.tensors().map(|t| (t.name().to_owned(), t.dtype().to_string(), t.bytes().to_vec()));
    all.collect()
}

#[test]
fn a_quantized_model_answers() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (f16, q8) = (path("f16.gguf"), path("q8.gguf"));
    let told = succeed(&["quantize", MODEL, &f16, "f16", "--allow-requantize"]);
    assert!(told.contains("-> 16.0") && told.contains("bits per weight"), "{told}");
    succeed(&["quantize", &f16, &q8, "Q8_0", "-t", "1"]);
    let of = |file: &str| succeed(&["-m", file, "-p", "What news, my lord?", "--temp", "0"]);
    assert_eq!(of(&f16), of(&q8));
    let shown = succeed(&["inspect", &q8]);
    assert!(
        shown.contains("general.file_type: u32 = 7")
            && shown.contains("general.quantization_version: u32 = 2"),
        "{shown}"
    );
    // The carried model is Q8_0 but for what its own quantization left.
    let again = path("again.gguf");
    let told = run(&[
        "quantize",
        &f16,
        &again,
        "Q4_K_M",
        "--tensor-type",
        "attn_v=Q8_0",
        "--output-tensor-type",
        "F16",
        "-v",
    ]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(told.err.contains("blk.0.attn_v.weight: f16 -> Q8_0"), "{}", told.err);
    // 192 columns are no whole blocks of 256.
    assert!(told.err.contains("warning: ") && told.err.contains("they are Q5_0 instead"), "{}", told.err);
    for (mixture, why) in
        [("BF16", "with BF16: all matrices get its type"), ("COPY", "with COPY: tensors stay")]
    {
        let told = run(&[
            "quantize",
            &f16,
            &path("none.gguf"),
            mixture,
            "--tensor-type",
            "attn_v=Q8_0",
            "--dry-run",
        ]);
        assert!(
            told.code == 0 && told.err.starts_with(&format!("--tensor-type has no effect {why}")),
            "{}",
            told.err
        );
    }
    let dry = run(&["quantize", &f16, &path("none.gguf"), "Q4_0", "--dry-run"]);
    assert!(dry.code == 0 && !Path::new(&path("none.gguf")).exists(), "{dry:?}");
    assert!(dry.err.contains("token_embd.weight: f16 -> "), "{}", dry.err);
}

#[test]
fn a_model_is_split_and_merged_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let parts = succeed(&["split", MODEL, &path("part"), "--max-size", "1M"]);
    let parts: Vec<&str> = parts.lines().collect();
    assert!(
        parts.len() >= 2 && parts[0].ends_with(&format!("part-00001-of-0000{}.gguf", parts.len())),
        "{parts:?}"
    );
    let of = |file: &str| succeed(&["-m", file, "-p", "What news, my lord?", "--temp", "0"]);
    assert_eq!(of(parts[1]), of(MODEL));
    let whole = path("whole.gguf");
    assert_eq!(succeed(&["merge", parts[1], &whole]), format!("{whole}\n"));
    assert_eq!(tensors(Path::new(&whole)), tensors(Path::new(MODEL)));
    let (merged, original) = (File::open(&whole).unwrap(), File::open(MODEL).unwrap());
    assert_eq!(merged.metadata(), original.metadata());
    let by_count = succeed(&["split", MODEL, &path("few"), "--max-tensors", "20"]);
    let counts: Vec<usize> = by_count
        .lines()
        .map(|part| File::from_parts([std::fs::read(part).unwrap()]).map_or(0, |f| f.tensors().count()))
        .collect();
    assert_eq!(by_count.lines().count(), 3, "{counts:?}");
    // A quantized model stays in its parts.
    succeed(&["quantize", parts[0], &path("quantized"), "Q8_0", "--allow-requantize", "--keep-split"]);
    let quantized = path(&format!("quantized-00001-of-0000{}.gguf", parts.len()));
    assert_eq!(of(&quantized), of(MODEL));
    fail(&["split", parts[0], &path("again")], 2, &["parts already"]);
    fail(&["merge", parts[0], parts[1]], 2, &["written over itself"]);
}

#[test]
fn mistakes_leave_no_file_and_say_what_helps() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target.gguf");
    let target = target.to_str().unwrap();
    fail(&["quantize", MODEL, target, "Q4_0"], 2, &["--allow-requantize"]);
    fail(&["quantize", MODEL, target, "Q9"], 2, &["Q9", "Q4_K_M"]);
    fail(&["quantize", MODEL, MODEL, "Q8_0", "--allow-requantize"], 2, &["written over itself"]);
    fail(&["quantize", "/no/such/file.gguf", target, "Q8_0"], 3, &["/no/such/file.gguf"]);
    fail(
        &[
            "quantize",
            MODEL,
            target,
            "IQ2_XXS",
            "--pure",
            "--allow-requantize",
            "--tensor-type",
            "attn_q=IQ2_XXS",
        ],
        2,
        &["importance", "--imatrix"],
    );
    fail(
        &["quantize", MODEL, target, "Q8_0", "--allow-requantize", "--tensor-type", "attn_q"],
        2,
        &["REGEX=TYPE"],
    );
    fail(
        &["quantize", MODEL, target, "F16", "--allow-requantize", "--imatrix", MODEL],
        3,
        &["holds no activation statistics"],
    );
    fail(
        &["quantize", MODEL, "/no/such/folder/x.gguf", "F16", "--allow-requantize"],
        1,
        &["/no/such/folder/x.gguf"],
    );
    fail(&["merge", "/no/such/file.gguf", target], 3, &["/no/such/file.gguf"]);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    assert_eq!(run_with(&["split", MODEL], b"").code, 2);
}

/// A limit of the memory that a process writes to, of which a mapped file is no part.
#[cfg(target_os = "linux")]
#[test]
fn quantizing_takes_no_more_memory_than_two_tensors() {
    use std::process::Command;
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (dir.path().join("source.gguf"), dir.path().join("target.gguf"));
    let mut writer = rustorch::gguf::Writer::new();
    writer.metadata("general.architecture", "llama").unwrap();
    const TENSOR: usize = 16 << 20;
    for i in 0..4 {
        let name = format!("blk.{i}.ffn_up.weight");
        writer.tensor(&name, &[4096, 1024], rustorch::DType::F32, vec![0; TENSOR]).unwrap();
    }
    writer.write_file(&source).unwrap();
    drop(writer);
    let quantize = |options: &str| {
        let program = env!("CARGO_BIN_EXE_rustorch-cli");
        let command = format!(
            "ulimit -d {}; exec {program} quantize \"$0\" \"$1\" Q8_0 -t 2 {options}",
            2 * TENSOR / 1024
        );
        Command::new("sh").arg("-c").arg(command).args([&source, &target]).output().unwrap()
    };
    let done = quantize("");
    assert!(done.status.success() && target.exists(), "{done:?}");
    // The whole file does not fit.
    let done = quantize("--no-mmap");
    assert!(!done.status.success(), "{done:?}");
}

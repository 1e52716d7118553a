//! `export`: models for other runtimes. That a package decodes what llama.cpp does is asked of coremltools, by `tools/oracle/coreml/run.sh`.

use crate::common::{MODEL, fail, run, succeed, succeed_json, with_metadata};
use std::fs;
use std::path::Path;

#[test]
fn a_package_has_the_weights_in_the_precision_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut sizes = Vec::new();
    for precision in ["f16", "f32"] {
        let path = folder.path().join(precision);
        let shown = path.to_str().unwrap();
        let text =
            succeed(&["export", "coreml", "-m", MODEL, "-o", shown, "-c", "64", "--precision", precision]);
        assert!(text.contains("10 states of f16"), "{text}");
        sizes.push(weights(&path));
        let data = path.join("Data/com.apple.CoreML");
        // `specification_version: 9`, the first field of the model.
        assert_eq!(fs::read(data.join("model.mlmodel")).unwrap()[..2], [0x08, 9]);
    }
    // Scales, norms: the codes of blocks are the same.
    assert!(sizes[1] > sizes[0] * 105 / 100 && sizes[1] < sizes[0] * 110 / 100, "{sizes:?}");
}

/// The bytes of a package's weights.
fn weights(package: &Path) -> u64 {
    fs::metadata(package.join("Data/com.apple.CoreML/weights/weight.bin")).unwrap().len()
}

#[test]
fn weights_stay_in_blocks_unless_told_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let shown = |name: &str| path(name).to_str().unwrap().to_owned();
    let model = shown("q8_0.gguf");
    succeed(&["quantize", MODEL, &model, "Q8_0", "--allow-requantize"]);
    succeed(&["export", "coreml", "-m", &model, "-o", &shown("blocks"), "-c", "64"]);
    succeed(&["export", "coreml", "-m", &model, "-o", &shown("f16"), "-c", "64", "--weights", "f16"]);
    let (file, blocks, f16) =
        (fs::metadata(&model).unwrap().len(), weights(&path("blocks")), weights(&path("f16")));
    assert!(blocks < file && f16 > 18 * blocks / 10, "{file} {blocks} {f16}");
}

#[test]
fn attention_is_fused_in_f32_or_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (i, (args, is_fused)) in [
        (&["--precision", "f32"][..], true),
        (&["--precision", "f32", "--attention", "composed"], false),
        (&["--precision", "f16"], false),
        (&["--precision", "f16", "--attention", "fused"], true),
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path().join(i.to_string());
        let shown = path.to_str().unwrap();
        succeed(&[&["export", "coreml", "-m", MODEL, "-o", shown, "-c", "64"], args].concat());
        let text = succeed(&["inspect", shown]);
        assert_eq!(text.contains("scaled_dot_product_attention"), is_fused, "{args:?}: {text}");
        assert_eq!(text.contains("softmax"), !is_fused, "{args:?}: {text}");
    }
}

#[test]
fn functions_share_weights() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut sizes = Vec::new();
    for (name, more) in [("one", [].as_slice()), ("three", ["--prompt", "16,4"].as_slice())] {
        let package = path(name);
        let args = ["export", "coreml", "-m", MODEL, "-c", "64", "-o", package.to_str().unwrap()];
        let text = succeed(&[&args, more].concat());
        assert_eq!(text.contains("decode, prompt_4, prompt_16, 10 states"), !more.is_empty(), "{text}");
        sizes.push(weights(&package));
    }
    // Positions and masks are small.
    assert!(sizes[1] < sizes[0] + 10_000, "{sizes:?}");
}

#[test]
fn prompts_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("package");
    let args = ["export", "coreml", "-m", MODEL, "-c", "64", "-o", path.to_str().unwrap(), "--prompt"];
    for (prompt, reason) in [("1", "is what `decode` does"), ("8,65", "--prompt 65 is larger"), ("0", "'0'")]
    {
        fail(&[&args[..], &[prompt]].concat(), 2, &[reason]);
    }
    assert!(!path.exists());
}

#[test]
fn nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    fail(&["export", "coreml", "-m", MODEL, "-o", path, "-c", "64"], 2, &["exists; remove it"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A limit of the size of files, which is reached in the middle of `weight.bin` as a full disk is.
#[cfg(target_os = "linux")]
#[test]
fn a_package_that_has_no_room_leaves_nothing() {
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("model.mlpackage");
    let export = |limit: u64| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rustorch-cli"));
        command.args(["export", "coreml", "-m", MODEL, "-c", "64", "-o", package.to_str().unwrap()]);
        // SAFETY: both calls are system calls that may be made between `fork` and `exec`, and change the child process only.
        unsafe {
            command.pre_exec(move || {
                let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        command.output().unwrap()
    };
    let run = export(300_000);
    let error = String::from_utf8(run.stderr).unwrap();
    assert!(!run.status.success());
    for part in [package.to_str().unwrap(), "File too large", " bytes, and nothing is left of it: make room"]
    {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // As large as it says, it has room.
    assert!(export(100_000_000).status.success());
    assert!(weights(&package) > 300_000);
}

#[test]
fn a_context_beyond_the_model_and_places_that_cannot_be_written_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("model.mlpackage");
    let shown = package.to_str().unwrap();
    fail(&["export", "coreml", "-m", MODEL, "-o", shown, "-c", "1000000000"], 2, &["--context"]);
    let nowhere = package.join("inside.mlpackage");
    let nowhere = nowhere.to_str().unwrap();
    fail(&["export", "coreml", "-m", MODEL, "-o", nowhere, "-c", "64"], 1, &["make the folder", nowhere]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn all_operations_without_a_form_are_listed() {
    use rustorch::gguf::Value;
    let (folder, model) = with_metadata(&[
        ("llama.rope.scaling.type", Value::from("yarn")),
        ("llama.rope.scaling.factor", Value::F32(4.0)),
        ("llama.rope.scaling.original_context_length", Value::U32(64)),
    ]);
    let package = folder.path().join("model.mlpackage");
    let args = [
        "export",
        "coreml",
        "-m",
        model.to_str().unwrap(),
        "-o",
        package.to_str().unwrap(),
        "-c",
        "64",
        "--prompt",
        "4",
    ];
    let run = run(&args);
    let layers =
        succeed_json(&["inspect", MODEL, "--json"])["metadata"]["llama.block_count"].as_u64().unwrap();
    // Of queries and keys, in each layer of each function.
    for function in ["decode", "prompt_4"] {
        let lines = run.err.lines().filter(|line| {
            line.trim_start().starts_with(&format!("{function}, node "))
                && line.contains("rope: has a form only if there is no YaRN")
        });
        assert_eq!(lines.count() as u64, 2 * layers, "{}", run.err);
    }
    assert_ne!(run.code, 0);
    assert!(!package.exists());
}

#[test]
fn packages_are_inspected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.mlpackage");
    let shown = path.to_str().unwrap();
    succeed(&["export", "coreml", "-m", MODEL, "-o", shown, "-c", "64", "--prompt", "4"]);
    let text = succeed(&["inspect", shown]);
    for part in [
        "Core ML package, specification 9 (macOS 15, iOS 18)",
        ": logits after tokens, at positions from 0 to 63; behind these they are NaN",
        "decode: ",
        "prompt_4: ",
        "  input token i32[1], values from 0 to ",
        "  input position i32[4], values from 0 to 63",
        "  output logits f32[1, ",
        "  state state_9 f16[",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let info = succeed_json(&["inspect", shown, "--json"]);
    assert_eq!(
        (&info["specification_version"], &info["functions"][0]["name"]),
        (&9.into(), &"decode".into())
    );
    assert_eq!(info["weight_bytes"], weights(&path));
    assert_eq!(
        (&info["metadata"]["rustorch.below.position"], &info["problems"]),
        (&"64".into(), &serde_json::json!([]))
    );
    let decode = &info["functions"][0];
    assert_eq!(decode["inputs"][0]["below"], decode["outputs"][0]["shape"][1]);
    // Two matmuls of each of five blocks' attention at least.
    assert!(info["functions"][0]["operations"]["matmul"].as_u64().unwrap() >= 10, "{info}");
    fail(&["inspect", shown, "--tensors"], 2, &["--tensors is for GGUF files"]);
    // `specification_version: 11`.
    let model = path.join("Data/com.apple.CoreML/model.mlmodel");
    let mut bytes = fs::read(&model).unwrap();
    bytes[1] = 11;
    fs::write(&model, bytes).unwrap();
    let text = succeed(&["inspect", shown]);
    assert!(text.contains("of another version: specification 11 is none of those"), "{text}");
    fs::write(path.join("Manifest.json"), "{}").unwrap();
    fail(&["inspect", shown], 3, &["names no model in it"]);
}

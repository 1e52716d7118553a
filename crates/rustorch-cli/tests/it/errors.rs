//! Mistakes: what is said, and with which exit code.

use crate::common::{damaged, fail, fail_with, program, replaced, run, succeed};

#[test]
fn wrong_usage_ends_with_2() {
    fail(&["--nonsense"], 2, &["--nonsense"]);
    fail(&["nonsense"], 2, &["nonsense", "neither a command nor a model file"]);
    fail(&["-p"], 2, &["--prompt"]);
    fail(&["-p", "x", "--threads", "0"], 2, &["--threads", "1 at least"]);
    fail(&["-p", "x", "--threads", "100000"], 2, &["--threads", "1024 at most"]);
    fail(&["-p", "x", "-n", "many"], 2, &["--n-predict", "many"]);
    fail(&["-p", "x", "--stop", ""], 2, &["--stop"]);
    fail(&["-p", "x", "--system", "y", "--raw"], 2, &["--system", "--raw"]);
    fail(&["inspect", "a.gguf", "-m", "b.gguf"], 2, &["--model"]);
}

#[test]
fn sampling_options_beyond_their_range_end_with_2() {
    for (option, value) in [
        ("--temp", "-1"),
        ("--temp", "nan"),
        ("--top-p", "7"),
        ("--min-p", "-0.1"),
        ("--repeat-penalty", "0"),
    ] {
        fail(&["-p", "x", option, value], 2, &["out of range"]);
    }
    fail(&["-p", "x", "--top-k", "-2"], 2, &["-2"]);
}

#[test]
fn token_ids_that_are_none_end_with_2() {
    fail(&["--ids", "-p", ""], 2, &["no token ids"]);
    fail(&["--ids", "-p", "1 x"], 2, &["`x` is not a token id"]);
    fail(&["--ids", "-p", "-1"], 2, &["`-1` is not a token id"]);
    fail(&["--ids", "-p", "5 99999"], 2, &["99999", "out of range", "2048"]);
    fail_with(&["--ids"], b"1 two", 2, &["`two` is not a token id"]);
}

#[test]
fn text_that_is_not_utf8_ends_with_2() {
    for args in [&["-p", "-"][..], &["--json"], &[]] {
        fail_with(args, b"ab\xff\xfe", 2, &["standard input is not UTF-8"]);
    }
}

#[test]
fn an_empty_prompt_is_one() {
    // The template, or the beginning of a text, is something to continue.
    assert!(!succeed(&["-p", "", "--temp", "0"]).trim().is_empty());
    assert_eq!(succeed(&["-p", "", "--raw", "--temp", "0", "-n", "4"]), "KING RICHARD III:\n");
    assert_eq!(succeed(&["-p", "x", "-n", "0"]), "\n");
}

#[test]
fn a_prompt_longer_than_the_context_ends_with_1_and_the_way_out() {
    for size in ["1", "4"] {
        fail(&["-p", "Who goes there?", "--ctx-size", size], 1, &["context", size, "--ctx-size"]);
    }
    fail_with(&["--raw", "-p", "-"], "word ".repeat(2000).as_bytes(), 1, &["512 tokens", "--ctx-size"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_context_larger_than_the_memory_ends_with_2() {
    let run = run(&["-p", "x", "-c", "1000000000000"]);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.err);
    assert!(run.err.contains("--ctx-size"), "{}", run.err);
}

#[test]
fn model_files_that_cannot_be_read_end_with_3() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing.gguf");
    let folder = dir.path();
    let (_empty_dir, empty) = damaged(|bytes| bytes.clear());
    let (_text_dir, text) = damaged(|bytes| *bytes = b"This is no model.".to_vec());
    let (_header_dir, header) = damaged(|bytes| bytes.truncate(20));
    let (_metadata_dir, metadata) = damaged(|bytes| bytes.truncate(5_000));
    let (_tensors_dir, tensors) = damaged(|bytes| bytes.truncate(2_000_000));
    let (_version_dir, version) = damaged(|bytes| bytes[4] = 99);
    let (_count_dir, count) = damaged(|bytes| bytes[8..16].fill(0xff));
    let cases = [
        (missing.as_path(), "No such file"),
        // It may be one of Hugging Face's transformers.
        (folder, "model.safetensors"),
        (&empty, "truncated"),
        (&text, "not a GGUF file"),
        (&header, "truncated"),
        (&metadata, "truncated"),
        (&tensors, "truncated"),
        (&version, "version"),
        (&count, "tensors"),
    ];
    for (path, says) in cases {
        let path = path.to_str().unwrap();
        fail(&["-m", path, "-p", "x"], 3, &[path, says]);
        fail(&["inspect", path], 3, &[path, says]);
        for command in [&["tokenize", "x"][..], &["bench"], &["explain"], &["plan"]] {
            fail(&[command, &["-m", path]].concat(), 3, &[path, says]);
        }
    }
}

#[test]
fn a_model_of_another_architecture_ends_with_3() {
    let (_dir, path) = damaged(|bytes| {
        let at = bytes.windows(5).position(|w| w == b"llama").expect("the architecture");
        bytes[at..at + 5].copy_from_slice(b"other");
    });
    let path = path.to_str().unwrap();
    fail(&["-m", path, "-p", "x"], 3, &[path, "architecture `other` is not supported", "llama"]);
    // Looking at it needs no architecture.
    assert!(succeed(&["inspect", path]).contains("\"other\""));
}

#[test]
fn a_broken_chat_template_ends_with_3_and_one_that_refuses_with_1() {
    let (_dir, path) = replaced(b"{%- for message", b"{%- fox message");
    let path = path.to_str().unwrap();
    fail(&["-m", path, "-p", "x"], 3, &[path, "chat template cannot be parsed"]);
    let (_dir, path) = replaced(b"['system', 'user', 'assistant']", b"['system', 'USER', 'assistant']");
    let path = path.to_str().unwrap();
    fail(&["-m", path, "-p", "x"], 1, &["chat template refuses this conversation"]);
    // Plain text does not go through it.
    succeed(&["-m", path, "-p", "x", "--raw", "-n", "1"]);
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_ends_with_1() {
    for args in [&["-p", "x"][..], &["-p", "x", "--json"], &["inspect"], &["completions", "bash"], &[]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = program().args(args).stdin(std::process::Stdio::null()).stdout(full).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {err}");
        assert!(err.contains("cannot write the output: No space left"), "{args:?}: {err}");
    }
}

#[test]
fn devices_that_are_not_there_end_with_4_and_a_list_of_those_that_are() {
    // Of Metal and Direct3D 12, each system lacks one.
    let foreign = if cfg!(target_vendor = "apple") { "dx12" } else { "metal" };
    for name in [foreign, "cuda:7"] {
        for command in [&["-p", "x"][..], &["bench"], &["explain"], &["plan"]] {
            fail(&[command, &["-b", name]].concat(), 4, &[name, "auto, hybrid, cpu"]);
        }
    }
}

#[test]
fn names_of_no_device_end_with_2_and_a_list_of_all() {
    for name in ["gpu", "cpu:1", "cuda:x", ""] {
        fail(&["-p", "x", "-b", name], 2, &["--backend"]);
    }
    fail(
        &["-p", "x", "-b", "gpu"],
        2,
        &["auto, cpu, cuda, metal, vulkan, dx12, opencl, coreml, hybrid, coreml-hybrid, mac-hybrid"],
    );
}

#[test]
fn help_goes_to_standard_output() {
    let long = succeed(&["--help"]);
    for word in ["Usage:", "Examples:", "Exit codes:", "--backend", "hybrid", "--repeat-last-n", "inspect"] {
        assert!(long.contains(word), "{word}");
    }
    for command in [
        "inspect",
        "architectures",
        "tokenize",
        "quantize",
        "split",
        "merge",
        "bench",
        "devices",
        "explain",
        "graph",
        "plan",
        "completions",
    ] {
        let help = succeed(&[command, "-h"]);
        assert!(help.contains(&format!("Usage: rustorch-cli {command}")), "{help}");
        assert_eq!(succeed(&["help", command]), succeed(&[command, "--help"]));
    }
    assert_eq!(succeed(&["--version"]), concat!("rustorch-cli ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn nothing_asks_for_a_chat_without_a_terminal() {
    // Ids need a prompt; an empty pipe gives none.
    let run = run(&["--ids"]);
    assert_eq!(run.code, 2, "{}", run.err);
}

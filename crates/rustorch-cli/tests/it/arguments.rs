//! The command line: llama.cpp's spellings, where a prompt comes from, options without effect.

use crate::common::{self, MODEL, fail, fail_with, run, run_with, succeed, succeed_json};

const GREEDY: &[&str] = &["--temp", "0", "-n", "8"];

fn greedy(args: &[&str]) -> String {
    succeed(&[GREEDY, args].concat())
}

#[test]
fn llama_cpp_s_spellings_mean_the_same() {
    let expected = greedy(&["-p", "Hail!", "--system", "Be brief."]);
    for args in [
        &["-m", MODEL, "-p", "Hail!", "-sys", "Be brief."][..],
        &[MODEL, "-p", "Hail!", "--system-prompt", "Be brief."],
    ] {
        assert_eq!(greedy(args), expected, "{args:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let system = dir.path().join("system.txt");
    std::fs::write(&system, "Be brief.\n").unwrap();
    let system = system.to_str().unwrap();
    for option in ["--system-file", "--system-prompt-file", "-sysf"] {
        assert_eq!(greedy(&["-p", "Hail!", option, system]), expected, "{option}");
    }
    fail(&["-p", "Hail!", "-sysf", "/no/such/file"], 1, &["cannot read /no/such/file"]);
    fail(&["-p", "Hail!", "-sysf", system, "-sys", "Be brief."], 2, &["--system-file"]);
    for args in [["--temperature", "0", "--max-tokens", "8"], ["--temp", "0", "--n-predict", "8"]] {
        assert_eq!(
            succeed(&[&args[..], &["-p", "Hail!", "-sys", "Be brief."]].concat()),
            expected,
            "{args:?}"
        );
    }
    assert_eq!(greedy(&["-p", "ROMEO:", "-no-cnv"]), greedy(&["-p", "ROMEO:", "--raw"]));
    let whole = succeed(&["-p", "What news, my lord?", "--temp", "0"]);
    assert_eq!(succeed(&["-p", "What news, my lord?", "--temp", "0", "-n", "-1"]), whole);
    let stopped = succeed(&["-p", "What news, my lord?", "--temp", "0", "-r", "have"]);
    assert_eq!(Some(stopped.trim_end_matches('\n')), whole.split_once("have").map(|(before, _)| before));
    // Another seed each time, below 2³².
    for _ in 0..2 {
        let report = succeed_json(&["-p", "x", "-n", "1", "--json", "-s", "-1", "--top-k", "-1"]);
        assert!(report["seed"].as_u64().unwrap() <= u64::from(u32::MAX), "{report}");
    }
}

#[test]
fn a_model_file_may_be_the_only_argument() {
    fail(&["no/such/file.gguf", "-p", "x"], 3, &["no/such/file.gguf"]);
    fail(&["inspct"], 2, &["inspct", "neither a command nor a model file"]);
    fail(&[MODEL, "-m", MODEL], 2, &["--model"]);
}

#[test]
fn nothing_that_is_unknown_is_taken_for_a_call_for_help() {
    for args in [&["--batch"][..], &["-x"], &["inspect", "--no"], &["-ngx", "5"], &["bench", "model"]] {
        let run = run(args);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{args:?}");
    }
    // llama.cpp's of several letters are named, and not taken for letters of other options.
    for (theirs, name) in [("-ctk", "'--cache-type-k'"), ("-np", "'--parallel'"), ("-mm", "'--mmproj'")] {
        fail(&["-p", "x", theirs, "1"], 2, &[name]);
    }
}

#[test]
fn piped_text_is_joined_to_the_prompt() {
    let joined = succeed_json(&["-p", "Review:\n\n- a\n+ b", "--json", "-n", "1", "--seed", "1"]);
    let piped = run_with(&["-p", "Review:", "--json", "-n", "1", "--seed", "1"], b"- a\n+ b\n");
    let piped: serde_json::Value = serde_json::from_str(&piped.out).unwrap();
    assert_eq!(piped["prompt_ids"], joined["prompt_ids"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("prompt.txt");
    std::fs::write(&file, "Review:\n\n- a\n+ b").unwrap();
    let file = file.to_str().unwrap();
    let of_file = succeed_json(&["-f", file, "--json", "-n", "1", "--seed", "1"]);
    assert_eq!(of_file["prompt_ids"], joined["prompt_ids"]);
    fail(&["-f", "/no/such/file"], 1, &["cannot read /no/such/file"]);
    fail(&["-f", file, "-p", "x"], 2, &["--file", "--prompt"]);
}

#[test]
fn nothing_on_standard_input_is_no_prompt() {
    for args in [&["-m", MODEL][..], &[MODEL], &["--json"], &["--raw", "-m", MODEL]] {
        fail_with(args, b"", 2, &["there is no prompt"]);
    }
    // A line break is one.
    assert_eq!(run_with(&["-m", MODEL, "-n", "0"], b"\n").code, 0);
}

#[test]
fn tokenize_reads_a_pipe() {
    let expected = succeed(&["tokenize", "--ids", "Was it he?"]);
    assert_eq!(run_with(&["tokenize", "--ids"], b"Was it he?").out, expected);
    assert_eq!(run_with(&["tokenize", "--decode"], b"839 30").out, "ROMEO:\n");
}

#[test]
fn options_without_effect_say_so() {
    for (args, option) in [
        (&["--seed", "5", "--temp", "0"][..], "--seed"),
        (&["--top-k", "5", "--temp", "0"], "--top-k"),
        (&["--repeat-last-n", "5"], "--repeat-last-n"),
        (&["-ngl", "99", "-b", "cpu"], "--layers-on-device"),
        (&["--device-memory", "1G", "-b", "hybrid"], "--device-memory"),
        (&["--no-mmap"], "--no-mmap"),
        (&["--mmap"], "--mmap"),
        (&["--think", "off"], "--think"),
        (&["--mlock"], "--mlock"),
        (&["-fa", "on"], "--flash-attn"),
        (&["-st"], "--single-turn"),
        (&["--no-context-shift"], "--no-context-shift"),
        (&["-ngl", "auto", "-b", "cpu"], "--layers-on-device"),
    ] {
        let run = run(&[&["-p", "x", "-n", "1"], args].concat());
        let expected = format!("warning: {option} has no effect: ");
        assert!(run.code == 0 && run.err.contains(&expected), "{args:?}: {}", run.err);
    }
    let quiet = run(&[
        "-p",
        "x",
        "-n",
        "1",
        "--seed",
        "5",
        "--top-k",
        "5",
        "--repeat-penalty",
        "1.1",
        "--repeat-last-n",
        "5",
    ]);
    assert!(!quiet.err.contains("warning"), "{}", quiet.err);
    // The scene has no system prompt.
    let scene = run(&["--system", "Be brief.", "-n", "1"]);
    assert!(scene.code == 0 && scene.err.contains("warning: --system has no effect: "), "{}", scene.err);
}

#[test]
fn sampling_settings_of_the_file_hold_unless_flags_say_otherwise() {
    // Keys and values of the same lengths as others', which the program does not need.
    let (_dir, path) = common::with_metadata(&[
        ("general.sampling.temp", rustorch::gguf::Value::F32(0.0)),
        ("general.sampling.top_k", rustorch::gguf::Value::I32(7)),
        ("general.sampling.mirostat", rustorch::gguf::Value::I32(2)),
    ]);
    let path = path.to_str().unwrap();
    let prompt = ["-p", "What news, my lord?", "-n", "8"];
    assert_eq!(succeed(&[&["-m", path], &prompt[..]].concat()), greedy(&["-p", "What news, my lord?"]));
    let told = run(&[&["-m", path, "-v", "--temp", "0.5"], &prompt[..]].concat());
    for line in [
        "temp: 0.5 (from --temp; the file has 0)",
        "top-k: 7 (from the file)",
        "top-p: 0.95 (the default)",
        "general.sampling.mirostat of the file is not supported",
    ] {
        assert!(told.err.contains(line), "{line}: {}", told.err);
    }
}

#[test]
fn control_characters_of_a_file_are_shown_escaped() {
    let name = "a\u{1b}[31mb";
    let (_dir, path) = common::with_metadata(&[("general.name", rustorch::gguf::Value::from(name))]);
    let path = path.to_str().unwrap();
    for shown in [succeed(&["inspect", path]), run(&["-m", path, "-p", "x", "-n", "1", "-v"]).err] {
        assert!(!shown.contains('\u{1b}') && shown.contains("u{1b}[31mb"), "{shown}");
    }
}

//! Generating once: prompts, what is printed, what ends it.

use crate::common::{self, MODEL, program, run, run_with, succeed, succeed_json};
use std::io::Read;
use std::process::Stdio;

/// Options that make an answer the same every time.
const GREEDY: &[&str] = &["--temp", "0", "-n", "8"];

fn greedy<'a>(args: &[&'a str]) -> Vec<&'a str> {
    args.iter().chain(GREEDY).copied().collect()
}

#[test]
fn a_prompt_is_answered_once_and_quietly() {
    // What llama.cpp answers to this turn begins so.
    assert_eq!(succeed(&greedy(&["-p", "What news, my lord?"])), "KING RICHARD III:\nMy lord,\n");
}

#[test]
fn the_carried_model_as_a_file_answers_the_same() {
    assert_eq!(succeed(&greedy(&["-m", MODEL, "-p", "Hail!"])), succeed(&greedy(&["-p", "Hail!"])));
}

#[test]
fn piped_text_is_a_prompt_whose_last_newline_is_not_meant() {
    let expected = succeed(&greedy(&["-p", "What news, my lord?"]));
    for args in [&["-m", MODEL][..], &["-p", "-"], &[]] {
        for input in ["What news, my lord?", "What news, my lord?\n", "What news, my lord?\r\n"] {
            let run = run_with(&greedy(args), input.as_bytes());
            assert_eq!(
                (run.code, run.out, run.err.as_str()),
                (0, expected.clone(), "(cut: -n 8 tokens)\n"),
                "{args:?} {input:?}"
            );
        }
    }
}

#[test]
fn without_arguments_the_carried_model_writes_a_scene_and_tells_its_speed() {
    let run = run(&[]);
    assert_eq!(run.code, 0);
    let (scene, speed) = (run.out.as_str(), run.err.trim());
    assert!(scene.starts_with("KING RICHARD III:\n") && scene.len() > 300, "{scene}");
    let rates: Vec<f64> = speed
        .split(" · ")
        .map(|part| {
            let (_, rate) = part.trim_end_matches(" tokens/s").rsplit_once(' ').expect("a rate");
            rate.parse().unwrap_or_else(|_| panic!("{speed}"))
        })
        .collect();
    assert!(speed.starts_with("prompt: 6 tokens, ") && speed.contains("generation: 256 tokens, "), "{speed}");
    assert!(rates.len() == 2 && rates.iter().all(|&rate| rate > 0.0), "{speed}");
}

#[test]
fn a_pipe_in_which_nothing_comes_does_not_hold_the_scene_up() {
    let mut command = program();
    command.args(["-n", "2"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Kept open until the program has ended.
    let stdin = child.stdin.take();
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(child.wait().unwrap().success());
    drop(stdin);
    assert!(out.starts_with("KING RICHARD III:\n"), "{out}");
}

#[test]
fn raw_continues_the_prompt_itself() {
    let raw = succeed_json(&greedy(&["--raw", "-p", "ROMEO:", "--json"]));
    assert_eq!(common::ids(&raw["prompt_ids"]), [0, 839, 30]);
    let turn = succeed_json(&greedy(&["-p", "ROMEO:", "--json"]));
    assert_eq!(common::ids(&turn["prompt_ids"]), [0, 3, 203, 839, 30, 1, 203, 4, 203]);
}

#[test]
fn a_system_prompt_stands_before_the_first_turn() {
    let report = succeed_json(&greedy(&["--system", "Hail!", "-p", "ROMEO:", "--json"]));
    let expected = [0, 2, 203, 44, 1087, 5, 1, 203, 3, 203, 839, 30, 1, 203, 4, 203];
    assert_eq!(common::ids(&report["prompt_ids"]), expected);
}

#[test]
fn ids_go_in_and_come_out() {
    let report = succeed_json(&greedy(&["--raw", "-p", "ROMEO:", "--json"]));
    let expected: Vec<String> = common::ids(&report["ids"]).iter().map(u32::to_string).collect();
    for prompt in ["0 839 30", "[0, 839, 30]", "0,839,30\n"] {
        assert_eq!(succeed(&greedy(&["--ids", "-p", prompt])), expected.join(" ") + "\n");
    }
    let both = succeed_json(&greedy(&["--ids", "--json", "-p", "0 839 30"]));
    assert_eq!(both["ids"], report["ids"]);
}

#[test]
fn json_holds_the_whole_answer() {
    let report = succeed_json(&["-p", "What news?", "--json", "-n", "5", "--seed", "9", "--ignore-eos"]);
    let fields: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "text",
        "ids",
        "prompt_ids",
        "finish",
        "seed",
        "prompt_tokens",
        "prompt_seconds",
        "prompt_tokens_per_second",
        "generated_tokens",
        "generation_seconds",
        "generation_tokens_per_second",
        "dropped_tokens",
    ];
    assert_eq!(fields, expected);
    assert_eq!((&report["finish"], &report["seed"]), (&"length".into(), &9.into()));
    assert_eq!(report["ids"].as_array().unwrap().len(), 5);
    assert_eq!(report["generated_tokens"], 5);
    assert_eq!(report["prompt_tokens"], report["prompt_ids"].as_array().unwrap().len());
    for number in
        ["prompt_seconds", "prompt_tokens_per_second", "generation_seconds", "generation_tokens_per_second"]
    {
        assert!(report[number].as_f64().unwrap() > 0.0, "{number}");
    }
    let plain = succeed(&["-p", "What news?", "-n", "5", "--seed", "9", "--ignore-eos"]);
    assert_eq!(plain.strip_suffix('\n'), report["text"].as_str());
}

#[test]
fn json_tells_what_ended_the_answer() {
    let finish = |args: &[&str]| succeed_json(&[args, &["--json", "--temp", "0"]].concat())["finish"].clone();
    assert_eq!(finish(&["-p", "What news, my lord?"]), "end");
    assert_eq!(finish(&["-p", "What news, my lord?", "--stop", "lord"]), "stop");
    assert_eq!(finish(&["-p", "What news, my lord?", "-n", "3"]), "length");
    let cut = run(&["-p", "What news, my lord?", "-c", "16", "--json", "--temp", "0"]);
    let report: serde_json::Value = serde_json::from_str(&cut.out).unwrap();
    assert_eq!((cut.code, &report["finish"]), (5, &"context_full".into()));
    assert!(cut.err.starts_with("(cut: the context of 16 tokens is full; --ctx-size"), "{}", cut.err);
}

#[test]
fn a_stop_text_ends_the_answer_and_is_not_shown() {
    let whole = succeed(&["-p", "What news, my lord?", "--temp", "0"]);
    let (before, _) = whole.split_once("have").expect("the answer has it");
    // The second text begins within a token and ends within another.
    for stop in ["have", "have yo"] {
        let run = succeed(&["-p", "What news, my lord?", "--temp", "0", "--stop", "nowhere", "--stop", stop]);
        assert_eq!(run, format!("{before}\n"), "{stop}");
    }
}

#[test]
fn a_full_context_ends_the_answer_unless_it_shifts() {
    let args = ["-p", "Hail!", "--raw", "--json", "-c", "16", "-n", "40", "--ignore-eos"];
    let ended = run(&args);
    assert_eq!(ended.code, 5);
    let ended: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let taken = ended["prompt_tokens"].as_u64().unwrap() + ended["generated_tokens"].as_u64().unwrap();
    // The last token is chosen from the full context and not read any more.
    assert_eq!(taken, 17);
    let shifted = run(&[&args[..], &["--shift"]].concat());
    assert!(shifted.code == 0 && shifted.err.contains("tokens were dropped)"), "{shifted:?}");
    let shifted: serde_json::Value = serde_json::from_str(&shifted.out).unwrap();
    assert!(shifted["dropped_tokens"].as_u64().unwrap() > 20, "{shifted}");
    assert_eq!((&shifted["generated_tokens"], &shifted["finish"]), (&40.into(), &"length".into()));
}

#[test]
fn a_context_of_one_token_answers_a_prompt_of_one_token() {
    let run = run(&["-c", "1", "--ids", "-p", "0", "--temp", "0"]);
    assert_eq!((run.code, run.out.as_str()), (5, "460\n"));
}

#[test]
fn a_seed_makes_random_answers_the_same() {
    let text = |seed: &str| {
        succeed(&["--raw", "-p", "Who goes there?", "-n", "40", "--temp", "1.5", "--seed", seed])
    };
    assert_eq!(text("7"), text("7"));
    assert_ne!(text("7"), text("8"));
    // Without one, each run is another.
    let free = || succeed_json(&["--raw", "-p", "Who?", "-n", "1", "--json"])["seed"].clone();
    assert_ne!(free(), free());
}

#[test]
fn sampling_options_do_what_they_say() {
    let ids = |args: &[&str]| succeed(&[&["--ids", "-p", "0 839 30 203", "-n", "48"], args].concat());
    let greedy = ids(&["--temp", "0"]);
    // Each of these leaves the likeliest token only.
    for args in [["--top-k", "1"], ["--top-p", "0"], ["--min-p", "1"]] {
        assert_eq!(ids(&[&["--temp", "1.5", "--seed", "3"], &args[..]].concat()), greedy, "{args:?}");
    }
    assert_ne!(ids(&["--temp", "1.5", "--seed", "3"]), greedy);
    assert_ne!(ids(&["--temp", "0", "--repeat-penalty", "1.8"]), greedy);
    let forgets = [
        "--ids",
        "-p",
        "0 839 30 203",
        "-n",
        "48",
        "--temp",
        "0",
        "--repeat-penalty",
        "1.8",
        "--repeat-last-n",
        "0",
    ];
    assert_eq!(run(&forgets).out, greedy);
}

#[test]
fn the_number_of_threads_and_the_name_of_the_device_do_not_change_the_answer() {
    let ids = |args: &[&str]| {
        succeed(&[&["--ids", "-p", "0 839 30 203", "-n", "32", "--temp", "0"], args].concat())
    };
    let one = ids(&["--threads", "1"]);
    for args in
        [&["--threads", "2"][..], &["-t", "5"], &["-b", "cpu"], &["--backend", "auto"], &["-b", "hybrid"]]
    {
        assert_eq!(ids(args), one, "{args:?}");
    }
}

#[test]
fn a_model_computed_in_f32_answers_the_same_on_any_number_of_threads() {
    let ids = |args: &[&str]| {
        let common = ["--ids", "-p", "0 839 30 203", "-n", "16", "--temp", "0", "-b", "hybrid-f32"];
        succeed(&[&common[..], args].concat())
    };
    let answer = ids(&["-t", "1"]);
    assert!(
        answer.split_whitespace().all(|id| id.parse::<u32>().is_ok()) && !answer.trim().is_empty(),
        "{answer}"
    );
    assert_eq!(ids(&["-t", "3"]), answer);
}

#[test]
fn control_tokens_are_shown_on_request() {
    let args = ["-p", "What news, my lord?", "--temp", "0", "--ignore-eos", "-n", "24"];
    assert!(!succeed(&args).contains("<|end|>"));
    assert!(succeed(&[&args[..], &["--special"]].concat()).contains("<|end|>"));
}

#[test]
fn verbose_tells_about_model_seed_and_speed_on_standard_error() {
    let run = run(&["-p", "Hail!", "-n", "4", "--seed", "5", "-v"]);
    assert_eq!(run.code, 0);
    for text in ["rustorch-shakespeare", "context: 512 tokens", "seed: 5", "tokens/s"] {
        assert!(run.err.contains(text), "{text}: {}", run.err);
        assert!(!run.out.contains(text), "{text}: {}", run.out);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for args in [
        &["--raw", "-p", "KING", "--ignore-eos", "--shift"][..],
        &["inspect", "--json"],
        &["explain", "--all"],
    ] {
        let mut child = program()
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 4]).unwrap();
        drop(out);
        // The first would generate for ever.
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*err), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn without_a_chat_template_the_prompt_is_continued_as_it_is() {
    let (_dir, path) = common::without_template();
    let path = path.to_str().unwrap();
    let report = succeed_json(&greedy(&["-m", path, "-p", "ROMEO:", "--json"]));
    assert_eq!(common::ids(&report["prompt_ids"]), [0, 839, 30]);
    common::fail(&["-m", path, "-p", "x", "--system", "y"], 2, &["--system needs a chat template"]);
}

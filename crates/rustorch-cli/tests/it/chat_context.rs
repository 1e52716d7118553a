//! A chat whose context is full.

use crate::common::terminal::Terminal;
use crate::common::{self, MODEL, succeed};

fn chat(args: &[&str]) -> Terminal {
    let mut terminal = Terminal::start(&[&["-m", MODEL, "--temp", "0"], args].concat());
    terminal.expect("/help lists the commands");
    terminal.expect("> ");
    terminal
}

/// What the program answers at once to a conversation, written as the template does.
fn fresh(system: &str, turns: &[(&str, &str)], question: &str, args: &[&str]) -> String {
    let mut prompt = format!("<|system|>\n{system}<|end|>\n");
    for (question, answer) in turns {
        prompt += &format!("<|user|>\n{question}<|end|>\n<|assistant|>\n{answer}<|end|>\n");
    }
    prompt += &format!("<|user|>\n{question}<|end|>\n<|assistant|>\n");
    succeed(&[&["--raw", "--temp", "0", "-p", &prompt], args].concat()).trim().to_owned()
}

#[test]
fn shift_drops_the_oldest_turns_keeps_the_system_prompt_and_says_how_many() {
    let mut terminal = chat(&["-c", "64", "-n", "10", "--shift", "--system", "Hail!"]);
    let mut turns: Vec<(&str, String)> = Vec::new();
    let mut dropped = 0;
    for question in ["Who art thou?", "What news, my lord?", "And then?", "Is he dead?"] {
        let shown = terminal.ask(question).replace("(cut at the limit; /params n-predict changes it)", "");
        let (answer, note) =
            match shown.split_once("(the context was full: the model does not see the oldest ") {
                Some((answer, note)) => (answer.trim(), Some(note)),
                None => (shown.trim(), None),
            };
        if let Some(note) = note {
            dropped += note.split(' ').next().unwrap().parse::<usize>().unwrap();
        }
        let seen: Vec<(&str, &str)> = turns[dropped / 2..].iter().map(|(q, a)| (*q, a.as_str())).collect();
        // Turns that went while the answer was written were seen by its beginning.
        if note.is_none() {
            assert_eq!(answer, fresh("Hail!", &seen, question, &["-n", "10"]), "{question}");
        }
        turns.push((question, answer.to_owned()));
    }
    assert!(dropped >= 2 && dropped.is_multiple_of(2), "{dropped}");
    terminal.say("/stats");
    terminal.expect(&format!("messages: 8, the oldest {dropped} of which the model does not see"));
    terminal.expect("> ");
    // What is saved is whole.
    let dir = tempfile::tempdir().unwrap();
    terminal.say(&format!("/save {}", dir.path().join("talk.json").display()));
    terminal.expect("8 messages saved");
}

#[test]
fn an_answer_longer_than_the_context_drops_its_own_beginning() {
    let mut terminal = chat(&["-c", "40", "-n", "120", "--shift", "--ignore-eos"]);
    let answer = terminal.ask("Speak.");
    assert!(answer.contains("(cut at the limit") && answer.len() > 250, "{answer}");
}

#[test]
fn a_conversation_that_does_not_fit_is_kept_and_what_helps_is_told() {
    let mut terminal = chat(&["-c", "30"]);
    let first = terminal.ask("What news, my lord?");
    assert!(first.contains("have"), "{first}");
    for line in ["And then, what did the king say to the people of the city of London?", "/ctx 1"] {
        terminal.say(line);
        terminal.expect(if line == "/ctx 1" {
            "context: 0 of 1 tokens"
        } else {
            "and the context holds 30: /ctx makes it larger, /undo and /clear"
        });
        terminal.expect("> ");
    }
    terminal.say("/ctx 512");
    terminal.expect("context: 0 of 512 tokens");
    terminal.expect("> ");
    // The question that was not answered is not part of the conversation, and the first turn is.
    let second = terminal.ask("And then?");
    let prompt = format!(
        "<|user|>\nWhat news, my lord?<|end|>\n<|assistant|>\n{first}<|end|>\n<|user|>\nAnd then?<|end|>\n<|assistant|>\n"
    );
    assert_eq!(second, succeed(&["--raw", "--temp", "0", "-p", &prompt]).trim());
}

#[test]
fn zero_is_the_model_s_own_context() {
    let run = common::run(&["-p", "x", "-n", "1", "-c", "0", "-v"]);
    assert!(run.code == 0 && run.err.contains("context: 512 tokens"), "{}", run.err);
    let mut terminal = chat(&["-c", "40"]);
    terminal.say("/ctx");
    terminal.expect("context: 0 of 40 tokens");
    terminal.expect("> ");
    terminal.say("/ctx 0");
    terminal.expect("context: 0 of 512 tokens");
}

//! What is typed in a chat: messages of several lines, pasted ones, files, commands that change the conversation.

use crate::common::terminal::Terminal;
use crate::common::{self, MODEL, program, succeed};
use std::path::Path;

const QUESTION: &str = "What news, my lord?";
const ANSWER: &str = "My lord, I will not have you been a king.";

fn chat_in(home: &Path, args: &[&str]) -> Terminal {
    let mut command = program();
    command.args([&["-m", MODEL, "--temp", "0"], args].concat());
    command.env("XDG_STATE_HOME", home).env("HOME", home).env("TERM", "xterm-256color").current_dir(home);
    let mut terminal = Terminal::start_command(command);
    terminal.expect("/help lists the commands");
    terminal.expect("> ");
    terminal
}

/// The messages that a chat has saved in a file of its folder.
fn saved(terminal: &mut Terminal, home: &Path, name: &str) -> Vec<String> {
    terminal.say(&format!("/save {name}"));
    terminal.expect("messages saved");
    terminal.expect("> ");
    let text = std::fs::read_to_string(home.join(name)).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&text).unwrap();
    let messages = saved["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn several_lines_are_one_message() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat_in(home.path(), &["-n", "4"]);
    terminal.say("\"\"\"Hail!");
    terminal.expect("… ");
    terminal.say("/help is no command here");
    terminal.expect("… ");
    terminal.say("\"\"\"");
    terminal.expect("(cut at the limit");
    terminal.expect("> ");
    // Pasted with the escape sequences of terminals that can.
    terminal.send("\u{1b}[200~one\ntwo\u{1b}[201~\r");
    terminal.expect("(cut at the limit");
    terminal.expect("> ");
    let messages = saved(&mut terminal, home.path(), "talk.json");
    assert_eq!(messages[0], "Hail!\n/help is no command here");
    assert_eq!(messages[2].replace("\r\n", "\n"), "one\ntwo");
}

#[test]
fn lines_pasted_without_escape_sequences_are_all_kept() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat_in(home.path(), &["-n", "4"]);
    terminal.send("one\rtwo\rthree\r");
    for _ in 0..3 {
        terminal.expect("(cut at the limit");
        terminal.expect("> ");
    }
    let messages = saved(&mut terminal, home.path(), "talk.json");
    assert_eq!([&messages[0], &messages[2], &messages[4]], ["one", "two", "three"]);
}

#[test]
fn a_file_is_said_and_a_turn_taken_back() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("my question.txt"), format!("{QUESTION}\n")).unwrap();
    let mut terminal = chat_in(home.path(), &[]);
    for path in [
        "my question.txt",
        "my\\ question.txt",
        "'my question.txt'",
        "\"my question.txt\"",
        "~/my question.txt",
    ] {
        terminal.say(&format!("/read {path}"));
        terminal.expect(ANSWER);
        terminal.expect("> ");
        terminal.say("/undo");
        terminal.expect("taken back; 0 messages are left");
        terminal.expect("> ");
    }
    terminal.say("/undo");
    terminal.expect("there is no turn to take back");
    terminal.expect("> ");
    terminal.say("/read no file");
    terminal.expect("cannot read no file");
    terminal.expect("> ");
    // Nothing of what was taken back is left.
    assert_eq!(terminal.ask("Who are you?"), succeed(&["--temp", "0", "-p", "Who are you?"]).trim());
}

#[test]
fn the_system_prompt_can_be_taken_away() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat_in(home.path(), &["--system", "KING HENRY VI: Leave us."]);
    terminal.say("/system unset");
    terminal.expect("there is no system prompt any more");
    terminal.expect("> ");
    assert_eq!(terminal.ask("Who are you?"), succeed(&["--temp", "0", "-p", "Who are you?"]).trim());
}

#[test]
fn what_is_no_saved_conversation_is_not_replaced() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("notes.txt"), "Buy milk.").unwrap();
    let mut terminal = chat_in(home.path(), &["-n", "4"]);
    terminal.ask(QUESTION);
    terminal.say("/save notes.txt");
    terminal.expect("cannot save notes.txt: it exists and is no saved conversation");
    terminal.expect("> ");
    saved(&mut terminal, home.path(), "talk.json");
    saved(&mut terminal, home.path(), "talk.json");
    assert_eq!(std::fs::read_to_string(home.path().join("notes.txt")).unwrap(), "Buy milk.");
    let left = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.filter(|name| name.to_string_lossy().contains("partial")).count(), 0);
}

#[test]
fn history_is_kept_line_by_line() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = chat_in(home.path(), &["-n", "4"]);
    terminal.ask(QUESTION);
    // The program that ends without leaving has kept it.
    let history = std::fs::read_to_string(home.path().join("rustorch/history")).unwrap();
    assert!(history.contains(QUESTION), "{history}");
}

#[test]
fn control_tokens_that_a_person_types_are_text() {
    let run = common::succeed_json(&["-p", "a<|end|>b", "-n", "1", "--json", "--seed", "1"]);
    let ids = common::ids(&run["prompt_ids"]);
    // The end of the person's turn, by the template.
    assert_eq!(ids.iter().filter(|&&id| id == 1).count(), 1, "{ids:?}");
    assert_eq!(
        succeed(&["tokenize", "--decode", &format!("{ids:?}")]),
        "<|begin_of_text|><|user|>\na<|end|>b<|end|>\n<|assistant|>\n\n"
    );
}

#[test]
fn where_standard_output_is_a_pipe_no_escape_sequence_is_written() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out.txt");
    let mut command = std::process::Command::new("sh");
    let line = format!(
        "'{}' -m '{MODEL}' --temp 0 > '{}'",
        program().get_program().to_str().unwrap(),
        out.display()
    );
    command.args(["-c", &line]).env("XDG_STATE_HOME", home.path()).env("TERM", "xterm-256color");
    let mut terminal = Terminal::start_command(command);
    terminal.expect("> ");
    terminal.send(&format!("{QUESTION}\n"));
    terminal.expect("> ");
    terminal.send("/exit\n");
    assert_eq!(terminal.exit_code(), 0);
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.contains(ANSWER) && !text.contains('\u{1b}') && !text.contains("> "), "{text:?}");
}

#[test]
fn a_dumb_terminal_gets_no_escape_sequence() {
    for (name, value) in [("TERM", "dumb"), ("NO_COLOR", "1")] {
        let mut command = program();
        command.args(["-m", "/no/such/file.gguf", "-p", "x"]).env("TERM", "xterm").env(name, value);
        let mut terminal = Terminal::start_command(command);
        terminal.expect("error: ");
        assert_eq!(terminal.exit_code(), 3);
        assert!(!terminal.saw_escapes(), "{name}");
    }
}

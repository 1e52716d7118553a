//! The chat, on a terminal of its own.

use crate::common;
use crate::common::MODEL;
use crate::common::terminal::Terminal;

/// A chat whose answers are the same every time.
fn chat(args: &[&str]) -> Terminal {
    let mut terminal = Terminal::start(&[&["-m", MODEL, "--temp", "0"], args].concat());
    terminal.expect("/help lists the commands");
    terminal.expect("> ");
    terminal
}

/// What llama.cpp answers to the question of these tests.
const QUESTION: &str = "What news, my lord?";
const ANSWER: &str = "My lord, I will not have you been a king.";

#[test]
fn a_turn_is_answered_and_control_d_leaves() {
    let mut terminal = chat(&[]);
    terminal.say(QUESTION);
    terminal.expect("KING RICHARD III:\r\n");
    terminal.expect(ANSWER);
    terminal.expect("> ");
    terminal.send("\x04");
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn after_the_scene_the_chat_opens_on_a_terminal() {
    let mut terminal = Terminal::start(&["-n", "8"]);
    terminal.expect("KING RICHARD III:");
    terminal.expect("tokens/s");
    terminal.expect("/help lists the commands");
    terminal.expect("> ");
    terminal.say("/exit");
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn control_c_stops_the_answer_and_not_the_program() {
    // This answer would never end.
    let mut terminal = chat(&["--ignore-eos", "--shift"]);
    terminal.say("Speak.");
    terminal.expect(":\r\n");
    terminal.send("\x03");
    terminal.expect("(stopped)");
    terminal.expect("> ");
    // At the prompt it tells how to leave.
    terminal.send("\x03");
    terminal.expect("/exit or Ctrl-D leaves");
    terminal.expect("> ");
    // What was said until then is in the conversation.
    terminal.say("/stats");
    terminal.expect("messages: 2;");
    terminal.expect("> ");
    terminal.say("/exit");
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn on_a_terminal_loading_shows_progress_and_an_answer_its_speed() {
    let mut terminal = Terminal::start(&["-p", QUESTION, "--temp", "0"]);
    terminal.expect("loading ");
    terminal.expect("/47 tensors");
    terminal.expect(ANSWER);
    terminal.expect("prompt: 13 tokens, ");
    terminal.expect("tokens/s");
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn control_c_ends_a_single_answer_with_130() {
    let mut terminal = Terminal::start(&["-p", "Speak.", "--ignore-eos", "--shift"]);
    terminal.expect(":\r\n");
    terminal.send("\x03");
    assert_eq!(terminal.exit_code(), 130);
}

#[test]
fn lines_are_edited_and_remembered_across_chats() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start_in(home.path(), &["-m", MODEL, "--temp", "0"]);
    terminal.expect("> ");
    // Written wrong, repaired with the left arrow and the backspace key.
    terminal.say(&format!("What nexs, my lord?{}\x7fw", "\x1b[D".repeat("s, my lord?".len())));
    terminal.expect(ANSWER);
    terminal.expect("> ");
    // The up arrow brings it back.
    terminal.send("\x1b[A");
    terminal.expect(QUESTION);
    terminal.send("\x15");
    terminal.say("/exit");
    assert_eq!(terminal.exit_code(), 0);
    let history = std::fs::read_to_string(home.path().join("rustorch/history")).unwrap();
    assert!(history.contains(QUESTION), "{history}");
    // So it does in the next chat, before the command that left this one.
    let mut terminal = Terminal::start_in(home.path(), &["-m", MODEL, "--temp", "0"]);
    terminal.expect("> ");
    terminal.send("\x1b[A");
    terminal.expect("/exit");
    terminal.send("\x1b[A");
    terminal.expect(QUESTION);
    terminal.say("");
    terminal.expect(ANSWER);
}

#[test]
fn the_tab_key_completes_commands() {
    let mut terminal = chat(&[]);
    terminal.send("/he\t");
    terminal.expect("/help");
    terminal.say("");
    terminal.expect("/regenerate            answer the last message again");
}

#[test]
fn help_names_every_command_and_mistakes_are_explained() {
    let mut terminal = chat(&[]);
    terminal.say("/help");
    for name in ["help", "system", "clear", "regenerate", "save", "load", "stats", "params", "exit"] {
        terminal.expect(&format!("/{name}"));
    }
    terminal.expect("> ");
    for (line, answer) in [
        ("/nonsense", "there is no command /nonsense"),
        ("/save", "/save needs a file name"),
        ("/load /no/such/file", "cannot load /no/such/file"),
        ("/regenerate", "there is no answer yet"),
        ("/params heat 3", "there is no parameter `heat`"),
        ("/params temp hot", "`hot` is no value for temp"),
        ("/params temp -1", "out of range"),
    ] {
        terminal.say(line);
        terminal.expect(answer);
        terminal.expect("> ");
    }
}

#[test]
fn the_system_prompt_is_part_of_every_turn() {
    let mut terminal = chat(&["--system", "Hail!"]);
    terminal.say("/system");
    terminal.expect("Hail!");
    terminal.expect("> ");
    terminal.say("/system KING HENRY VI: Leave us.");
    terminal.expect("system prompt set");
    terminal.expect("> ");
    let with_system = terminal.ask("Who are you?");
    // The program answers the same to both at once, and something else without the first.
    let once = |args: &[&str]| common::succeed(&[&["--temp", "0"], args].concat()).trim().to_owned();
    assert_eq!(with_system, once(&["--system", "KING HENRY VI: Leave us.", "-p", "Who are you?"]));
    assert_ne!(with_system, once(&["-p", "Who are you?"]));
}

#[test]
fn the_conversation_goes_through_the_template_of_the_file() {
    let mut terminal = chat(&[]);
    let first = terminal.ask(QUESTION);
    let second = terminal.ask("And then?");
    let prompt = format!(
        "<|user|>\n{QUESTION}<|end|>\n<|assistant|>\n{first}<|end|>\n<|user|>\nAnd then?<|end|>\n<|assistant|>\n"
    );
    assert_eq!(second, common::succeed(&["--raw", "--temp", "0", "-p", &prompt]).trim());
    // The first turn was not read again.
    terminal.say("/stats");
    terminal.expect("messages: 4;");
    terminal.expect("reused from the cache: ");
    let reused = terminal.until(" tokens");
    assert!(reused.parse::<usize>().unwrap() >= 20, "{reused}");
}

#[test]
fn clear_forgets_the_conversation() {
    let mut terminal = chat(&[]);
    let first = terminal.ask(QUESTION);
    terminal.ask("And then?");
    terminal.say("/clear");
    terminal.expect("conversation cleared");
    terminal.expect("> ");
    terminal.say("/stats");
    terminal.expect("context: 0 of 512 tokens");
    terminal.expect("messages: 0;");
    terminal.expect("> ");
    assert_eq!(terminal.ask(QUESTION), first);
}

#[test]
fn regenerate_answers_the_last_message_again() {
    let mut terminal = chat(&[]);
    let first = terminal.ask(QUESTION);
    assert_eq!(terminal.ask("/regenerate"), first);
    terminal.say("/params top-k 0");
    terminal.expect("> ");
    terminal.say("/params temp 2");
    terminal.expect("> ");
    terminal.say("/params seed 5");
    terminal.expect("> ");
    assert_ne!(terminal.ask("/regenerate"), first);
    terminal.say("/stats");
    terminal.expect("messages: 2;");
}

#[test]
fn params_shows_and_changes_how_tokens_are_chosen() {
    let mut terminal = chat(&["--top-k", "7"]);
    terminal.say("/params");
    for line in ["temp              0", "top-k             7", "seed", "n-predict         unlimited"] {
        terminal.expect(line);
    }
    terminal.expect("> ");
    terminal.say("/params n-predict 3");
    terminal.expect("n-predict is 3 now");
    terminal.expect("> ");
    let cut = "(cut at the limit; /params n-predict changes it)";
    assert_eq!(terminal.ask(QUESTION), format!("KING RICHARD III\n{cut}"));
    terminal.say("/params min_p = 0.5");
    terminal.expect("> ");
    terminal.say("/params");
    terminal.expect("min-p             0.5");
    terminal.expect("n-predict         3");
}

#[test]
fn a_conversation_is_saved_and_continued() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("talk.json");
    let mut terminal = chat(&["--system", "Hail!"]);
    let first = terminal.ask(QUESTION);
    terminal.say(&format!("/save {}", file.display()));
    terminal.expect("2 messages saved");
    terminal.expect("> ");
    let second = terminal.ask("And then?");
    terminal.say("/exit");
    assert_eq!(terminal.exit_code(), 0);

    let saved: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(saved["system"], "Hail!");
    assert_eq!(saved["messages"][0], serde_json::json!({ "role": "user", "content": QUESTION }));
    assert_eq!(
        saved["messages"][1]["content"].as_str().unwrap().replace('\n', "\r\n"),
        first.replace('\n', "\r\n")
    );

    let mut terminal = chat(&[]);
    terminal.say(&format!("/load {}", file.display()));
    terminal.expect("(system: Hail!)");
    terminal.expect(&format!("> {QUESTION}"));
    terminal.expect("> ");
    assert_eq!(terminal.ask("And then?"), second);
}

#[test]
fn a_full_context_is_told_and_the_chat_goes_on() {
    let mut terminal = chat(&["-c", "40", "--ignore-eos"]);
    terminal.say(QUESTION);
    terminal.expect("(cut: the context is full");
    terminal.expect("> ");
    // The conversation no longer fits.
    terminal.say("And then?");
    terminal.expect("/ctx makes it larger");
    terminal.expect("> ");
    terminal.say("/clear");
    terminal.expect("> ");
    terminal.say(QUESTION);
    terminal.expect("KING RICHARD III:");
}

#[test]
fn a_doubled_slash_says_one() {
    let mut terminal = chat(&[]);
    let answer = terminal.ask("//help");
    assert_eq!(answer, common::succeed(&["--temp", "0", "-p", "/help"]).trim());
}

#[test]
fn options_that_a_chat_cannot_have_are_refused() {
    for option in ["--raw", "--ids", "--json"] {
        let mut terminal = Terminal::start(&["-m", MODEL, option]);
        terminal.expect("need a prompt");
        assert_eq!(terminal.exit_code(), 2, "{option}");
    }
}

#[test]
fn a_model_without_a_chat_template_is_talked_to_in_plain_lines() {
    let (_dir, path) = common::without_template();
    let path = path.to_str().unwrap();
    let mut terminal = Terminal::start(&["-m", path, "--temp", "0", "-n", "12"]);
    terminal.expect("the model has no chat template; plain");
    terminal.expect("> ");
    assert!(!terminal.ask(QUESTION).is_empty());
}

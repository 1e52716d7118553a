//! Ctrl-C while a prompt is read.

use crate::common::MODEL;
use crate::common::terminal::Terminal;
use std::time::{Duration, Instant};

/// A prompt that takes far longer than a test.
fn long_prompt() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("prompt.txt");
    std::fs::write(&path, "Now is the winter of our discontent. ".repeat(12_000)).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

/// Far above the 0.3 seconds between two looks: machines that run tests are busy.
const AT_ONCE: Duration = Duration::from_secs(3);

#[test]
fn control_c_stops_reading_a_prompt_and_progress_is_shown() {
    let (_dir, path) = long_prompt();
    let mut terminal = Terminal::start(&["-f", &path, "-c", "200000", "--raw"]);
    terminal.expect("reading ");
    terminal.expect(" tokens");
    terminal.send("\x03");
    let start = Instant::now();
    assert_eq!(terminal.exit_code(), 130);
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
}

#[test]
fn in_a_chat_control_c_stops_reading_and_the_chat_goes_on() {
    let (_dir, path) = long_prompt();
    let mut terminal = Terminal::start(&["-m", MODEL, "-c", "200000"]);
    terminal.expect("> ");
    terminal.say(&format!("/read {path}"));
    terminal.expect("reading ");
    terminal.send("\x03");
    let start = Instant::now();
    terminal.expect("(stopped before the answer began)");
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    terminal.expect("> ");
    terminal.say("/stats");
    terminal.expect("messages: 0;");
}

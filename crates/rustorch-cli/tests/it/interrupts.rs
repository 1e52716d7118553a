//! Ctrl-C: while a prompt is read, and twice.

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

/// Ctrl-C is heard where progress is told, and there at the latest one token after 0.3 seconds. A busy machine makes some of the intervals longer.
#[test]
fn progress_is_told_after_a_third_of_a_second() {
    let (_dir, path) = long_prompt();
    let mut terminal = Terminal::start(&["-f", &path, "-c", "200000", "--raw"]);
    let mut next = || {
        terminal.expect("reading ");
        let done: f64 = terminal.until(" of ").parse().unwrap();
        (Instant::now(), done)
    };
    let (mut before, mut in_time, mut late) = (next(), 0, Vec::new());
    for _ in 0..12 {
        let now = next();
        let (seconds, tokens) = ((now.0 - before.0).as_secs_f64(), now.1 - before.1);
        match seconds <= 0.3 + seconds / tokens {
            true => in_time += 1,
            false => late.push((seconds, tokens)),
        }
        before = now;
    }
    assert!(in_time >= 6, "{late:?}");
}

/// A pipe that holds as much as it can: who writes to it waits.
#[cfg(target_os = "linux")]
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let (reader, mut writer) = std::io::pipe().unwrap();
    let descriptor = writer.as_raw_fd();
    // SAFETY: the descriptor is open while `writer` lives, and the command takes an integer.
    let set_flags =
        |flags: libc::c_int| assert_eq!(unsafe { libc::fcntl(descriptor, libc::F_SETFL, flags) }, 0);
    set_flags(libc::O_NONBLOCK);
    while writer.write(&[b' '; 4096]).is_ok() {}
    while writer.write(b" ").is_ok() {}
    set_flags(0);
    (reader, writer)
}

#[cfg(target_os = "linux")]
#[test]
fn a_second_control_c_ends_a_program_that_has_not_heard_the_first() {
    use crate::common::program;
    use std::process::Stdio;
    let (_reader, writer) = full_pipe();
    let mut command = program();
    command.args(["-p", "What news?", "--ignore-eos", "-n", "100000", "-c", "200000"]);
    let mut child = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    // It waits in a write to standard output, where it looks at nothing.
    let waits = format!("{} 0x1 ", libc::SYS_write);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !std::fs::read_to_string(format!("/proc/{}/syscall", child.id())).unwrap().starts_with(&waits) {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = i32::try_from(child.id()).unwrap();
    // SAFETY: a signal to a process that this one started and has not waited for.
    let press = || assert_eq!(unsafe { libc::kill(id, libc::SIGINT) }, 0);
    press();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(child.try_wait().unwrap(), None);
    press();
    assert_eq!(child.wait().unwrap().code(), Some(130));
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

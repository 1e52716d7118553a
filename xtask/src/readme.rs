//! The transcripts in `README.md`: run, written, compared.
//!
//! A transcript is a ```` ```text ```` block after the comment `<!-- transcript -->`. Its first line is `$ COMMAND`; lines that begin with `> `
//! are typed at the program's prompt; all others are what the program prints, to standard output or error. `[…]`, once in a block, stands for any
//! number of lines. Words after a colon, separated by commas, say more:
//!
//! - `vulkan`, `opencl`, ..: it needs a device of this kind; `no cuda`: it needs that there is none. Where that does not hold it is left out;
//! - `any order`: tables sorted by time; each line has to be there, wherever.
//!
//! Texts and counts are compared exactly. Speeds, times, sizes of memory and names of hardware only have to stand where they stand in the README.

use crate::oracle::note;
use crate::{execute, root};
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a program may take to print what comes before its next prompt.
const PATIENCE: Duration = Duration::from_secs(300);
const ELISION: &str = "[…]";

/// A marked block of the README.
#[derive(Debug, PartialEq)]
struct Transcript<'a> {
    command: &'a str,
    /// The lines after the command.
    body: Vec<&'a str>,
    /// Where in the README these are, counted from 0.
    lines: Range<usize>,
    /// Kinds of devices, and whether they are to be there.
    needs: Vec<(&'a str, bool)>,
    any_order: bool,
}

/// Writes the transcripts anew that differ from what the programs print; with `check`, fails instead. `program` is a build of `rustorch-cli`; without one the release build is made.
pub(crate) fn run(check: bool, program: Option<PathBuf>) -> Result<(), String> {
    let program = match program {
        Some(path) => path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?,
        None => {
            let mut build = Command::new("cargo");
            build.args(["build", "--release", "--quiet", "--package", "rustorch-cli"]);
            execute(build)?;
            root().join("target/release/rustorch-cli")
        }
    };
    let path = root().join("README.md");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("README.md: {e}"))?;
    let transcripts = Transcript::all(&text)?;
    if transcripts.is_empty() {
        return Err("README.md has no transcripts".into());
    }
    let devices = printed(&program, "rustorch-cli devices", &[])?;
    let is_here = |kind: &str| devices.iter().any(|line| line.starts_with(&format!("{kind}:")));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut wrong = Vec::new();
    // From the last: what is written does not move those before it.
    for transcript in transcripts.iter().rev() {
        let at = format!("README.md:{}: `{}`", transcript.lines.start, transcript.command);
        if let Some((kind, wanted)) = transcript.needs.iter().find(|(kind, wanted)| is_here(kind) != *wanted)
        {
            let why = if *wanted { "is no device of" } else { "is a device of" };
            note(format_args!("left out: {at}: there {why} {kind}"));
            continue;
        }
        let typed: Vec<&str> = transcript.body.iter().filter_map(|line| line.strip_prefix("> ")).collect();
        if !typed.is_empty() && !has_script() {
            note(format_args!("left out: {at}: it needs util-linux's `script`, for a terminal"));
            continue;
        }
        let output = printed(&program, transcript.command, &typed)?;
        match transcript.compare(&output) {
            // Its figures stay, which another machine may have written.
            Ok(()) => note(format_args!("as shown: {at}")),
            Err(_) if !check => {
                lines.splice(transcript.lines.clone(), transcript.rewritten(&output)?);
                note(format_args!("written: {at}"));
            }
            Err(difference) => {
                wrong.push(format!("{at}: {difference}\nThe program prints\n{}", output.join("\n")))
            }
        }
    }
    if !wrong.is_empty() {
        return Err(format!("{}\n`cargo xtask readme` writes the transcripts anew", wrong.join("\n\n")));
    }
    if !check {
        std::fs::write(&path, lines.join("\n") + "\n").map_err(|e| format!("README.md: {e}"))?;
    }
    Ok(())
}

impl<'a> Transcript<'a> {
    /// The transcripts in a text.
    fn all(text: &'a str) -> Result<Vec<Transcript<'a>>, String> {
        let lines: Vec<&str> = text.lines().collect();
        let mut found = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let marked = line.strip_prefix("<!-- transcript").and_then(|rest| rest.strip_suffix("-->"));
            let Some(words) = marked else { continue };
            let error = |what: &str| format!("README.md:{}: {what}", at + 1);
            let (Some(&"```text"), Some(first)) = (lines.get(at + 1), lines.get(at + 2)) else {
                return Err(error("a block ```text has to follow"));
            };
            let command =
                first.strip_prefix("$ ").ok_or_else(|| error("the block has to begin with `$ COMMAND`"))?;
            let start = at + 3;
            let length = lines[start..].iter().position(|line| *line == "```");
            let lines_of = start..start + length.ok_or_else(|| error("the block does not end"))?;
            let mut transcript = Transcript {
                command,
                body: lines[lines_of.clone()].to_vec(),
                lines: lines_of,
                needs: Vec::new(),
                any_order: false,
            };
            let words = words.trim().strip_prefix(':').unwrap_or_default();
            for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
                match (word, word.strip_prefix("no ")) {
                    ("any order", _) => transcript.any_order = true,
                    (_, Some(kind)) => transcript.needs.push((kind, false)),
                    (kind, None) => transcript.needs.push((kind, true)),
                }
            }
            if transcript.body.iter().filter(|line| **line == ELISION).count() > 1 {
                return Err(error("a block has one […] at most"));
            }
            found.push(transcript);
        }
        Ok(found)
    }

    /// The lines before and after the elision; none after it where there is no elision.
    fn parts(&self) -> (&[&'a str], Option<&[&'a str]>) {
        match self.body.iter().position(|line| *line == ELISION) {
            Some(at) => (&self.body[..at], Some(&self.body[at + 1..])),
            None => (&self.body, None),
        }
    }

    /// What of an output differs from what is shown.
    fn compare(&self, output: &[String]) -> Result<(), String> {
        let printed: Vec<String> = output.iter().map(|line| pattern(line)).collect();
        if self.any_order {
            let mut left = printed;
            for line in self.body.iter().filter(|line| **line != ELISION) {
                let at = left.iter().position(|other| *other == pattern(line));
                left.swap_remove(at.ok_or_else(|| format!("`{line}` is not printed"))?);
            }
            let complete = self.parts().1.is_some() || left.is_empty();
            return if complete { Ok(()) } else { Err(format!("these lines are not shown: {left:?}")) };
        }
        let (head, tail) = self.parts();
        let shown = head.len() + tail.map_or(0, <[_]>::len);
        if printed.len() < shown || tail.is_none() && printed.len() > shown {
            return Err(format!("{shown} lines are shown and {} are printed", printed.len()));
        }
        let tail = tail.unwrap_or_default();
        let last = &printed[printed.len() - tail.len()..];
        for (line, other) in head.iter().zip(&printed).chain(tail.iter().zip(last)) {
            if pattern(line) != *other {
                return Err(format!("`{line}` is shown and `{other}` is printed"));
            }
        }
        Ok(())
    }

    /// The body anew: as many lines around the elision as there were.
    fn rewritten(&self, output: &[String]) -> Result<Vec<String>, String> {
        let (head, Some(tail)) = self.parts() else { return Ok(output.to_vec()) };
        if output.len() < head.len() + tail.len() {
            return Err(format!("`{}` prints {} lines, fewer than are shown", self.command, output.len()));
        }
        let (first, last) = (&output[..head.len()], &output[output.len() - tail.len()..]);
        Ok(first.iter().cloned().chain([ELISION.to_owned()]).chain(last.iter().cloned()).collect())
    }
}

/// A line with `#` for figures of speed, time and memory, and `NAME` for names of hardware; with single spaces, for widths of columns follow the
/// figures.
fn pattern(line: &str) -> String {
    let line = nameless(line);
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut out: Vec<String> = Vec::with_capacity(words.len());
    let mut at = 0;
    while at < words.len() {
        let unit = words.get(at + 1).and_then(|next| unit(next));
        let number = words[at].trim_start_matches('(');
        match unit {
            Some((unit, rest)) if number == "?" || number.parse::<f64>().is_ok() => {
                let opening = &words[at][..words[at].len() - number.len()];
                out.push(format!("{opening}# {unit}{rest}"));
                at += 2;
            }
            _ => {
                out.push(words[at].to_owned());
                at += 1;
            }
        }
    }
    out.join(" ")
}

/// What a word that begins with a unit measures, and the punctuation after it.
fn unit(word: &str) -> Option<(&'static str, &str)> {
    const UNITS: [(&str, &str); 12] = [
        ("tokens/s", "tokens/s"),
        ("GFLOP/s", "GFLOP/s"),
        ("GB/s", "GB/s"),
        ("KiB", "bytes"),
        ("MiB", "bytes"),
        ("GiB", "bytes"),
        ("B", "bytes"),
        ("%", "%"),
        ("ns", "time"),
        ("µs", "time"),
        ("ms", "time"),
        ("s", "time"),
    ];
    let end = word.trim_end_matches([',', ';', ')', '.']);
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == end)?;
    Some((unit, &word[end.len()..]))
}

/// The line without the name of a device: in a row of `devices`, and after `device: DEVICE`.
fn nameless(line: &str) -> String {
    let row =
        line.split_once("; measured ").and_then(|(row, figures)| Some((row.split_once(' ')?.0, figures)));
    if let Some((device, figures)) = row {
        return format!("{device} NAME; measured {figures}");
    }
    if let Some(rest) = line.strip_prefix("device: ")
        && let (Some(open), Some(close)) = (rest.find(" ("), rest.rfind(')'))
    {
        return format!("device: {} (NAME{}", &rest[..open], &rest[close..]);
    }
    line.to_owned()
}

/// What a command of the README prints, line by line, where `program` is `rustorch-cli`.
fn printed(program: &Path, command: &str, typed: &[&str]) -> Result<Vec<String>, String> {
    let names = ["cargo run --release -q --", "rustorch-cli"];
    let arguments = names.iter().find_map(|name| command.strip_prefix(name));
    let arguments = arguments.ok_or_else(|| format!("`{command}` does not run rustorch-cli"))?;
    let line = format!("'{}'{arguments}", program.display());
    let text = if typed.is_empty() { piped(&line) } else { on_terminal(&line, typed) }?;
    let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    Ok(lines)
}

/// The command in the root of the repository, with nothing of the user's settings, history and measurements.
fn clean(mut command: Command) -> Command {
    for name in
        ["RUSTORCH_THREADS", "RUSTORCH_DEVICES", "RUSTORCH_DISABLE_GPU", "RUSTORCH_PLACEMENT", "RUST_LOG"]
    {
        command.env_remove(name);
    }
    let state = root().join("target/xtask");
    command.current_dir(root()).env("RUSTORCH_CACHE_DIR", &state).env("XDG_STATE_HOME", &state);
    command
}

fn piped(line: &str) -> Result<String, String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{line} 2>&1")]).stdin(Stdio::null());
    let output = clean(shell).output().map_err(|e| format!("{line}: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("{line}: {}\n{text}", output.status)) }
}

fn has_script() -> bool {
    let version = Command::new("script").arg("--version").output();
    version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("util-linux"))
}

/// Runs a chat on a terminal that can do nothing, types each line when the prompt is there, and leaves.
fn on_terminal(line: &str, typed: &[&str]) -> Result<String, String> {
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", line, "/dev/null"]).env("TERM", "dumb");
    let spawned = clean(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|e| format!("script: {e}"))?;
    let (Some(mut keyboard), Some(mut screen)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("script: no pipes".into());
    };
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = screen.read(&mut buffer) {
            if sender.send(buffer[..n].to_vec()).is_err() {
                break;
            }
        }
    });
    let mut shown = Vec::new();
    let leave = "\u{4}".to_owned();
    let mut result = Ok(());
    for text in typed.iter().map(|text| format!("{text}\n")).chain([leave]) {
        result = until_prompt(&receiver, &mut shown, line);
        if result.is_err() {
            break;
        }
        keyboard.write_all(text.as_bytes()).map_err(|e| format!("{line}: {e}"))?;
    }
    // Without a keyboard the program ends even where it was not understood.
    drop(keyboard);
    if result.is_ok() {
        shown.extend(receiver.iter().flatten());
    } else {
        child.kill().map_err(|e| format!("script: {e}"))?;
    }
    let status = child.wait().map_err(|e| format!("script: {e}"))?;
    result?;
    let text = plain(&String::from_utf8_lossy(&shown));
    if !status.success() {
        return Err(format!("{line}: {status}\n{text}"));
    }
    // The prompt at which it was left is not shown.
    Ok(text.trim_end().trim_end_matches('>').to_owned())
}

/// Waits until the last thing on the screen is the prompt.
fn until_prompt(screen: &Receiver<Vec<u8>>, shown: &mut Vec<u8>, line: &str) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    let before = shown.len();
    while shown.len() == before || !(shown.ends_with(b"\n> ") || shown == b"> ") {
        let left = end.saturating_duration_since(Instant::now());
        let Ok(bytes) = screen.recv_timeout(left) else {
            return Err(format!("{line}: no prompt came after\n{}", String::from_utf8_lossy(shown)));
        };
        shown.extend(bytes);
    }
    Ok(())
}

/// What a terminal shows of a text: without escape sequences and lines that were written over.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.replace("\r\n", "\n").chars().collect::<Vec<_>>().into_iter().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.peek() == Some(&'[') => {
                chars.next();
                chars.by_ref().find(|c| ('\u{40}'..='\u{7e}').contains(c));
            }
            '\r' => out.truncate(out.rfind('\n').map_or(0, |at| at + 1)),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title
<!-- transcript: vulkan, no cuda, any order -->
```text
$ rustorch-cli explain
a  1
[…]
b  2
```
```text
$ not marked
```
<!-- transcript -->
```text
$ rustorch-cli
> Hail!
Hail, 3 times, 3.1 ms
```
";

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn marked_blocks_are_found() {
        let found = Transcript::all(TEXT).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].command, &*found[0].body),
            ("rustorch-cli explain", &["a  1", ELISION, "b  2"][..])
        );
        assert_eq!(
            (&found[0].needs[..], found[0].any_order),
            (&[("vulkan", true), ("cuda", false)][..], true)
        );
        assert_eq!((found[1].lines.clone(), found[1].any_order), (14..16, false));
        for wrong in [
            "<!-- transcript -->\n",
            "<!-- transcript -->\n```text\nx\n```",
            "<!-- transcript -->\n```text\n$ x\n",
        ] {
            assert!(Transcript::all(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn texts_and_counts_have_to_be_equal_and_figures_do_not() {
        let chat = &Transcript::all(TEXT).unwrap()[1];
        assert_eq!(chat.compare(&lines("> Hail!\nHail, 3 times, 12.0 µs")), Ok(()));
        for other in [
            "> Hail!\nHail, 4 times, 3.1 ms",
            "> Hail!\nHail, 3 times, 3.1 MiB",
            "> Hail!",
            "> Hail!\nHail, 3 times, 3.1 ms\n!",
        ] {
            assert!(chat.compare(&lines(other)).is_err(), "{other}");
        }
        let table = &Transcript::all(TEXT).unwrap()[0];
        assert_eq!(table.compare(&lines("x\nb 2\na 1")), Ok(()));
        assert!(table.compare(&lines("a 1\nb 3")).is_err());
        assert!(table.compare(&lines("a 1\nc\na 1")).is_err());
    }

    #[test]
    fn a_transcript_is_rewritten_around_its_elision() {
        let table = &Transcript::all(TEXT).unwrap()[0];
        assert_eq!(table.rewritten(&lines("h\nx\ny\nt")).unwrap(), ["h", ELISION, "t"]);
        assert!(table.rewritten(&lines("h")).is_err());
    }

    #[test]
    fn names_and_figures_become_patterns() {
        for (line, expected) in [
            (
                "cpu      Xeon (R), 2 threads; measured 310.7 GFLOP/s, ? GB/s",
                "cpu NAME; measured # GFLOP/s, # GB/s",
            ),
            ("device: vulkan:0 (a (b)), 5 of 5 layers", "device: vulkan:0 (NAME), 5 of 5 layers"),
            ("context: 45 of 512 tokens, 640.00 KiB", "context: 45 of 512 tokens, # bytes"),
            ("matmul(f32, Q4_K)   93  31.0 ms  47.9 %  0  cpu", "matmul(f32, Q4_K) 93 # time # % 0 cpu"),
            ("prompt: 6 tokens, 4195.0 tokens/s · generation", "prompt: 6 tokens, # tokens/s · generation"),
        ] {
            assert_eq!(pattern(line), expected);
        }
    }

    #[test]
    fn a_terminal_shows_what_was_written_last() {
        assert_eq!(plain("a\r\n\u{1b}[1mb\u{1b}[0m\r\nloading\r\u{1b}[Kc\r\n"), "a\nb\nc\n");
    }
}

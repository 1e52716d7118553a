//! What a person types: lines from an editor, or from standard input as it is where standard output is no terminal.

use super::completion::Completion;
use crate::failure::Failure;
use crate::output;
use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

const PROMPT: &str = "> ";
/// The prompt within a message of several lines.
const PROMPT_WITHIN: &str = "… ";
/// What stands before and behind a message of several lines.
const FENCE: &str = "\"\"\"";

/// What was typed.
#[derive(Debug, PartialEq)]
pub(super) enum Entry {
    /// A line, which may be a command.
    Line(String),
    /// Several lines between fences: never a command.
    Message(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of the input.
    End,
}

/// Where lines come from.
pub(super) struct Lines {
    source: Source,
    history: Option<PathBuf>,
}

enum Source {
    Editor(Box<Editor<Completion, DefaultHistory>>),
    /// Something else than a person reads what is printed: the prompt goes to standard error, and nothing is edited.
    Plain,
}

impl Lines {
    pub(super) fn new() -> Result<Lines, Failure> {
        if !io::stdout().is_terminal() {
            return Ok(Lines { source: Source::Plain, history: None });
        }
        let mut editor = Editor::new().map_err(failure)?;
        editor.set_helper(Some(Completion::new()));
        let history = history_file();
        if let Some(file) = &history {
            // No history yet is no error.
            let _ = editor.load_history(file);
        }
        Ok(Lines { source: Source::Editor(Box::new(editor)), history })
    }

    /// The next line or message.
    pub(super) fn next(&mut self) -> Result<Entry, Failure> {
        let entry = entry(|prompt| self.read(prompt))?;
        match &entry {
            Entry::Line(text) if !text.trim().is_empty() => self.remember(text),
            Entry::Message(text) => self.remember(&format!("{FENCE}{text}{FENCE}")),
            _ => {}
        }
        Ok(entry)
    }

    fn read(&mut self, prompt: &str) -> Result<Entry, Failure> {
        match &mut self.source {
            Source::Editor(editor) => match editor.readline(prompt) {
                Ok(line) => Ok(Entry::Line(line)),
                Err(ReadlineError::Interrupted) => Ok(Entry::Interrupted),
                Err(ReadlineError::Eof) => Ok(Entry::End),
                Err(error) => Err(failure(error)),
            },
            Source::Plain => {
                let mut err = io::stderr().lock();
                // Where it cannot be shown nobody misses it.
                let _ = write!(err, "{prompt}").and_then(|()| err.flush());
                drop(err);
                let mut line = String::new();
                match io::stdin().read_line(&mut line) {
                    Ok(0) => Ok(Entry::End),
                    Ok(_) => Ok(Entry::Line(line.trim_end_matches(['\r', '\n']).to_owned())),
                    Err(error) => Err(failure(error.into())),
                }
            }
        }
    }

    /// Adds to the history, in memory and at once on disk. What cannot be kept is told once and no more.
    fn remember(&mut self, text: &str) {
        let Source::Editor(editor) = &mut self.source else { return };
        let added = editor.add_history_entry(text);
        let Some(file) = &self.history else { return };
        let folder = file.parent().unwrap_or(Path::new("."));
        let saved = added.and_then(|is_new| {
            if is_new {
                std::fs::create_dir_all(folder)?;
                editor.append_history(file)?;
            }
            Ok(())
        });
        if let Err(error) = saved {
            output::note(format_args!("the history is not kept in {}: {error}", file.display()));
            self.history = None;
        }
    }
}

/// The next entry, of lines that `read` gives for a prompt.
fn entry(mut read: impl FnMut(&str) -> Result<Entry, Failure>) -> Result<Entry, Failure> {
    let first = match read(PROMPT)? {
        Entry::Line(line) => line,
        other => return Ok(other),
    };
    let Some(begun) = first.trim_start().strip_prefix(FENCE) else { return Ok(Entry::Line(first)) };
    let mut text = begun.to_owned();
    while !text.trim_end().ends_with(FENCE) {
        match read(PROMPT_WITHIN)? {
            Entry::Line(line) => {
                text.push('\n');
                text.push_str(&line);
            }
            other => return Ok(other),
        }
    }
    let text = text.trim_end();
    Ok(Entry::Message(text[..text.len() - FENCE.len()].trim_matches('\n').to_owned()))
}

fn failure(error: ReadlineError) -> Failure {
    Failure::Other(format!("cannot read from the terminal: {error}"))
}

/// Where the lines typed are kept: the user's state directory.
fn history_file() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"))?)
            .join(".local/state"),
    };
    Some(state.join("rustorch").join("history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(lines: &[&str]) -> Vec<Entry> {
        let mut lines = lines.iter();
        let mut read = |_: &str| Ok(lines.next().map_or(Entry::End, |line| Entry::Line((*line).to_owned())));
        let mut all = Vec::new();
        loop {
            match entry(&mut read).unwrap() {
                Entry::End => return all,
                entry => all.push(entry),
            }
        }
    }

    #[test]
    fn fences_stand_around_messages_of_several_lines() {
        let line = |text: &str| Entry::Line(text.into());
        let message = |text: &str| Entry::Message(text.into());
        assert_eq!(entries(&["a", "/b"]), [line("a"), line("/b")]);
        assert_eq!(entries(&["\"\"\"a", "/b", "", "c\"\"\"", "d"]), [message("a\n/b\n\nc"), line("d")]);
        assert_eq!(entries(&["\"\"\"", " a", "\"\"\""]), [message(" a")]);
        assert_eq!(entries(&["\"\"\"a\"\"\""]), [message("a")]);
        assert_eq!(entries(&["\"\"\"a", "b"]), []);
    }
}

//! What the Tab key completes: commands, parameters, file names.

use super::commands::{NAMES, Param};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

/// Completes lines that begin with a slash.
pub(super) struct Completion(FilenameCompleter);

impl Completion {
    pub(super) fn new() -> Completion {
        Completion(FilenameCompleter::new())
    }
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(&self, line: &str, end: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..end];
        match typed.split_once(' ') {
            None if typed.starts_with('/') => Ok((0, among(NAMES, typed))),
            Some(("/save" | "/load" | "/read", _)) => self.0.complete_path(line, end),
            Some((command @ "/params", name)) => {
                Ok((command.len() + 1, among(Param::ALL.iter().map(|p| p.name()), name)))
            }
            _ => Ok((end, Vec::new())),
        }
    }
}

/// Those that begin with what was typed.
fn among<'a>(names: impl IntoIterator<Item = &'a str>, typed: &str) -> Vec<Pair> {
    let begun = names.into_iter().filter(|name| name.starts_with(typed));
    begun.map(|name| Pair { display: name.to_owned(), replacement: format!("{name} ") }).collect()
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;
    use rustyline::history::DefaultHistory;

    #[test]
    fn commands_and_parameters_are_completed_and_text_is_not() {
        let complete = |line: &str| {
            let history = DefaultHistory::new();
            let (start, found) =
                Completion::new().complete(line, line.len(), &Context::new(&history)).unwrap();
            (start, found.into_iter().map(|pair| pair.replacement).collect::<Vec<_>>())
        };
        assert_eq!(complete("/re"), (0, vec!["/read ".to_owned(), "/regenerate ".to_owned()]));
        assert_eq!(complete("/").1.len(), NAMES.len());
        assert_eq!(complete("/params top-"), (8, vec!["top-k ".to_owned(), "top-p ".to_owned()]));
        assert_eq!(complete("Who").1, Vec::<String>::new());
        assert_eq!(complete("Who are /re").1, Vec::<String>::new());
    }
}

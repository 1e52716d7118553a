//! Text from standard input.

use crate::failure::Failure;
use crate::output;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Read};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long an open pipe may stay silent before the program goes on without it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Everything, as it is.
pub(crate) fn read_all() -> Result<String, Failure> {
    let mut text = String::new();
    match io::stdin().read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            Err(Failure::Usage("standard input is not UTF-8 text".into()))
        }
        Err(e) => Err(unreadable(&e)),
    }
}

/// A prompt: everything but the newline that `echo` adds.
pub(crate) fn read_prompt() -> Result<String, Failure> {
    read_all().map(without_newline)
}

/// A text without the newline at its end.
pub(crate) fn without_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

/// A prompt if somebody gives one: `None` if standard input is empty, or a pipe in which nothing comes.
///
/// Scripts start programs with pipes that they neither write to nor close, so that waiting for the end could be for ever.
pub(crate) fn offered() -> Result<Option<String>, Failure> {
    match looked_for().recv_timeout(PATIENCE) {
        Ok(Ok(true)) => read_prompt().map(Some),
        Ok(Ok(false)) | Err(_) => Ok(None),
        Ok(Err(e)) => Err(unreadable(&e)),
    }
}

/// What is piped in besides a prompt; `None` if standard input is empty. Where nothing comes, it says what it waits for: a slow
/// program before the pipe is not to be left out.
pub(crate) fn piped() -> Result<Option<String>, Failure> {
    let found = looked_for();
    let first = found.recv_timeout(PATIENCE).or_else(|_| {
        output::note(
            "waiting for text on standard input, to join it to the prompt (</dev/null: there is none)",
        );
        found.recv()
    });
    match first {
        Ok(Ok(true)) => read_prompt().map(Some),
        Ok(Ok(false)) | Err(_) => Ok(None),
        Ok(Err(e)) => Err(unreadable(&e)),
    }
}

/// Tells whether anything comes on standard input, once that is known.
fn looked_for() -> mpsc::Receiver<io::Result<bool>> {
    let (sender, receiver) = mpsc::channel();
    // The thread only looks; what it finds stays in the buffer that all of standard input's readers share. If nothing
    // ever comes it stays behind, which holds nothing up: nobody else reads then.
    thread::spawn(move || sender.send(io::stdin().lock().fill_buf().map(|bytes| !bytes.is_empty())));
    receiver
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::Other(format!("standard input: {error}"))
}

/// Several texts: the arguments, or the lines of the file, or those of standard input. `what` says what they are.
pub(crate) fn lines_or(
    arguments: &[String],
    file: Option<&Path>,
    what: &str,
) -> Result<Vec<String>, Failure> {
    if !arguments.is_empty() {
        return Ok(arguments.to_vec());
    }
    let text = match file {
        Some(path) => read_file(path)?,
        None if io::stdin().is_terminal() => {
            return Err(Failure::Usage(format!(
                "{what} is missing: give it as an argument, by --file FILE or on standard input"
            )));
        }
        None => read_all()?,
    };
    match text.lines().map(str::to_owned).collect::<Vec<_>>() {
        lines if lines.is_empty() => Err(Failure::Usage(format!("there is no {what}: the input is empty"))),
        lines => Ok(lines),
    }
}

/// A file of text that the user named.
pub(crate) fn read_file(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|e| Failure::Other(format!("cannot read {}: {e}", path.display())))?;
    String::from_utf8(bytes).map_err(|_| Failure::Usage(format!("{} is not UTF-8 text", path.display())))
}

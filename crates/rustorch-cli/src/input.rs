//! Text from standard input.

use crate::failure::Failure;
use std::io::{self, BufRead, Read};
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
        Err(e) => Err(Failure::Other(format!("standard input: {e}"))),
    }
}

/// A prompt: everything but the newline that `echo` adds.
pub(crate) fn read_prompt() -> Result<String, Failure> {
    let mut text = read_all()?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// A prompt if somebody gives one: `None` if standard input is empty, or a pipe in which nothing comes.
///
/// Scripts start programs with pipes that they neither write to nor close, so that waiting for the end could be for ever.
pub(crate) fn offered() -> Result<Option<String>, Failure> {
    let (sender, receiver) = mpsc::channel();
    // The thread only looks; what it finds stays in the buffer that all of standard input's readers share. If nothing
    // ever comes it stays behind, which holds nothing up: nobody else reads then.
    thread::spawn(move || sender.send(io::stdin().lock().fill_buf().map(|bytes| !bytes.is_empty())));
    match receiver.recv_timeout(PATIENCE) {
        Ok(Ok(true)) => read_prompt().map(Some),
        Ok(Ok(false)) | Err(_) => Ok(None),
        Ok(Err(e)) => Err(Failure::Other(format!("standard input: {e}"))),
    }
}

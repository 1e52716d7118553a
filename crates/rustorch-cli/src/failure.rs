//! What can end the program, and with which exit code.

use rustorch::llm;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// Why the program ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments make no sense together: exit code 2, as for those that cannot be parsed.
    Usage(String),
    /// The model file cannot be read or run: exit code 3.
    Model(String),
    /// The device asked for is not there: exit code 4.
    Backend(String),
    /// The context of so many tokens was full before the answer ended: exit code 5.
    ContextFull(usize),
    /// Anything else that fails: exit code 1.
    Other(String),
    /// The reader of our output has gone away: no failure of ours.
    OutputClosed,
    /// The user pressed Ctrl-C: exit code 130.
    Interrupted,
}

/// The exit codes, for `--help`.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 success, 1 failure while running, 2 wrong usage, 3 the model file \
    cannot be read or run, 4 the backend is not available, 5 the context was full before the answer ended, 130 interrupted.";

impl Failure {
    /// Prints the failure to standard error and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let code = match self {
            Failure::Other(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Model(_) => 3,
            Failure::Backend(_) => 4,
            Failure::ContextFull(_) => {
                crate::output::note(self);
                return ExitCode::from(5);
            }
            Failure::OutputClosed => return ExitCode::SUCCESS,
            Failure::Interrupted => return ExitCode::from(crate::interrupt::EXIT_CODE),
        };
        crate::output::error(self);
        ExitCode::from(code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(m) | Failure::Model(m) | Failure::Backend(m) | Failure::Other(m) => f.write_str(m),
            Failure::ContextFull(size) => write!(
                f,
                "(cut: the context of {size} tokens is full; --ctx-size makes it larger, --shift goes on without the oldest part)"
            ),
            Failure::OutputClosed => f.write_str("the output was closed"),
            Failure::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// An error of writing: what is read has errors of its own.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Other(format!("cannot write the output: {error}")),
        }
    }
}

impl From<llm::Error> for Failure {
    fn from(error: llm::Error) -> Failure {
        match error {
            llm::Error::File(_) | llm::Error::Architecture { .. } | llm::Error::Hyperparameter { .. } => {
                Failure::Model(error.to_string())
            }
            llm::Error::TensorShape { .. } | llm::Error::UnknownTensor { .. } | llm::Error::Tokenizer(_) => {
                Failure::Model(error.to_string())
            }
            llm::Error::Token { .. } | llm::Error::NoTokenizer(_) | llm::Error::Sampling(_) => {
                Failure::Usage(error.to_string())
            }
            other => Failure::Other(other.to_string()),
        }
    }
}

impl From<rustorch::Error> for Failure {
    fn from(error: rustorch::Error) -> Failure {
        Failure::Other(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        if error.is_io() { io::Error::from(error).into() } else { Failure::Other(error.to_string()) }
    }
}

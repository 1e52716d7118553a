//! What can go wrong in evaluating a model.

use std::io;
use std::path::PathBuf;

/// Why a model could not be evaluated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// The model could not be run.
    #[error(transparent)]
    Model(#[from] crate::Error),
    /// A chunk of this length has no token that is scored.
    #[error("chunks of {context} tokens have none to score; 3 is the least length (--ctx-size)")]
    Context {
        /// The length.
        context: usize,
    },
    /// The text is shorter than one chunk.
    #[error(
        "the text has {tokens} tokens, fewer than one chunk of {context}; take a longer text or shorter chunks (--ctx-size)"
    )]
    TooShort {
        /// How many tokens it has.
        tokens: usize,
        /// The length of a chunk.
        context: usize,
    },
    /// A file of log probabilities cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file that does not hold the log probabilities that `llama-perplexity` writes.
    #[error("{}: {message}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The log probabilities are of a model with another vocabulary.
    #[error(
        "the log probabilities are of a vocabulary of {base} tokens, but the model has {model}: they are of another model"
    )]
    Vocabulary {
        /// Tokens of the file.
        base: usize,
        /// Tokens of the model.
        model: usize,
    },
}

impl From<rustorch_core::Error> for EvaluateError {
    fn from(error: rustorch_core::Error) -> Self {
        EvaluateError::Model(error.into())
    }
}

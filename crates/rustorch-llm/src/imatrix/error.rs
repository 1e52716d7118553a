//! What can go wrong with activation statistics.

use crate::evaluate::EvaluateError;
use rustorch_formats::gguf;
use std::path::PathBuf;

/// Why activation statistics could not be collected, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImatrixError {
    /// The text could not be run through the model.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// A file cannot be read or written, or is malformed.
    #[error(transparent)]
    File(#[from] gguf::Error),
    /// A file holds no activation statistics, or senseless ones.
    #[error("{}: {message}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Statistics of two models, or of one and another's weights, do not go together.
    #[error("the statistics of `{weight}` have {found} columns, not {expected}: they are of another model")]
    OtherModel {
        /// The weight's name.
        weight: String,
        /// How many there are.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
}

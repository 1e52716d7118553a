//! What can go wrong in converting a model.

use rustorch_formats::{gguf, safetensors};
use std::io;
use std::path::PathBuf;

/// Why a model could not be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is not what its name says.
    #[error("{}: {message}", path.display())]
    Malformed {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The folder has no weights in safetensors.
    #[error("{} has neither model.safetensors nor model.safetensors.index.json", folder.display())]
    NoWeights {
        /// The folder.
        folder: PathBuf,
    },
    /// A file of weights is missing or malformed.
    #[error(transparent)]
    Weights(#[from] safetensors::Error),
    /// The file cannot be written.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// An architecture that is not converted.
    #[error("architecture `{name}` is not converted; {known} are")]
    Architecture {
        /// Its name in the configuration.
        name: String,
        /// The names of those that are.
        known: String,
    },
    /// A field of the configuration is missing or has a value that is not supported.
    #[error("config.json: `{field}` {message}")]
    Field {
        /// The field.
        field: String,
        /// What is wrong.
        message: String,
    },
    /// A field of the configuration that nothing here knows.
    #[error("config.json: unknown field `{field}` = {value}, which may change what the model computes")]
    UnknownField {
        /// The field.
        field: String,
        /// Its value.
        value: String,
    },
    /// A tensor that the architecture has no use for.
    #[error("tensor `{name}` is not part of architecture `{architecture}`")]
    UnknownTensor {
        /// The tensor's name.
        name: String,
        /// The architecture's name in the configuration.
        architecture: &'static str,
    },
    /// A tensor whose shape or dtype does not fit.
    #[error("tensor `{name}`: {message}")]
    Tensor {
        /// The tensor's name.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// The dtype is not one of those that are written.
    #[error("matrices are written in F32, F16, BF16 or Q8_0, not {0}")]
    DType(rustorch_core::DType),
}

impl ConvertError {
    pub(super) fn field(field: impl Into<String>, message: impl Into<String>) -> ConvertError {
        ConvertError::Field { field: field.into(), message: message.into() }
    }
}

//! What can be wrong with a graph's file.

use super::{GRAPH_KEY, VERSION};
use crate::safetensors;
use rustorch_core::DType;
use std::io;

/// The result of reading or writing a graph.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with the file that it happened in, where there is one.
pub type Error = crate::Error<ErrorKind>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// It is no safetensors file, or a damaged one.
    #[error(transparent)]
    Safetensors(#[from] safetensors::ErrorKind),
    /// It is a safetensors file of tensors only.
    #[error(
        "no graph is in this file: its metadata has no `{GRAPH_KEY}`; capture the function, and save the program"
    )]
    NoGraph,
    /// The graph has another version.
    #[error(
        "the graph has version {found}, and this version of RusTorch reads version {VERSION}; open it with the one that saved it, or \
         capture and save it again"
    )]
    Version {
        /// The version.
        found: String,
    },
    /// The JSON is not that of a graph: it has other fields, an unknown operation, parameters that an operation does not have.
    #[error("the graph is malformed: {message}")]
    Json {
        /// What is wrong, and where in the JSON.
        message: String,
    },
    /// The graph does not verify.
    #[error("the file's graph is not valid; it was damaged, or made by something else than RusTorch: {0}")]
    Invalid(rustorch_core::Error),
    /// The graph has a constant or a state whose tensor is not there.
    #[error("the graph has `{name}`, and the file no tensor of this name; copy or save it again")]
    MissingTensor {
        /// The name.
        name: String,
    },
    /// The file has a tensor to which the graph does not refer.
    #[error("the file has the tensor `{name}`, to which its graph does not refer")]
    UnknownTensor {
        /// The name.
        name: String,
    },
    /// A tensor is another than the graph says.
    #[error(
        "tensor `{name}` is {dtype}{shape:?}, and the graph's value {value} is kept as {expected_dtype}{expected_shape:?}"
    )]
    OtherTensor {
        /// The name.
        name: String,
        /// The value, with its own dtype and shape.
        value: String,
        /// The dtype in the file.
        dtype: DType,
        /// The shape in the file.
        shape: Vec<usize>,
        /// The dtype as the graph has it.
        expected_dtype: DType,
        /// The shape as the graph has it.
        expected_shape: Vec<usize>,
    },
    /// The graph cannot be saved.
    #[error("the graph cannot be saved: {message}")]
    Unsupported {
        /// Why.
        message: String,
    },
    /// The file could not be written. That which was there before, if there was one, is as it was.
    #[error("the graph could not be saved, and nothing was changed: {error}; {}", advice(error))]
    Write {
        /// What the operating system, or the tensor, says.
        error: io::Error,
    },
}

/// What to do where a file cannot be written.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "make room, or save it on another disk"
        }
        io::ErrorKind::NotFound => "make the folder first",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "save it in a folder in which you may make files"
        }
        _ => "save it somewhere else",
    }
}

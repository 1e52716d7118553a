//! What can go wrong in quantizing a model.

use super::Mixture;
use crate::imatrix::ImatrixError;
use rustorch_core::DType;
use rustorch_formats::gguf;

/// Why a model could not be quantized.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantizeError {
    /// A file is missing, malformed, or cannot be written. What a tensor's values have that no block can hold is told here, too, with its name.
    #[error(transparent)]
    File(#[from] gguf::Error),
    /// No file is made in this dtype: it is one for activations.
    #[error("tensor `{tensor}` would be {dtype}, which cannot be written")]
    NotWritable {
        /// The tensor's name.
        tensor: String,
        /// The dtype that it would get.
        dtype: DType,
    },
    /// The tensor is quantized already, and doing it again loses more than doing it once.
    #[error(
        "tensor `{tensor}` is {dtype} already, and quantizing it again loses more than quantizing the original; \
         --allow-requantize does it anyway"
    )]
    Quantized {
        /// The tensor's name.
        tensor: String,
        /// Its dtype in the file.
        dtype: DType,
    },
    /// The tensor's dtype has no values to quantize.
    #[error("tensor `{tensor}` is {dtype}, which cannot be quantized")]
    Source {
        /// The tensor's name.
        tensor: String,
        /// Its dtype in the file.
        dtype: DType,
    },
    /// The shape does not fit blocks, and the type has no substitute for it.
    #[error(
        "tensor `{tensor}` has {columns} columns, which blocks of {dtype} do not divide, and no other type stands in"
    )]
    Columns {
        /// The tensor's name.
        tensor: String,
        /// The dtype that it would get.
        dtype: DType,
        /// Its number of columns.
        columns: usize,
    },
    /// So few bits give garbage without importances.
    #[error(
        "tensor `{tensor}` would be {dtype}, which needs importances: give an importance matrix (--imatrix) that has it"
    )]
    NeedsImportance {
        /// The tensor's name.
        tensor: String,
        /// The dtype that it would get.
        dtype: DType,
    },
    /// The importance matrix is of another model.
    #[error(
        "the importance matrix has {found} values for tensor `{tensor}`, which needs {expected}: it is of another model"
    )]
    ImportanceLength {
        /// The tensor's name.
        tensor: String,
        /// How many it has.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
    /// A regular expression of [`by_name`](super::QuantizeOptions::by_name) is malformed, or finds nothing.
    #[error("`{pattern}` as a name of tensors: {message}")]
    Pattern {
        /// The expression.
        pattern: String,
        /// What is wrong.
        message: String,
    },
    /// A file that is no importance matrix.
    #[error(transparent)]
    Importance(#[from] ImatrixError),
    /// The number in a tensor's name is not that of a block.
    #[error(
        "tensor `{tensor}` belongs to none of the model's {layers} blocks, by which {mixture} chooses its type"
    )]
    Layer {
        /// The tensor's name.
        tensor: String,
        /// How many blocks there are.
        layers: usize,
        /// The mixture.
        mixture: Mixture,
    },
}

//! What can go wrong with a language model.

use crate::arch::Nearest;
use crate::chat::ChatError;
use crate::sampling::SamplingError;
use crate::tokenizer::TokenizerError;
use rustorch_formats::gguf;

/// The result of working with a language model.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model could not be loaded or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is missing, malformed, or lacks something.
    #[error(transparent)]
    File(#[from] gguf::Error),
    /// An operation failed.
    #[error(transparent)]
    Tensor(#[from] rustorch_core::Error),
    /// The tokenizer could not be built.
    #[error("tokenizer: {0}")]
    Tokenizer(#[from] TokenizerError),
    /// The file's chat template is broken, or does not accept the conversation.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// Sampling options make no sense, or no token can be chosen.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The file's tokenizer is of a kind that is not implemented, so that the model can be used by token ids only.
    #[error("this model can be used by token ids only (--ids): {0}")]
    NoTokenizer(String),
    /// The file's architecture is not one that the decoder runs.
    #[error("architecture `{name}` is not supported; {nearest}")]
    Architecture {
        /// Its name in the file.
        name: String,
        /// The supported ones that its tensors are nearest to.
        nearest: Nearest,
    },
    /// A hyperparameter makes no sense.
    #[error("metadata `{key}`: {message}")]
    Hyperparameter {
        /// The key.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// A tensor does not have the shape that the metadata asks for.
    #[error("tensor `{name}` has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// The tensor's name.
        name: String,
        /// Its shape in the file, outermost dimension first.
        found: Vec<usize>,
        /// The shape that follows from the metadata.
        expected: Vec<usize>,
    },
    /// A tensor that the architecture has no use for: the file holds another model than its metadata says.
    #[error(
        "tensor `{name}` is not part of architecture `{architecture}`; this variant of it is not supported"
    )]
    UnknownTensor {
        /// The tensor's name.
        name: String,
        /// The architecture's name.
        architecture: &'static str,
    },
    /// A token id beyond the vocabulary.
    #[error("token id {id} is out of range: the model has {vocabulary} tokens")]
    Token {
        /// The id.
        id: u32,
        /// The number of tokens.
        vocabulary: usize,
    },
    /// More tokens than the context holds.
    #[error(
        "the context holds {capacity} tokens, but {needed} are needed; shorten the input or raise the context size \
         (--ctx-size)"
    )]
    ContextFull {
        /// The context's size.
        capacity: usize,
        /// What the input would take.
        needed: usize,
    },
    /// A request that makes no sense.
    #[error("{0}")]
    Request(String),
}

//! What can be wrong with a vocabulary.

use thiserror::Error;

/// Why a [`Vocab`](super::Vocab) cannot be read or cannot make a tokenizer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The file's `tokenizer.ggml.model` is not one that is implemented.
    #[error(
        "tokenizer model '{0}' is not supported (supported: llama, gpt2, gemma4); \
         text cannot be converted for this model, only token ids can be fed to it"
    )]
    UnsupportedModel(String),
    /// A key that every vocabulary has is missing.
    #[error("metadata key '{0}' is missing; the file holds no usable vocabulary")]
    MissingKey(&'static str),
    /// A key holds a value of another type than the format says.
    #[error("metadata key '{key}' should hold {expected}")]
    WrongType {
        /// The key.
        key: &'static str,
        /// The expected type, in words.
        expected: &'static str,
    },
    /// A per-token array is shorter than the token list.
    #[error("the vocabulary has {tokens} tokens but only {found} {what}")]
    TooFew {
        /// What the array holds: scores or token types.
        what: &'static str,
        /// Number of tokens.
        tokens: usize,
        /// Number of entries found.
        found: usize,
    },
    /// There are no tokens.
    #[error("the vocabulary is empty")]
    Empty,
    /// More tokens than ids can name.
    #[error("the vocabulary has {0} tokens, more than 2^31 - 1")]
    TooLarge(usize),
    /// A special id does not name a token.
    #[error("special token {what} = {id} lies outside the vocabulary of {tokens} tokens")]
    SpecialOutOfRange {
        /// Which special token.
        what: &'static str,
        /// Its id.
        id: u32,
        /// Number of tokens.
        tokens: usize,
    },
}

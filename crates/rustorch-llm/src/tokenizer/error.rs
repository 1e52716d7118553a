//! What can be wrong with a vocabulary.

use thiserror::Error;

/// Why a [`Vocab`](super::Vocab) cannot be read or cannot make a tokenizer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The file's `tokenizer.ggml.model` is not one that is implemented.
    #[error(
        "tokenizer model '{0}' is not supported (supported: llama, gpt2, gemma4, bert, t5, rwkv); \
         text cannot be converted for this model, only token ids can be fed to it"
    )]
    UnsupportedModel(String),
    /// The file's `tokenizer.ggml.model` is `none` or `no_vocab`.
    #[error("the file has no vocabulary; only token ids can be fed to this model")]
    NoVocabulary,
    /// A key of the vocabulary is missing or holds a value of another type.
    #[error("the file holds no usable vocabulary: {0}")]
    Metadata(#[from] rustorch_formats::gguf::Error),
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
    /// The normalisation of a Unigram vocabulary says that it is longer than it is.
    #[error("tokenizer.ggml.precompiled_charsmap is cut off; convert or download the file again")]
    Charsmap,
    /// There are no tokens.
    #[error("the vocabulary is empty")]
    Empty,
    /// More tokens than ids can name.
    #[error("the vocabulary has {0} tokens, more than 2^31 - 1")]
    TooLarge(usize),
    /// A special id does not name a token.
    #[error("special token {what} = {id} is outside the vocabulary of {tokens} tokens")]
    SpecialOutOfRange {
        /// Which special token.
        what: &'static str,
        /// Its id.
        id: u32,
        /// Number of tokens.
        tokens: usize,
    },
}

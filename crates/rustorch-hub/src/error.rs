//! What can go wrong with the hub.

use crate::ModelName;
use std::io;
use std::path::PathBuf;

/// The result of working with the hub.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text that names no repository.
    #[error(
        "`{0}` names no model of the hub; it is OWNER/REPOSITORY, or OWNER/REPOSITORY:QUANT as in ggml-org/gemma-3-1b-it-GGUF:Q8_0"
    )]
    Name(String),
    /// There is no such repository, or no such file in it, for this user.
    #[error("{url} is not there (HTTP status 404)")]
    NotFound {
        /// What was asked for.
        url: String,
    },
    /// The hub wants to know who asks.
    #[error("{url} is refused (HTTP status {status}): {}", match has_token {
        true => "the token given may not read it; the model's page on the hub may ask you to accept its terms",
        false => "it needs a token: set HF_TOKEN, or log in by `hf auth login`",
    })]
    Denied {
        /// What was asked for.
        url: String,
        /// The status.
        status: u16,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// An answer that means nothing here.
    #[error("{url} answers with HTTP status {status}")]
    Status {
        /// What was asked for.
        url: String,
        /// The status.
        status: u16,
    },
    /// No connection, or one that broke.
    #[error("{url} cannot be read: {message}")]
    Connection {
        /// What was asked for.
        url: String,
        /// What happened.
        message: String,
    },
    /// An answer that does not keep to the hub's rules.
    #[error("{url}: {message}")]
    Answer {
        /// What was asked for.
        url: String,
        /// What is wrong.
        message: String,
    },
    /// A program without HTTPS.
    #[error(
        "{url} is read by HTTPS, which this program was built without; build it with `--features https` (which takes a C compiler), \
         or download the model by another program: the cache is shared"
    )]
    NoHttps {
        /// What was asked for.
        url: String,
    },
    /// The repository has no file that would do.
    #[error("{name} has {}", match files.is_empty() {
        true => "no GGUF file".to_owned(),
        false => format!("no such GGUF file; there are {}", files.join(", ")),
    })]
    NoFile {
        /// The model.
        name: ModelName,
        /// The GGUF files that it has.
        files: Vec<String>,
    },
    /// Parts of a split file are missing.
    #[error("{name} lacks {file}, a part of the model")]
    NoPart {
        /// The model.
        name: ModelName,
        /// The missing file.
        file: String,
    },
    /// Not in the cache, and the hub is not to be asked.
    #[error("{name} is not in the cache ({}), and HF_HUB_OFFLINE forbids to download it", path.display())]
    Offline {
        /// The model.
        name: ModelName,
        /// The cache.
        path: PathBuf,
    },
    /// A download is not what the hub said it would be.
    #[error(
        "{file} does not have the hash that the hub names: expected {expected}, found {found}; it was thrown away"
    )]
    Hash {
        /// The file.
        file: String,
        /// The SHA-256 that the hub names.
        expected: String,
        /// That of what came.
        found: String,
    },
    /// The cache cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// There is no folder for the cache.
    #[error("there is no home folder to keep models in; set HF_HOME")]
    NoHome,
}

impl Error {
    /// Whether the same request may succeed a moment later, and nothing is known to be wrong with it.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Error::Connection { .. } => true,
            Error::Status { status, .. } => *status == 429 || *status >= 500,
            _ => false,
        }
    }
}

//! Errors with the file that they happened in.

use std::fmt;
use std::path::{Path, PathBuf};

/// An error of a file format, with the file that it happened in where there is one. `K` says what went wrong.
#[derive(Debug)]
pub struct Error<K> {
    path: Option<PathBuf>,
    // Boxed so that results stay small on the good path.
    kind: Box<K>,
}

impl<K> Error<K> {
    /// What went wrong.
    pub fn kind(&self) -> &K {
        &self.kind
    }

    /// What went wrong, taken out of the error.
    pub fn into_kind(self) -> K {
        *self.kind
    }

    /// The file that it went wrong in; `None` for bytes in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub(crate) fn at(path: Option<&Path>, kind: K) -> Self {
        Self { path: path.map(Path::to_path_buf), kind: Box::new(kind) }
    }
}

impl<K> From<K> for Error<K> {
    fn from(kind: K) -> Self {
        Self::at(None, kind)
    }
}

impl<K: fmt::Display> fmt::Display for Error<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.kind),
            None => self.kind.fmt(f),
        }
    }
}

impl<K: std::error::Error> std::error::Error for Error<K> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kind.source()
    }
}

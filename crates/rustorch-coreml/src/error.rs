//! What can go wrong.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The result of writing a graph as a package.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a graph could not be written as a Core ML package.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The graph is not valid, as [`Graph::verify`](rustorch_core::Graph::verify) says.
    #[error(transparent)]
    Graph(#[from] rustorch_core::Error),
    /// Parts of the graph have no form in a Core ML program: all of them.
    #[error("the graph has no form as a Core ML program{}", Lines(.0))]
    Declined(Vec<Declined>),
    /// The options cannot be followed: why.
    #[error("{0}")]
    Options(String),
    /// The bytes of a constant could not be had.
    #[error("constant {index} of the graph: {source}")]
    Constant {
        /// Its index among the graph's constants.
        index: usize,
        /// What went wrong.
        source: io::Error,
    },
    /// Something is already there.
    #[error("{} exists; remove it or name another folder", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// There is no place for a package.
    #[error("{} cannot be written: {source}; make the folder that it is to be in, or name one that you may write to", path.display())]
    Unwritable {
        /// The folder.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The disk is full, or a limit of size is reached. Nothing is left of the package.
    #[error(
        "{}: {source}; the package takes {bytes} bytes, and nothing is left of it: make room, or name a folder on another disk",
        path.display()
    )]
    Full {
        /// The package.
        path: PathBuf,
        /// How many bytes its model and weights take.
        bytes: u64,
        /// What went wrong.
        source: io::Error,
    },
    /// Something is no package that can be read: why.
    #[error("{}: {message}", path.display())]
    Package {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A package is of a version of the format, of its operations or of RusTorch's metadata that this one does not know.
    #[error("{} is of another version:{}", path.display(), Lines(problems))]
    Version {
        /// The folder.
        path: PathBuf,
        /// What is not known, each with what to do.
        problems: Vec<String>,
    },
    /// The disk refused. Nothing is left of the package.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// A part of a graph that has no form in a Core ML program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined {
    /// Which: `node 3: sort`, `input 0`, `output 1`.
    pub place: String,
    /// Why, and where there is a remedy, what to do.
    pub reason: String,
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

struct Lines<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Lines<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

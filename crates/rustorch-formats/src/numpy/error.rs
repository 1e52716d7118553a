//! What can be wrong with a NumPy file, a look-up in one, or what is asked of the writer.

use super::{MAX_DIMS, MAX_HEADER_LEN};
use crate::zip::ZipError;
use rustorch_core::DType;
use std::io;

/// The result of reading or writing NumPy's files.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with the file that it happened in, where there is one.
pub type Error = crate::Error<ErrorKind>;

/// What went wrong: one variant for each malformation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused a read or a write.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The path names a directory, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,

    /// The file does not begin with `\x93NUMPY`.
    #[error("not a .npy file: it begins with \"{}\"{}", found.escape_ascii(), magic_hint(found))]
    BadMagic {
        /// The first bytes.
        found: Vec<u8>,
    },
    /// The file ends within its header.
    #[error("file is truncated: it has {actual} bytes, and the header needs {expected}")]
    Truncated {
        /// The least number of bytes that the file must have.
        expected: u64,
        /// The bytes that it has.
        actual: u64,
    },
    /// The version is none of 1.0, 2.0 and 3.0.
    #[error("version {major}.{minor} of .npy files is not supported, versions 1.0, 2.0 and 3.0 are")]
    UnsupportedVersion {
        /// The version before the point.
        major: u8,
        /// The version behind it.
        minor: u8,
    },
    /// The header is longer than [`MAX_HEADER_LEN`].
    #[error("the header is {len} bytes long, the limit is {MAX_HEADER_LEN}")]
    HeaderTooLong {
        /// The length that the file states.
        len: u64,
    },
    /// The header is not a dict of `descr`, `fortran_order` and `shape`.
    #[error("the header is malformed at byte {offset}: expected {expected}")]
    BadHeader {
        /// Where in the header.
        offset: usize,
        /// What should be there.
        expected: &'static str,
    },
    /// The header has a key that it should not have.
    #[error("the header has the unknown key '{key}'")]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// The header has a key twice.
    #[error("the header has the key '{key}' twice")]
    DuplicateKey {
        /// The key.
        key: &'static str,
    },
    /// The header lacks a key.
    #[error("the header lacks the key '{key}'")]
    MissingKey {
        /// The key.
        key: &'static str,
    },
    /// The array holds Python objects.
    #[error(
        "the array holds Python objects, which only running their pickle could load; save it with a numeric dtype"
    )]
    Objects,
    /// The dtype is structured.
    #[error("the array has a structured dtype; save its fields as arrays of their own")]
    Structured,
    /// The dtype is one that RusTorch does not have.
    #[error("the dtype '{descr}' is not supported; save the array with another{}", dtype_hint(descr))]
    UnknownDType {
        /// The dtype as NumPy describes it.
        descr: String,
    },
    /// The array has more than [`MAX_DIMS`] dimensions.
    #[error("the array has more than {MAX_DIMS} dimensions")]
    TooManyDims,
    /// The size of the array overflows the address space.
    #[error("an array of shape {shape:?} is larger than any memory")]
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
    /// The file is shorter than its array.
    #[error(
        "file is truncated: it has {actual} bytes of data, and the array needs {expected}; copy or download it again"
    )]
    TruncatedData {
        /// The bytes that the array takes.
        expected: usize,
        /// The bytes behind the header.
        actual: usize,
    },
    /// The file is longer than its array.
    #[error("{len} bytes behind the array belong to nothing; a file has one array, several go into an .npz")]
    TrailingBytes {
        /// Their number.
        len: usize,
    },

    /// An `.npz` is no valid zip archive.
    #[error("{0}")]
    Zip(#[from] ZipError),
    /// An array of an `.npz` cannot be read.
    #[error("array `{name}`: {kind}")]
    Member {
        /// The name.
        name: String,
        /// What is wrong with it.
        #[source]
        kind: Box<ErrorKind>,
    },
    /// The file has no such array.
    #[error("array `{name}` is missing")]
    MissingArray {
        /// The name.
        name: String,
    },

    /// NumPy has no such dtype.
    #[error("NumPy has no dtype {dtype}; convert the array, for example to f32")]
    UnsupportedDType {
        /// The dtype.
        dtype: DType,
    },
    /// An array was given a number of bytes that does not match its shape and dtype.
    #[error("an array of shape {shape:?} and dtype {dtype} needs {expected} bytes, {actual} were given")]
    DataLength {
        /// The shape.
        shape: Vec<usize>,
        /// The dtype.
        dtype: DType,
        /// The bytes that these take.
        expected: usize,
        /// The bytes given.
        actual: usize,
    },
    /// The writer was given two arrays of one name.
    #[error("array `{name}` occurs twice")]
    DuplicateArray {
        /// The name.
        name: String,
    },
}

fn magic_hint(found: &[u8]) -> &'static str {
    match found {
        [b'P', b'K', 3, 4, ..] => " (it is a zip archive; an .npz file is opened as one)",
        [0x80, 2..=5, ..] => " (it looks like a pickle)",
        b"versio" => " (it looks like a Git LFS pointer: fetch the file itself)",
        _ => "",
    }
}

fn dtype_hint(descr: &str) -> &'static str {
    match descr.trim_start_matches(['<', '>', '=', '|']) {
        "u2" => ", such as int32",
        "u8" => ", such as int64",
        "f16" | "f12" => ", such as float64",
        "c32" | "c24" => ", such as complex128",
        _ => "",
    }
}

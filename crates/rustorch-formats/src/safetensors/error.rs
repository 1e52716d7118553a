//! What can be wrong with a safetensors file, a look-up in one, or what is asked of the writer.

use super::{MAX_DIMS, MAX_HEADER_LEN, MAX_SHARDS};
use rustorch_core::DType;
use std::io;

/// The result of reading or writing safetensors.
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

    /// The file ends within its header.
    #[error("file is truncated: it has {actual} bytes, and the header needs {expected}{}", header_hint(*start))]
    Truncated {
        /// The least number of bytes that the file must have.
        expected: u64,
        /// The bytes that it has.
        actual: u64,
        /// The first bytes, zeros where there are none.
        start: [u8; 8],
    },
    /// The header is longer than [`MAX_HEADER_LEN`].
    #[error("the header is {len} bytes long, the limit is {MAX_HEADER_LEN}{}", header_hint(len.to_le_bytes()))]
    HeaderTooLong {
        /// The length that the file states.
        len: u64,
    },
    /// The header does not begin with `{`.
    #[error("not a safetensors file: its header begins with \"{}\" instead of \"{{\"", found.escape_ascii())]
    BadHeaderStart {
        /// What the header begins with; nothing where it is empty.
        found: Vec<u8>,
    },
    /// The header is not UTF-8.
    #[error("the header is not UTF-8 from byte {offset} on")]
    HeaderNotUtf8 {
        /// Where in the file.
        offset: u64,
    },
    /// The header or an index is not JSON of the expected structure.
    #[error("{what} is malformed: {message}")]
    Json {
        /// The header or the index.
        what: &'static str,
        /// What is wrong, and where in the JSON.
        message: String,
    },
    /// Two tensors have one name.
    #[error("tensor `{name}` occurs twice")]
    DuplicateTensor {
        /// The name.
        name: String,
    },
    /// A metadata key occurs twice.
    #[error("metadata key `{key}` occurs twice")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A tensor has more than [`MAX_DIMS`] dimensions.
    #[error("tensor `{tensor}` has {dims} dimensions, the limit is {MAX_DIMS}")]
    TooManyDims {
        /// The name.
        tensor: String,
        /// The number of dimensions.
        dims: usize,
    },
    /// A tensor has a dtype that RusTorch does not have.
    #[error("tensor `{tensor}` has the dtype {dtype}, which is not supported; convert it to another")]
    UnknownDType {
        /// The name.
        tensor: String,
        /// The dtype as the file calls it.
        dtype: String,
    },
    /// The size of a tensor overflows the address space.
    #[error("tensor `{tensor}` of shape {shape:?} is larger than any memory")]
    TensorTooLarge {
        /// The name.
        tensor: String,
        /// The shape.
        shape: Vec<usize>,
    },
    /// A tensor ends before it begins.
    #[error("tensor `{tensor}` has the impossible data_offsets [{begin}, {end}]")]
    BadOffsets {
        /// The name.
        tensor: String,
        /// Where it begins, from the end of the header.
        begin: usize,
        /// Where it ends.
        end: usize,
    },
    /// The offsets of a tensor disagree with its shape and dtype.
    #[error(
        "tensor `{tensor}` takes {expected} bytes by its shape and dtype, and {actual} by its data_offsets"
    )]
    SizeMismatch {
        /// The name.
        tensor: String,
        /// The bytes by shape and dtype.
        expected: usize,
        /// The bytes by offsets.
        actual: usize,
    },
    /// Two tensors claim the same bytes.
    #[error("tensors `{first}` and `{second}` overlap")]
    OverlappingTensors {
        /// The tensor that begins first.
        first: String,
        /// The tensor that begins within it.
        second: String,
    },
    /// Bytes belong to no tensor, which the format forbids.
    #[error("{len} bytes before tensor `{tensor}` belong to no tensor")]
    Gap {
        /// The tensor behind them.
        tensor: String,
        /// Their number.
        len: usize,
    },
    /// A tensor reaches past the end of the file.
    #[error(
        "file is truncated: it has {actual} bytes, and tensor `{tensor}` ends at byte {expected}; copy or download it again"
    )]
    TensorOutOfFile {
        /// The tensor that ends last.
        tensor: String,
        /// Where it ends: the number of bytes that the file must have.
        expected: u64,
        /// The bytes that it has.
        actual: u64,
    },
    /// The file is longer than its tensors, which the format forbids.
    #[error("{len} bytes behind the last tensor belong to no tensor")]
    TrailingBytes {
        /// Their number.
        len: usize,
    },

    /// An index has no tensors.
    #[error("the index has no `weight_map`, or an empty one")]
    EmptyIndex,
    /// A file that an index names is not one beside it.
    #[error("the index puts tensor `{tensor}` into \"{file}\", which is not the name of a file beside it")]
    BadShardName {
        /// The tensor.
        tensor: String,
        /// The name.
        file: String,
    },
    /// An index names more files than [`MAX_SHARDS`].
    #[error("the index names more than {MAX_SHARDS} files; it is damaged")]
    TooManyShards,
    /// Files of a sharded set are not there.
    #[error("{} of {count} files of the sharded set are missing: {}", missing.len(), few(missing))]
    MissingShards {
        /// Their names.
        missing: Vec<String>,
        /// The number of files.
        count: usize,
    },
    /// A tensor is not in the file that the index names.
    #[error("tensor `{tensor}` is not in {file}, where the index puts it")]
    NotInShard {
        /// The tensor.
        tensor: String,
        /// The file.
        file: String,
    },
    /// A file of a sharded set has a tensor that the index does not put there.
    #[error("{file} has the tensor `{tensor}`, which the index does not put there")]
    NotInIndex {
        /// The tensor.
        tensor: String,
        /// The file.
        file: String,
    },

    /// The file has no such tensor.
    #[error("tensor `{name}` is missing")]
    MissingTensor {
        /// The name.
        name: String,
    },

    /// The writer was given a dtype that safetensors has no name for.
    #[error("tensor `{tensor}` has the dtype {dtype}, which safetensors files cannot hold")]
    UnsupportedDType {
        /// The name.
        tensor: String,
        /// The dtype.
        dtype: DType,
    },
    /// The writer was given a number of bytes that does not match the shape and dtype.
    #[error("tensor `{tensor}` needs {expected} bytes, {actual} were given")]
    DataLength {
        /// The name.
        tensor: String,
        /// The bytes that its shape and dtype take.
        expected: u64,
        /// The bytes given.
        actual: u64,
    },
    /// The writer was given a tensor called `__metadata__`.
    #[error("a tensor cannot be called `__metadata__`, which is the key of the metadata")]
    ReservedName,
    /// The writer was given tensors that share memory.
    #[error(
        "tensors `{first}` and `{second}` share memory, which safetensors files cannot express; save copies, or one name for \
         both with `deduplicate`"
    )]
    SharedMemory {
        /// The one.
        first: String,
        /// The other.
        second: String,
    },
    /// Of tensors that share memory none covers all of it, so that none can stand for the others.
    #[error("tensors {} share memory and none of them covers all of it; save copies", list(names))]
    NoneCoversMemory {
        /// Their names.
        names: Vec<String>,
    },
}

fn header_hint(start: [u8; 8]) -> &'static str {
    match &start {
        [b'G', b'G', b'U', b'F', ..] => " (it is a GGUF file)",
        [b'P', b'K', 3, 4, ..] => " (it is a zip archive, such as a PyTorch checkpoint or .npz file)",
        [0x80, 2..=5, ..] => " (it looks like a pickle, such as an old PyTorch checkpoint)",
        b"version " => " (it looks like a Git LFS pointer: fetch the file itself)",
        [b'<', b'!' | b'h' | b'H', ..] => " (it looks like a web page saved in place of the file)",
        [b'{', ..] => " (it looks like JSON; an index is opened by its path, which ends in `.index.json`)",
        _ => "",
    }
}

/// The first few of `names`, so that a message about thousands stays readable.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let more = if names.len() > SHOWN { ", …" } else { "" };
    names[..names.len().min(SHOWN)].join(", ") + more
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

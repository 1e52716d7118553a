//! What can be wrong with a GGUF file, a look-up in one, or what is asked of the writer.

use rustorch_core::DType;
use std::io;

/// The result of reading or writing GGUF.
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

    /// The file ends within its header, metadata or tensor table.
    #[error(
        "file is truncated: it has {actual} bytes, and {what} needs at least {expected}; copy or download it again"
    )]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// The least number of bytes that the file must have.
        expected: u64,
        /// The bytes that it has.
        actual: u64,
    },
    /// The file does not begin with `GGUF`.
    #[error(
        "not a GGUF file: it begins with \"{}\" instead of \"GGUF\"{}",
        found.escape_ascii(), magic_hint(*found)
    )]
    BadMagic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// The file is for big-endian machines.
    #[error("big-endian GGUF files are not supported; convert it with gguf-py's gguf_convert_endian")]
    BigEndian,
    /// The version is none of 2 and 3.
    #[error("GGUF version {version} is not supported, versions 2 and 3 are{}", version_hint(*version))]
    UnsupportedVersion {
        /// The version that the file states.
        version: u32,
    },

    /// More metadata entries are claimed than [`MAX_METADATA`](super::MAX_METADATA).
    #[error("{count} metadata entries are claimed, the limit is {max}; the file is damaged")]
    TooManyKeys {
        /// The claimed number.
        count: u64,
        /// The limit.
        max: u64,
    },
    /// More tensors are claimed than [`MAX_TENSORS`](super::MAX_TENSORS).
    #[error("{count} tensors are claimed, the limit is {max}; the file is damaged")]
    TooManyTensors {
        /// The claimed number.
        count: u64,
        /// The limit.
        max: u64,
    },
    /// A metadata key is longer than [`MAX_KEY_LEN`](super::MAX_KEY_LEN).
    #[error("metadata key at byte {offset} is {len} bytes long, the limit is 65535")]
    KeyTooLong {
        /// Where in the file the key begins; 0 from the writer.
        offset: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// A metadata key is not UTF-8.
    #[error("metadata key \"{key}\" is not valid UTF-8")]
    KeyNotUtf8 {
        /// The key, its invalid bytes replaced.
        key: String,
    },
    /// A metadata key occurs twice.
    #[error("metadata key `{key}` occurs twice")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// The type of a metadata value, or of an array's elements, is none of the 13 types.
    #[error("metadata key `{key}` has a value of unknown type {id}")]
    UnknownValueType {
        /// The key.
        key: String,
        /// The number of the type.
        id: u32,
    },
    /// A boolean is neither 0 nor 1.
    #[error("metadata key `{key}` has a boolean of value {value}, only 0 and 1 are valid")]
    BadBool {
        /// The key.
        key: String,
        /// The byte.
        value: u8,
    },
    /// A string is longer than the rest of the file.
    #[error(
        "metadata key `{key}` has a string of {len} bytes, but only {remaining} bytes are left in the file; \
         it is truncated or damaged"
    )]
    StringTooLong {
        /// The key.
        key: String,
        /// The length that the file states.
        len: u64,
        /// The bytes left.
        remaining: u64,
    },
    /// An array has more elements than the rest of the file can hold.
    #[error(
        "metadata key `{key}` has an array of {count} elements, but only {remaining} bytes are left in the file; \
         it is truncated or damaged"
    )]
    ArrayTooLong {
        /// The key.
        key: String,
        /// The number of elements that the file states.
        count: u64,
        /// The bytes left.
        remaining: u64,
    },
    /// Arrays are nested deeper than [`MAX_ARRAY_DEPTH`](super::MAX_ARRAY_DEPTH).
    #[error("metadata key `{key}` has arrays nested deeper than {max} levels")]
    ArrayTooDeep {
        /// The key.
        key: String,
        /// The limit.
        max: usize,
    },
    /// `general.alignment` is not a power of two.
    #[error("`general.alignment` is {alignment}, it must be a power of two")]
    BadAlignment {
        /// The stated alignment.
        alignment: u64,
    },

    /// A tensor's name is longer than [`MAX_KEY_LEN`](super::MAX_KEY_LEN).
    #[error("name of tensor {index} is {len} bytes long, the limit is 65535")]
    NameTooLong {
        /// The place of the tensor in the file's table.
        index: usize,
        /// The length of its name in bytes.
        len: u64,
    },
    /// A tensor's name is not UTF-8.
    #[error("tensor name \"{name}\" is not valid UTF-8")]
    NameNotUtf8 {
        /// The name, its invalid bytes replaced.
        name: String,
    },
    /// Two tensors have one name.
    #[error("tensor `{name}` occurs twice")]
    DuplicateTensor {
        /// The name.
        name: String,
    },
    /// A tensor has more than [`MAX_DIMS`](super::MAX_DIMS) dimensions.
    #[error("tensor `{tensor}` has {dims} dimensions, the limit is 4")]
    TooManyDims {
        /// The name.
        tensor: String,
        /// The number of dimensions.
        dims: u64,
    },
    /// A dimension of a tensor is zero.
    #[error("tensor `{tensor}` of shape {shape:?} has a dimension of length zero")]
    ZeroDim {
        /// The name.
        tensor: String,
        /// The shape, outermost dimension first.
        shape: Vec<u64>,
    },
    /// The size of a tensor overflows the address space.
    #[error("tensor `{tensor}` of shape {shape:?} is larger than any memory")]
    TensorTooLarge {
        /// The name.
        tensor: String,
        /// The shape, outermost dimension first.
        shape: Vec<u64>,
    },
    /// The type of a tensor is not one that is known.
    #[error("tensor `{tensor}` has the ggml type {id}, which is unknown or was removed from ggml")]
    UnknownTensorType {
        /// The name.
        tensor: String,
        /// The number of the type.
        id: u32,
    },
    /// The rows of a tensor do not fill whole blocks of its type.
    #[error(
        "tensor `{tensor}` has rows of {row} values, not a multiple of the {block} values in a block of {dtype}"
    )]
    PartialBlock {
        /// The name.
        tensor: String,
        /// Its dtype.
        dtype: DType,
        /// The length of its innermost dimension.
        row: u64,
        /// The values in a block.
        block: usize,
    },
    /// A tensor's offset is not a multiple of the alignment.
    #[error("tensor `{tensor}` is at offset {offset}, not a multiple of the alignment {alignment}")]
    MisalignedOffset {
        /// The name.
        tensor: String,
        /// The offset from the start of the tensor data.
        offset: u64,
        /// The alignment.
        alignment: u32,
    },
    /// The end of a tensor overflows the range of file offsets.
    #[error("tensor `{tensor}` has the impossible offset {offset}")]
    OffsetOverflow {
        /// The name.
        tensor: String,
        /// The offset from the start of the tensor data.
        offset: u64,
    },
    /// A tensor reaches past the end of the file.
    #[error(
        "file is truncated: it has {actual} bytes, and tensor `{tensor}` ends at byte {expected}; copy or download it again"
    )]
    TensorOutOfFile {
        /// The tensor that ends last.
        tensor: String,
        /// Where it ends: the least number of bytes that the file must have.
        expected: u64,
        /// The bytes that it has.
        actual: u64,
    },
    /// Two tensors claim the same bytes.
    #[error("tensors `{first}` and `{second}` overlap")]
    OverlappingTensors {
        /// The tensor that begins first.
        first: String,
        /// The tensor that begins within it.
        second: String,
    },

    /// A part of a split file is not named like one, so the others cannot be found.
    #[error(
        "this is part {} of {count} of a split file, so its name must end in \"{}\" for the other parts to be found",
        no + 1, super::part_file_name("", *no, *count)
    )]
    SplitName {
        /// `split.no`: the number of the part, from 0.
        no: u32,
        /// `split.count`: the number of parts.
        count: u32,
    },
    /// Parts of a split file are not there.
    #[error("split file is incomplete: {} of {count} parts are missing: {}", missing.len(), list(missing))]
    MissingParts {
        /// The names of the missing files.
        missing: Vec<String>,
        /// The number of parts.
        count: u32,
    },
    /// A part lacks `split.count` or disagrees with the others about it.
    #[error("part {} of a split file says that there are {found} parts, the first says {expected}", no + 1)]
    SplitCount {
        /// The number of the part, from 0.
        no: u32,
        /// What the part says.
        found: u32,
        /// What the first part says.
        expected: u32,
    },
    /// A part has another part's number: it is a duplicate, or was renamed.
    #[error("part {} of a split file says that it is part {}: it is a duplicate or was renamed", expected + 1, found + 1)]
    SplitNumber {
        /// `split.no` of the part, from 0.
        found: u32,
        /// The number that its name or place gives, from 0.
        expected: u32,
    },
    /// The parts together do not have as many tensors as they say.
    #[error("the parts of the split file have {actual} tensors, `split.tensors.count` says {expected}")]
    SplitTensorCount {
        /// What the first part says.
        expected: u64,
        /// The tensors found.
        actual: u64,
    },
    /// One part of a split file was given as bytes, without the others.
    #[error("these bytes are one of {count} parts of a split file; give all of them to `File::from_parts`")]
    SplitInMemory {
        /// The number of parts.
        count: u32,
    },
    /// The number of parts given differs from the number that they state.
    #[error("{given} parts were given of a split file that has {count}")]
    SplitPartsGiven {
        /// The number given.
        given: usize,
        /// The number stated.
        count: u32,
    },

    /// The file has no such metadata key.
    #[error("metadata key `{key}` is missing, a value of type {expected} is needed")]
    MissingKey {
        /// The key.
        key: String,
        /// The type that was asked for.
        expected: &'static str,
    },
    /// A metadata value has another type than was asked for.
    #[error("metadata key `{key}` has the type {found}, {expected} is needed")]
    WrongType {
        /// The key.
        key: String,
        /// The type that was asked for.
        expected: &'static str,
        /// The type that it has.
        found: String,
    },
    /// A metadata integer does not fit the type that was asked for.
    #[error("metadata key `{key}` has the value {value}, which does not fit {expected}")]
    OutOfRange {
        /// The key.
        key: String,
        /// The type that was asked for.
        expected: &'static str,
        /// The value.
        value: String,
    },
    /// A metadata string that was asked for as text is not UTF-8.
    #[error("metadata key `{key}` has a string that is not valid UTF-8")]
    NotUtf8 {
        /// The key.
        key: String,
    },
    /// The file has no such tensor.
    #[error("tensor `{name}` is missing")]
    MissingTensor {
        /// The name.
        name: String,
    },

    /// The writer was given a dtype that GGUF has no number for.
    #[error("tensor `{tensor}` has the dtype {dtype}, which GGUF files cannot hold")]
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
    /// A split file would need more parts than can be numbered.
    #[error("splitting into {parts} parts is not possible, the limit is 65535; allow larger parts")]
    TooManyParts {
        /// The number of parts.
        parts: usize,
    },
}

fn magic_hint(found: [u8; 4]) -> &'static str {
    match &found {
        b"vers" => " (it looks like a Git LFS pointer: fetch the file itself)",
        b"lmgg" | b"tjgg" | b"fmgg" | b"algg" => " (a ggml format older than GGUF: convert the model again)",
        b"PK\x03\x04" => " (a zip archive, such as a PyTorch checkpoint: convert it first)",
        b"<!DO" | b"<htm" | b"<HTM" => " (it looks like a web page saved in place of the file)",
        _ => "",
    }
}

fn version_hint(version: u32) -> &'static str {
    match version {
        1 => "; version 1 was replaced in 2023: convert the model again",
        _ => "",
    }
}

/// The first few of `names`, so that a message about thousands stays readable.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let mut out = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN {
        out.push_str(", …");
    }
    out
}

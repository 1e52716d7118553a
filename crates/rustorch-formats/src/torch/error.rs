//! What can be wrong with a PyTorch file, a look-up in one, or what is asked of the writer.

use super::{MAX_DEPTH, MAX_DIMS, MAX_OPCODES, MAX_PICKLE_LEN, MAX_STACK};
use crate::zip::ZipError;
use rustorch_core::DType;
use std::io;

/// The result of reading or writing PyTorch's files.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with the file that it happened in, where there is one.
pub type Error = crate::Error<ErrorKind>;

/// What went wrong: one variant for each malformation. Offsets are those in the pickle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused a read or a write.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The path names a directory, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,
    /// The file is no zip archive.
    #[error("not a PyTorch file: it begins with \"{}\"{}", found.escape_ascii(), start_hint(found))]
    NotAnArchive {
        /// The first bytes.
        found: Vec<u8>,
    },
    /// The file was saved by PyTorch before 1.6.
    #[error(
        "the file is in the format of PyTorch before 1.6; convert it in Python: \
         torch.save(torch.load(path, weights_only=True), new_path)"
    )]
    Legacy,
    /// The file is TorchScript: a program with its weights.
    #[error(
        "the file is TorchScript, a program; convert its weights in Python: \
         torch.save(torch.jit.load(path).state_dict(), new_path)"
    )]
    TorchScript,
    /// The file is no valid zip archive.
    #[error("{0}")]
    Zip(#[from] ZipError),
    /// The archive has no pickle.
    #[error("the archive has no `data.pkl` in its folder; it was not saved by torch.save")]
    NoPickle,
    /// The file is for big-endian machines.
    #[error(
        "the storages are big-endian, which is not supported; save the file again on a little-endian machine"
    )]
    BigEndian,

    /// The pickle is longer than [`MAX_PICKLE_LEN`].
    #[error("the pickle is {len} bytes long, the limit is {MAX_PICKLE_LEN}")]
    PickleTooLong {
        /// Its length.
        len: u64,
    },
    /// The pickle has more opcodes than [`MAX_OPCODES`].
    #[error("the pickle has more than {MAX_OPCODES} opcodes")]
    TooManyOpcodes,
    /// The pickle has more items on its stack than [`MAX_STACK`].
    #[error("the pickle has more than {MAX_STACK} items on its stack at byte {offset}")]
    StackOverflow {
        /// Where.
        offset: usize,
    },
    /// An opcode takes more items than the stack has.
    #[error("the pickle takes an item from an empty stack at byte {offset}")]
    StackUnderflow {
        /// Where.
        offset: usize,
    },
    /// An opcode takes the items behind a mark, and there is none.
    #[error("the pickle looks for a mark that is not there at byte {offset}")]
    NoMark {
        /// Where.
        offset: usize,
    },
    /// The pickle ends within an opcode, or without a stop.
    #[error("the pickle is truncated at byte {offset}")]
    PickleTruncated {
        /// Where.
        offset: usize,
    },
    /// Bytes follow the end of the pickle.
    #[error("{len} bytes follow the end of the pickle")]
    TrailingBytes {
        /// Their number.
        len: usize,
    },
    /// More than one item is left at the end of the pickle.
    #[error("{len} items are left on the stack at the end of the pickle")]
    LeftOnStack {
        /// Their number.
        len: usize,
    },
    /// The pickle is of a protocol that is not supported.
    #[error("pickle protocol {protocol} is not supported, protocols 2 to 5 are")]
    UnsupportedProtocol {
        /// The number.
        protocol: u8,
    },
    /// An opcode is unknown, or one that torch.save does not use.
    #[error("the pickle has the unsupported opcode 0x{opcode:02x} at byte {offset}")]
    UnsupportedOpcode {
        /// The opcode.
        opcode: u8,
        /// Where.
        offset: usize,
    },
    /// A string is not UTF-8.
    #[error("the pickle has a string that is not UTF-8 at byte {offset}")]
    NotUtf8 {
        /// Where.
        offset: usize,
    },
    /// An integer does not fit 64 bits.
    #[error("the pickle has an integer of {len} bytes at byte {offset}, at most 8 are supported")]
    IntegerTooLarge {
        /// Its length.
        len: usize,
        /// Where.
        offset: usize,
    },
    /// The memo has no such entry, or gets one far behind its last.
    #[error("the pickle uses the memo at {index}, where it has {len} entries, at byte {offset}")]
    BadMemo {
        /// The index.
        index: usize,
        /// The entries that it has.
        len: usize,
        /// Where.
        offset: usize,
    },
    /// The file asks for an object that is not one of those that are allowed.
    #[error("the file asks for `{name}`, which is not supported; nothing was executed{}", object_hint(name))]
    ForbiddenObject {
        /// The name with its module.
        name: String,
    },
    /// An opcode is applied to an item of the wrong type.
    #[error("the pickle needs {expected} at byte {offset} and has {found}")]
    WrongItem {
        /// What is needed.
        expected: &'static str,
        /// What is there.
        found: &'static str,
        /// Where.
        offset: usize,
    },
    /// A call has the wrong arguments.
    #[error("the pickle calls {function} with wrong arguments at byte {offset}: {message}")]
    BadArguments {
        /// What is called.
        function: &'static str,
        /// What is wrong.
        message: &'static str,
        /// Where.
        offset: usize,
    },
    /// A persistent id is not that of a storage.
    #[error("the pickle has a persistent id at byte {offset} that is not that of a storage")]
    BadPersistentId {
        /// Where.
        offset: usize,
    },
    /// Containers are nested deeper than [`MAX_DEPTH`].
    #[error("containers are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A container contains itself.
    #[error("a container contains itself")]
    Cycle,
    /// Containers that occur several times make up too many values.
    #[error("containers that occur several times make more than {max} values")]
    TooMuchSharing {
        /// The limit for the pickle's length.
        max: usize,
    },

    /// The archive lacks a storage.
    #[error("the storage `{key}` is missing in the archive")]
    MissingStorage {
        /// The name of the storage.
        key: String,
    },
    /// A storage has another size than the pickle says.
    #[error("the storage `{key}` has {actual} bytes, the pickle says {expected}")]
    StorageSize {
        /// The name of the storage.
        key: String,
        /// The bytes by the pickle.
        expected: u64,
        /// The bytes that it has.
        actual: u64,
    },
    /// A tensor has more than [`MAX_DIMS`] dimensions.
    #[error("a tensor has {dims} dimensions, the limit is {MAX_DIMS}")]
    TooManyDims {
        /// The number of dimensions.
        dims: usize,
    },
    /// A tensor has not as many strides as dimensions.
    #[error("a tensor of shape {shape:?} has the strides {strides:?}")]
    BadStrides {
        /// The shape.
        shape: Vec<usize>,
        /// The strides.
        strides: Vec<usize>,
    },
    /// The size of a tensor overflows the address space.
    #[error("a tensor of shape {shape:?} is larger than any memory")]
    TensorTooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
    /// A tensor reaches beyond its storage.
    #[error(
        "a tensor of shape {shape:?}, strides {strides:?} and offset {offset} reaches beyond its storage of {len} bytes"
    )]
    OutOfStorage {
        /// The shape.
        shape: Vec<usize>,
        /// The strides.
        strides: Vec<usize>,
        /// The offset in elements.
        offset: usize,
        /// The length of the storage.
        len: usize,
    },
    /// A tensor repeats the elements of a small storage too often for a copy of it.
    #[error(
        "a tensor of shape {shape:?} repeats the elements of its storage of {len} bytes too often for a copy"
    )]
    TooMuchExpansion {
        /// The shape.
        shape: Vec<usize>,
        /// The length of the storage.
        len: usize,
    },
    /// A tensor is conjugated or negated when it is read.
    #[error("a tensor has its {what} bit set; call {function}() on it before torch.save")]
    LazyBit {
        /// Which bit.
        what: &'static str,
        /// What resolves it.
        function: &'static str,
    },

    /// A value has no such key.
    #[error("there is no key `{key}`; there are {}", list(keys))]
    MissingKey {
        /// The key.
        key: String,
        /// The keys that there are.
        keys: Vec<String>,
    },
    /// A value has another type than was asked for.
    #[error("{expected} is needed, {found} was found")]
    WrongType {
        /// What was asked for.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A dict is no state dict, because an entry is no tensor.
    #[error("not a dict of names and tensors: its entry {key} is {found}; look up the state dict with `get`")]
    NotAStateDict {
        /// The key, as Python would print it.
        key: String,
        /// What its value is.
        found: &'static str,
    },

    /// PyTorch's files cannot hold this dtype.
    #[error("PyTorch has no dtype {dtype}")]
    UnsupportedDType {
        /// The dtype.
        dtype: DType,
    },
    /// A tensor was given a number of bytes that does not match its shape and dtype.
    #[error("a tensor of shape {shape:?} and dtype {dtype} needs {expected} bytes, {actual} were given")]
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
    /// The writer was given tensors that view one storage as different dtypes.
    #[error(
        "tensors of dtypes {first} and {second} view one storage, which PyTorch's files cannot hold; save a copy of one"
    )]
    TwoDTypes {
        /// The one.
        first: DType,
        /// The other.
        second: DType,
    },
    /// The writer was given a string or bytes of 4 GiB or more.
    #[error("a string is {len} bytes long, which pickles cannot hold")]
    StringTooLong {
        /// Its length.
        len: usize,
    },
}

fn start_hint(found: &[u8]) -> &'static str {
    match found {
        [b'G', b'G', b'U', b'F', ..] => " (it is a GGUF file)",
        [_, _, _, _, _, 0, 0, 0, b'{', ..] => " (it looks like a safetensors file)",
        b"\x93NUMPY" | [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => " (it is a .npy file)",
        [0x80, 2..=5, ..] => " (it is a pickle, but not one of torch.save)",
        [b'v', b'e', b'r', b's', b'i', b'o', b'n', ..] => {
            " (it looks like a Git LFS pointer: fetch the file itself)"
        }
        [b'<', b'!' | b'h' | b'H', ..] => " (it looks like a web page saved in place of the file)",
        _ => "",
    }
}

fn object_hint(name: &str) -> &'static str {
    let starts = |prefix: &str| name.starts_with(prefix);
    if starts("numpy.") {
        "; save tensors and Python's own numbers instead of NumPy's"
    } else if name.ends_with("_rebuild_sparse_tensor") || name.ends_with("_rebuild_sparse_csr_tensor") {
        "; call to_dense() on sparse tensors before torch.save"
    } else if name.ends_with("_rebuild_qtensor") {
        "; call dequantize() on quantized tensors before torch.save"
    } else if starts("torch.nn.") || starts("__main__.") || starts("torch.optim.") {
        "; save the state_dict() of the object instead of the object"
    } else {
        ""
    }
}

/// The first few of `names`, so that a message about thousands stays readable.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut out: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN {
        out.push("…".to_owned());
    }
    if out.is_empty() { "none".to_owned() } else { out.join(", ") }
}

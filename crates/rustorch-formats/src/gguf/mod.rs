//! GGUF, the file format of ggml and llama.cpp: metadata and tensors of a model in one memory-mappable file.
//!
//! [`File`] reads versions 2 and 3 (little-endian), whole or split into parts; [`Writer`] writes version 3.
//! Dimensions are given in row-major order, outermost first: the reverse of their order in the file.
//!
//! What departs from the format is refused, each way by its own [`ErrorKind`]; what is merely unusual is read: gaps
//! between tensors, tensors in another order than their data, strings and tokens that are not UTF-8, nested arrays.
//! Overlapping tensors, dimensions of length zero and arrays nested more than four deep are refused although the format
//! does not forbid them, since no model has them.
//!
//! The format is specified in ggml's `docs/gguf.md`.

mod convert;
mod cursor;
mod encode;
mod error;
mod file;
mod metadata;
mod parse;
mod split;
mod string;
mod summary;
mod tensor;
mod value;
mod writer;

pub use convert::{FromValue, Mismatch};
pub use error::{Error, ErrorKind, Result};
pub use file::{File, Part};
pub use metadata::Metadata;
pub use split::{parse_part_file_name, part_file_name};
pub use string::{ByteString, StrArray};
pub use summary::{DTypeSummary, Summary};
pub use tensor::TensorRef;
pub use value::{Array, Value, ValueType};
pub use writer::Writer;

/// The first four bytes of every GGUF file.
pub const MAGIC: [u8; 4] = *b"GGUF";
/// The alignment of tensor data where `general.alignment` does not say otherwise, in bytes.
pub const DEFAULT_ALIGNMENT: u32 = 32;
/// The most dimensions that a ggml tensor has.
pub const MAX_DIMS: usize = 4;
/// The longest metadata key (and tensor name) that is read or written, in bytes: the format's limit for keys.
pub const MAX_KEY_LEN: usize = 65_535;
/// The most metadata entries that a file may have. Real models have fewer than a hundred.
pub const MAX_METADATA: usize = 1 << 16;
/// The most tensors that a file may have. Real models have fewer than fifty thousand.
pub const MAX_TENSORS: usize = 1 << 18;
/// The deepest nesting of arrays in arrays that is read; 1 is a plain array.
pub const MAX_ARRAY_DEPTH: usize = 4;

//! safetensors, Hugging Face's file format of tensors: names, dtypes, shapes and bytes, nothing that could be executed.
//!
//! [`File`] reads a file or a sharded set by its index (`model.safetensors.index.json`); [`Writer`] writes both, byte for
//! byte as the Python library does. Of dtypes, both know `Bool`, the integers, the floating-point ones and `C64`.
//!
//! A file holds no two tensors that share memory. [`find_shared`] finds such tensors, and [`deduplicate`] chooses the name
//! under which each is kept, as the Python library's `save_model` does.
//!
//! What departs from the format is refused, each way by its own [`ErrorKind`]. Offsets must neither overlap nor leave gaps.
//!
//! ```
//! use rustorch_core::DType;
//! use rustorch_formats::safetensors::{File, Writer};
//! # fn main() -> Result<(), rustorch_formats::safetensors::Error> {
//! let mut writer = Writer::new();
//! writer.metadata("format", "pt")?;
//! writer.tensor("norm.weight", &[2], DType::F32, [1.0f32, 2.0].map(f32::to_le_bytes).concat())?;
//! let file = File::from_bytes(writer.to_bytes()?)?;
//! let norm = file.tensor("norm.weight")?;
//! assert_eq!((norm.shape(), norm.dtype(), norm.nbytes()), (&[2][..], DType::F32, 8));
//! assert_eq!(file.metadata()["format"], "pt");
//! # Ok(())
//! # }
//! ```

mod dtype;
mod error;
mod file;
mod header;
mod index;
mod json;
mod shared;
mod writer;

pub use error::{Error, ErrorKind, Result};
pub use file::{File, TensorRef};
pub use shared::{Region, deduplicate, find_shared};
pub use writer::Writer;

/// The longest header that is read or written, in bytes: the Python library's limit.
pub const MAX_HEADER_LEN: usize = 100_000_000;
/// The most dimensions that a tensor may have: PyTorch's limit.
pub const MAX_DIMS: usize = 64;
/// The most files that a sharded set may have.
pub const MAX_SHARDS: usize = 1 << 16;
/// The end of the name of a sharded set's index.
pub const INDEX_SUFFIX: &str = ".index.json";

/// The key of the metadata among the names of tensors.
const METADATA_KEY: &str = "__metadata__";

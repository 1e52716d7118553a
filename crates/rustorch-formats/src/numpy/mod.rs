//! NumPy's files: an [`Array`] in a `.npy` file, several by name in an `.npz` archive ([`Npz`], [`NpzWriter`]).
//!
//! Versions 1.0 to 3.0 are read, in either byte order, row by row or column by column; written is version 1.0, byte for byte as
//! NumPy does (compressed members apart). Of dtypes, both know all but `BF16`. Arrays of Python objects, which are pickles, and
//! structured, string and date dtypes are refused.
//!
//! What departs from the format is refused, each way by its own [`ErrorKind`].
//!
//! ```
//! use rustorch_core::DType;
//! use rustorch_formats::numpy::{Array, Npz, NpzWriter};
//! # fn main() -> Result<(), rustorch_formats::numpy::Error> {
//! let weight = Array::new(&[2, 1], DType::F32, [1.0f32, 2.0].map(f32::to_le_bytes).concat())?;
//! assert_eq!(Array::from_bytes(weight.to_bytes()?)?.shape(), [2, 1]);
//!
//! let mut writer = NpzWriter::compressed();
//! writer.array("weight", &weight)?;
//! let file = Npz::from_bytes(writer.to_bytes()?)?;
//! assert_eq!(file.names().collect::<Vec<_>>(), ["weight"]);
//! assert_eq!(file.array("weight")?.bytes(), weight.bytes());
//! # Ok(())
//! # }
//! ```

mod array;
mod error;
mod header;
mod npz;

pub use array::Array;
pub use error::{Error, ErrorKind, Result};
pub use npz::{Npz, NpzWriter};

/// The first six bytes of every `.npy` file.
pub const MAGIC: [u8; 6] = *b"\x93NUMPY";
/// The longest header that is read, in bytes. NumPy's own limit is 10000.
pub const MAX_HEADER_LEN: usize = 1 << 16;
/// The most dimensions that an array may have: NumPy's limit.
pub const MAX_DIMS: usize = 64;

//! File formats of tensors and models, read or mapped into memory, and written atomically: [`gguf`], `safetensors`, `numpy`
//! (`.npy`, `.npz`), `torch` (`.pt`) and, read only, `idx` (MNIST's), the last four by Cargo features of these names, which are on by default.
//!
//! Files come from strangers. Every parser here checks each count, length, offset and size before it uses it, allocates
//! no more than the file's own size warrants, and reports each malformation as its own error.
//!
//! ```
//! use rustorch_core::DType;
//! use rustorch_formats::gguf::{File, Writer};
//! # fn main() -> Result<(), rustorch_formats::gguf::Error> {
//! let mut writer = Writer::new();
//! writer.metadata("general.architecture", "llama")?;
//! writer.metadata("llama.block_count", 2u32)?;
//! writer.tensor("output_norm.weight", &[2], DType::F32, [1.0f32, 2.0].map(f32::to_le_bytes).concat())?;
//! let file = File::from_bytes(writer.to_bytes()?)?;
//! assert_eq!(file.metadata().get_str("general.architecture")?, "llama");
//! assert_eq!(file.metadata().get_usize("llama.block_count")?, 2);
//! let norm = file.tensor("output_norm.weight")?;
//! assert_eq!((norm.shape(), norm.dtype(), norm.bytes().len()), (&[2][..], DType::F32, 8));
//! # Ok(())
//! # }
//! ```

mod atomic;
mod bytes;
mod error;
pub mod gguf;
#[cfg(feature = "safetensors")]
pub mod graph;
#[cfg(feature = "idx")]
pub mod idx;
mod load;
#[cfg(feature = "numpy")]
pub mod numpy;
#[cfg(feature = "safetensors")]
pub mod safetensors;
#[cfg(feature = "torch")]
pub mod torch;
#[cfg(any(feature = "numpy", feature = "torch"))]
mod zip;

pub use atomic::AtomicFile;
pub use bytes::SharedBytes;
pub use error::Error;
#[cfg(any(feature = "numpy", feature = "torch"))]
pub use zip::ZipError;

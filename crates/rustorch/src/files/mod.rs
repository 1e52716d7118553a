//! Tensors in files: safetensors, NumPy's `.npy` and `.npz`, PyTorch's `.pt`.
//!
//! Functions that load tensors copy them from the file to where new tensors are made (see [`set_device`](crate::set_device)), so
//! they can be written. Functions whose names end in `_mapped` copy nothing: their tensors are read-only memory of the CPU, whose
//! pages the operating system reads at their first use. Files are written whole or not at all.
//!
//! The formats themselves, with metadata and without tensors, are in the modules `safetensors`, `numpy` and `torch` of the crate.
//! [The guide](https://github.com/rustorch/rustorch/blob/main/docs/files.md) has examples.

#[cfg(all(feature = "nn", feature = "safetensors"))]
mod checkpoint;
mod error;
#[cfg(feature = "numpy")]
mod numpy;
#[cfg(feature = "safetensors")]
mod safetensors;
#[cfg(any(feature = "safetensors", feature = "torch"))]
mod sharing;
#[cfg(feature = "torch")]
mod torch;
#[cfg(feature = "torch")]
mod view;

#[cfg(all(feature = "nn", feature = "safetensors"))]
pub use checkpoint::Checkpoint;
pub use error::{Error, Result};
#[cfg(feature = "numpy")]
pub use numpy::{load_npy, load_npy_mapped, load_npz, save_npy, save_npz, save_npz_compressed};
#[cfg(feature = "safetensors")]
pub use safetensors::{
    SafetensorsOptions, SharedTensors, load_safetensors, load_safetensors_mapped, save_safetensors,
    save_safetensors_with,
};
#[cfg(feature = "torch")]
pub use torch::{Value, load_torch, load_torch_mapped, save_torch};

use rustorch_formats::SharedBytes;
use rustorch_tensor::{Buffer, DType, Tensor};
use std::sync::Arc;

/// How tensors come out of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// Copied to the current device.
    Copied,
    /// As read-only memory that the file keeps.
    Mapped,
}

impl Load {
    /// A tensor of these bytes, row by row.
    fn tensor(self, bytes: SharedBytes, dtype: DType, shape: &[usize]) -> rustorch_tensor::Result<Tensor> {
        match self {
            Load::Copied => Tensor::from_bytes(&bytes, dtype, shape),
            Load::Mapped => {
                // SAFETY: `SharedBytes` holds its owner, which neither moves nor writes its bytes, by a reference count.
                let buffer = unsafe { Buffer::shared(Arc::new(bytes)) };
                Tensor::from_buffer(buffer, dtype, shape, 0)
            }
        }
    }
}

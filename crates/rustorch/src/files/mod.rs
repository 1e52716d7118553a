//! Tensors in files: safetensors, NumPy's `.npy` and `.npz`, PyTorch's `.pt`, MNIST's IDX; and captured functions with their tensors,
//! also as Core ML packages.
//!
//! Functions that load tensors copy them from the file to where new tensors are made (see [`set_device`](crate::set_device)), so
//! they can be written. Functions whose names end in `_mapped` copy nothing: their tensors are read-only memory of the CPU, whose
//! pages the operating system reads at their first use. Files are written whole or not at all.
//!
//! The formats themselves, with metadata and without tensors, are in the modules `safetensors`, `numpy` and `torch` of the crate.
//! [The guide](https://github.com/rustorch/rustorch/blob/main/docs/files.md) has examples.

#[cfg(all(feature = "nn", feature = "safetensors"))]
mod checkpoint;
#[cfg(feature = "coreml")]
mod coreml;
mod error;
#[cfg(feature = "idx")]
mod idx;
#[cfg(any(feature = "numpy", feature = "safetensors", feature = "torch"))]
mod load;
#[cfg(feature = "numpy")]
mod numpy;
#[cfg(feature = "safetensors")]
mod program;
#[cfg(feature = "safetensors")]
mod safetensors;
#[cfg(any(feature = "safetensors", feature = "torch"))]
mod sharing;
#[cfg(feature = "torch")]
mod torch;
#[cfg(all(feature = "nn", feature = "torch"))]
mod torch_optimizer;
#[cfg(feature = "torch")]
mod view;

#[cfg(all(feature = "nn", feature = "safetensors"))]
pub use checkpoint::Checkpoint;
#[cfg(feature = "coreml")]
pub use coreml::{save_mlpackage, save_mlpackage_functions, save_mlpackage_with};
pub use error::{Error, Result};
#[cfg(feature = "idx")]
pub use idx::load_idx;
#[cfg(feature = "numpy")]
pub use numpy::{load_npy, load_npy_mapped, load_npz, save_npy, save_npz, save_npz_compressed};
#[cfg(feature = "safetensors")]
pub use program::{load_program, load_program_mapped, save_program};
#[cfg(feature = "safetensors")]
pub use safetensors::{
    SafetensorsOptions, SharedTensors, load_safetensors, load_safetensors_mapped, save_safetensors,
    save_safetensors_with,
};
#[cfg(feature = "torch")]
pub use torch::{Value, load_torch, load_torch_mapped, save_torch};
#[cfg(all(feature = "nn", feature = "torch"))]
pub use torch_optimizer::load_torch_optimizer;

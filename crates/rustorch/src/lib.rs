//! Deep learning in Rust with hybrid execution: an operation is data, a device is a plug-in, and an executor decides
//! where each operation runs, falls back where a device cannot, and says why.
//!
//! ```
//! use rustorch::{DType, Tensor};
//!
//! let x = Tensor::arange(0, 6, 1)?.to_dtype(DType::F32)?.reshape([2, 3])?;
//! let y = x.matmul(&x.t()?)?.softmax(-1)?;
//! println!("{y}");
//! assert_eq!(y.dims(), [2, 2]);
//! # Ok::<(), rustorch::Error>(())
//! ```
//!
//! # Cargo features
//!
//! All are on by default; `default-features = false` leaves tensors on the CPU.
//!
//! | feature | what it adds |
//! |---|---|
//! | `coreml` | captured functions as Core ML packages: `coreml`; `files::save_mlpackage`; on macOS, Core ML as a device |
//! | `cuda` | NVIDIA GPUs |
//! | `fft` | Fourier transforms on the CPU: without it those of [`fft`](mod@fft) are errors that name it |
//! | `linalg` | singular values and eigenvalues on the CPU: without it those of [`linalg`](mod@linalg) are errors that name it |
//! | `wgpu` | devices of Vulkan, Metal and Direct3D 12 |
//! | `opencl` | OpenCL devices |
//! | `gguf` | `gguf`: reading and writing GGUF files |
//! | `idx` | `idx`: IDX files, in which MNIST comes; `files::load_idx` |
//! | `llm` | `llm`: language models from GGUF files; includes `gguf` |
//! | `nn` | `nn`: modules, layers, losses, data; `optim`: optimizers; `amp`: mixed precision |
//! | `safetensors` | `safetensors`: safetensors files; `graph`: graphs in them; their tensors and programs in `files` |
//! | `numpy` | `numpy`: `.npy` and `.npz` files; their arrays in `files` |
//! | `torch` | `torch`: PyTorch's `.pt` files; their tensors in `files` |
//! | `profile` | `runtime::profile`: profiles and traces; `metrics`: how busy devices are; `benchmark`: their rates |
//!
//! `metal` and `vulkan` are other names of `wgpu`, `coreml-hybrid` and `mac-hybrid` of `coreml` with it, and `hybrid-f32` takes nothing. Off by default,
//! `coreml-fallback` (Core ML first, where it is) and `gpu-priority` (the first device of the fallback order that can) set the policy of the process where
//! neither the program nor `RUSTORCH_PLACEMENT` does.

/// The guides' examples.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/autograd.md")]
mod guide_autograd {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/custom_ops.md")]
mod guide_custom_ops {}

/// The guide's examples.
#[cfg(all(doctest, feature = "coreml", feature = "nn"))]
#[doc = include_str!("../../../docs/coreml.md")]
mod guide_coreml {}

/// The guide's examples.
#[cfg(all(doctest, feature = "numpy", feature = "safetensors", feature = "torch"))]
#[doc = include_str!("../../../docs/files.md")]
mod guide_files {}

/// The guide's examples.
#[cfg(all(doctest, feature = "nn", feature = "safetensors"))]
#[doc = include_str!("../../../docs/graphs.md")]
mod guide_graphs {}

/// The guide's examples.
#[cfg(all(doctest, feature = "nn", feature = "safetensors", feature = "torch"))]
#[doc = include_str!("../../../docs/training.md")]
mod guide_training {}

/// The examples of the first page.
#[cfg(all(doctest, feature = "llm", feature = "nn", feature = "numpy"))]
#[doc = include_str!("../../../README.md")]
mod readme {}

#[cfg(feature = "profile")]
pub mod benchmark;
pub mod devices;
#[cfg(any(
    feature = "coreml",
    feature = "idx",
    feature = "numpy",
    feature = "safetensors",
    feature = "torch"
))]
pub mod files;
#[cfg(feature = "profile")]
pub mod metrics;

#[doc(inline)]
pub use rustorch_core::DeviceType;
#[cfg(feature = "coreml")]
#[doc(inline)]
pub use rustorch_coreml as coreml;
#[cfg(feature = "gguf")]
#[doc(inline)]
pub use rustorch_formats::gguf;
#[cfg(feature = "safetensors")]
#[doc(inline)]
pub use rustorch_formats::graph;
#[cfg(feature = "idx")]
#[doc(inline)]
pub use rustorch_formats::idx;
#[cfg(feature = "numpy")]
#[doc(inline)]
pub use rustorch_formats::numpy;
#[cfg(feature = "safetensors")]
#[doc(inline)]
pub use rustorch_formats::safetensors;
#[cfg(feature = "torch")]
#[doc(inline)]
pub use rustorch_formats::torch;
#[doc(inline)]
pub use rustorch_tensor::*;

/// Modules: layers, models of layers, their parameters and state dicts.
#[cfg(feature = "nn")]
#[doc(inline)]
pub use rustorch_nn as nn;
#[cfg(feature = "nn")]
#[doc(inline)]
pub use rustorch_nn::{amp, optim};

/// What a training takes, in one line: `use rustorch::prelude::*`.
pub mod prelude {
    #[cfg(feature = "nn")]
    pub use rustorch_nn::{Layer, Module};
    #[doc(no_inline)]
    pub use rustorch_tensor::{DType, Result, Tensor, autograd::no_grad, i, manual_seed};
}

/// The vocabulary: operations, layouts, the contract of a device.
#[doc(inline)]
pub use rustorch_core as core;
/// Language models from GGUF files.
///
/// ```no_run
/// use rustorch::llm::generate::{GenerationOptions, Session, SessionOptions, Step};
/// use rustorch::llm::sampling::{Sampler, SamplerConfig};
/// use rustorch::llm::tokenizer::EncodeOptions;
/// use rustorch::llm::LanguageModel;
/// use std::{ops::ControlFlow, sync::Arc};
///
/// let model = Arc::new(LanguageModel::open("model.gguf")?);
/// let prompt = model.tokenizer()?.encode("Once upon a time", EncodeOptions::default());
/// let mut session = Session::new(Arc::clone(&model), SessionOptions::for_model(&model))?;
/// let options = GenerationOptions { max_tokens: Some(64), ..Default::default() };
/// session.generate(&prompt, &mut Sampler::new(SamplerConfig::greedy())?, &options, &mut |step| {
///     if let Step::Token { text, .. } = step {
///         print!("{text}");
///     }
///     ControlFlow::Continue(())
/// })?;
/// # Ok::<(), rustorch::llm::Error>(())
/// ```
#[cfg(feature = "llm")]
#[doc(inline)]
pub use rustorch_llm as llm;
/// The executor: placement, fallback, memory, records.
#[doc(inline)]
pub use rustorch_runtime as runtime;

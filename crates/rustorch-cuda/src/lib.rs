//! RusTorch on NVIDIA GPUs.
//!
//! NVIDIA's driver and NVRTC, its compiler, are opened at run time, so a program that has this crate starts on machines that
//! have neither. [`discover`] finds every GPU, or says what is missing; [`Candidate::open`] makes a [`Cuda`], which implements
//! [`rustorch_kernels::Driver`]: memory, kernels in CUDA C, launches. [`Nvrtc`] compiles without a GPU.
//!
//! ```
//! let found = rustorch_cuda::discover();
//! for candidate in &found.devices {
//!     println!("{} is {}", candidate.hardware().device, candidate.hardware().name);
//! }
//! for reason in &found.missing {
//!     println!("{reason}");
//! }
//! ```

mod blas;
mod context;
mod describe;
mod discover;
mod driver;
mod event;
mod fault;
mod libraries;
mod memory;
mod nvrtc;
mod peer;
mod pinned;
mod profiler;
mod program;
mod spans;
mod stream;

pub use discover::{Candidate, Discovery, discover};
pub use driver::Cuda;
pub use memory::Memory;
pub use nvrtc::{Nvrtc, NvrtcError, Target};
pub use program::Kernel;

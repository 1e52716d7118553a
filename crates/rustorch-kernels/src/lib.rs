//! RusTorch's kernels for GPUs, and the engine that runs them.
//!
//! Kernels are written once, in WGSL, and reach every device: through wgpu as they are, and translated to OpenCL C and
//! CUDA C by `naga-c`. A device's crate implements [`Driver`], which knows memory and launches but no operation;
//! [`Engine`] makes a [`Backend`](rustorch_core::Backend) of it.

mod cache;
mod driver;
mod hardware;

pub use cache::KernelCache;
pub use driver::{Driver, Launch, Text, Window};
pub use hardware::{Arithmetic, Hardware, Language};

//! RusTorch's GPU kernels, and the engine that runs them.
//!
//! Kernels are written once, in WGSL: wgpu takes them as they are, OpenCL and CUDA get them translated by `naga-c`. A device
//! crate implements [`Driver`] (memory, kernels, launches; no operations); [`Engine`] turns a driver into a
//! [`Backend`](rustorch_core::Backend).
//!
//! How an operation runs: the support [table](family::table) says whether there are kernels for it; [`family::plan`] plans its
//! [launches](plan::Plan), splitting operands larger than the maximum binding size; the engine compiles each kernel once and
//! submits the launches to the driver. Imports go one way: engine → family → splitting → plan → wgsl.

mod cache;
mod device_assert;
pub mod driver;
mod engine;
pub mod family;
mod hardware;
pub mod library;
pub mod plan;
mod splitting;
mod subgroup_use;
pub mod table;
mod translate;
pub mod wgsl;

pub use cache::KernelCache;
pub use driver::{BufferBinding, Driver, KernelSource, Launch, LaunchCache};
pub use engine::Engine;
pub use family::Kernel;
pub use hardware::{Arithmetic, Hardware, Language, Subgroups};
pub use subgroup_use::SubgroupUse;
pub use translate::{SUBGROUP_EXTENSIONS, Translated, translate};

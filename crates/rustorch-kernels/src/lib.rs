//! RusTorch's kernels for GPUs, and the engine that runs them.
//!
//! Kernels are written once, in WGSL, and reach every device: through wgpu as they are, and translated to OpenCL C and
//! CUDA C by `naga-c`. A device's crate implements [`Driver`], which knows memory and launches but no operation;
//! [`Engine`] makes a [`Backend`](rustorch_core::Backend) of it.
//!
//! The way of an operation: the [`table`] says whether there are kernels for it; [`family::plan`] turns it into
//! [launches](plan::Plan) over memory, on operands larger than what kernels see at once piece by piece; the engine compiles
//! their kernels once and hands them to the driver.

mod cache;
pub mod driver;
mod engine;
pub mod family;
mod hardware;
pub mod library;
mod mistake;
mod pieces;
pub mod plan;
mod subgroup_use;
pub mod table;
mod translate;
pub mod wgsl;

pub use cache::KernelCache;
pub use driver::{Driver, Launch, Text, Window};
pub use engine::Engine;
pub use family::Kernel;
pub use hardware::{Arithmetic, Hardware, Language, Subgroups};
pub use mistake::Mistake;
pub use subgroup_use::SubgroupUse;
pub use translate::{SUBGROUP_EXTENSIONS, Translated, translate};

//! Core ML packages of graphs: a [`Graph`](rustorch_core::Graph) becomes an ML Program, Core ML's form of a whole model, in a `.mlpackage`
//! that Xcode and Core ML read. Packages are written on any system.
//!
//! On macOS, [`CoreMlDevice`] runs regions of graphs: a [`Compiler`](rustorch_core::Compiler) whose programs are [admitted](admission) before they count, by
//! a [`Runtime`](runtime::Runtime), which is Core ML there and scripted in tests.
//!
//! Programs are `f32`, or `f16` by [`CoreMlOptions::allow_f16`]. [The guide](https://github.com/rustorch/rustorch/blob/main/docs/coreml.md) lists the operations that have a form in one.
//! `rustorch::files::save_mlpackage` writes a captured function; [`Package`] is what it does, for a graph and the bytes of its constants.

pub mod admission;
mod blob;
mod blocks;
mod border;
mod builder;
mod cache;
pub mod device;
mod emit;
mod error;
mod float;
mod function;
mod info;
mod layout;
mod options;
mod package;
mod pipeline;
mod proto;
pub mod runtime;
pub mod support;

pub use admission::child;
pub use blob::Constants;
pub use builder::Specification;
pub use device::{CoreMlDevice, DeviceOptions};
pub use error::{Declined, Error, Result};
pub use function::Function;
pub use info::{FunctionInfo, PackageInfo};
pub use options::{AttentionForm, CoreMlOptions, QuantWeights};
pub use package::Package;

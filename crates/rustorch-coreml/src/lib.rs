//! Core ML packages of graphs: a [`Graph`](rustorch_core::Graph) becomes an ML Program, Core ML's form of a whole model, in a `.mlpackage`
//! that Xcode and Core ML read. Packages are written on any system; nothing here needs macOS.
//!
//! Programs are `f32`, or `f16` by [`CoreMlOptions::allow_f16`]. [The guide](https://github.com/rustorch/rustorch/blob/main/docs/coreml.md) lists the operations that have a form in one.
//! `rustorch::files::save_mlpackage` writes a captured function; [`Package`] is what it does, for a graph and the bytes of its constants.

mod blob;
mod blocks;
mod builder;
mod emit;
mod error;
mod float;
mod function;
mod layout;
mod options;
mod package;
mod proto;

pub use blob::Constants;
pub use error::{Declined, Error, Result};
pub use function::Function;
pub use options::{CoreMlOptions, QuantWeights};
pub use package::Package;

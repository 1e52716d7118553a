//! Captured functions as Core ML packages.

use super::Result;
use rustorch_coreml::{Declined, Error, Package};
use rustorch_tensor::Program;
use std::io;
use std::path::Path;

/// Writes a captured function as a Core ML package: a folder `.mlpackage` with an `f32` ML Program that Xcode and Core ML read, from macOS 12
/// and iOS 15 on. It is written on any system. Inputs are `input_0`, .., outputs `output_0`, ..; what has no dimensions has one of length 1
/// there, and booleans and 64-bit integers are `int32`.
///
/// What the program checks in Rust before each run ([`guard`](crate::guard())) is not written. [The
/// guide](https://github.com/rustorch/rustorch/blob/main/docs/coreml.md) lists the operations that have a form in Core ML.
///
/// ```
/// use rustorch::files::save_mlpackage;
/// use rustorch::{DType, Tensor, TensorSpec, capture};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("model.mlpackage");
/// let weight = Tensor::ones([4, 3], DType::F32)?;
/// let program = capture(&[TensorSpec::new([1, 4], DType::F32)?], |x| {
///     Ok(vec![x[0].matmul(&weight)?.tanh()?])
/// })?;
/// save_mlpackage(&path, &program)?;
/// assert!(path.join("Data/com.apple.CoreML/model.mlmodel").exists());
/// // Nothing is overwritten.
/// assert!(save_mlpackage(&path, &program).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the graph has parts without a form in Core ML (all are listed), something is at `path`, or the disk refuses; nothing is left then.
pub fn save_mlpackage(path: impl AsRef<Path>, program: &Program) -> Result<()> {
    let reason = if program.uses_host_state() {
        Some(
            "a run reads or changes numbers in Rust, as an optimizer's step does; capture a function without the step",
        )
    } else if program.changes_gradients() {
        Some("a run changes gradients of tensors that require them; capture the function under `no_grad`")
    } else {
        None
    };
    if let Some(reason) = reason {
        let declined = Declined { place: "the program".to_owned(), reason: reason.to_owned() };
        return Err(Error::Declined(vec![declined]).into());
    }
    let constants = program.constants();
    let bytes = |i: usize| match constants.get(i) {
        Some(constant) => constant.to_bytes().map_err(io::Error::other),
        None => Err(io::Error::other("the program does not have it")),
    };
    Package::new(program.graph(), &bytes)?.write(path)?;
    Ok(())
}

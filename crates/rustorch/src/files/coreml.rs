//! Captured functions as Core ML packages.

use super::Result;
use rustorch_coreml::{CoreMlOptions, Declined, Error, Package};
use rustorch_tensor::Program;
use std::io;
use std::ops::Range;
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
    save_mlpackage_with(path, program, &CoreMlOptions::default())
}

/// As [`save_mlpackage`], with options: an `f16` program, names of inputs and outputs, metadata.
///
/// The program's states become states of Core ML, which are `f16` and begin with zeros (macOS 15, iOS 18).
///
/// ```
/// use rustorch::coreml::CoreMlOptions;
/// use rustorch::files::save_mlpackage_with;
/// use rustorch::{DType, Tensor, TensorSpec, capture};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("sum.mlpackage");
/// let sum = Tensor::zeros([4], DType::F32)?;
/// let program = capture(&[TensorSpec::new([4], DType::F32)?], |x| {
///     sum.add_(&x[0])?;
///     Ok(vec![sum.mul(2)?])
/// })?;
/// let names = |name: &str| vec![name.to_owned()];
/// let options = CoreMlOptions { allow_f16: true, inputs: names("x"), outputs: names("twice"), ..Default::default() };
/// save_mlpackage_with(&path, &program, &options)?;
/// # assert!(path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`save_mlpackage`]; if a state is not `f16` and `f16` is not allowed, or a state is not zero; if a name is none.
pub fn save_mlpackage_with(path: impl AsRef<Path>, program: &Program, options: &CoreMlOptions) -> Result<()> {
    let decline = |place: String, reason: &str| {
        let declined = Declined { place, reason: reason.to_owned() };
        Err(Error::Declined(vec![declined]).into())
    };
    if program.uses_host_state() {
        let reason = "a run reads or changes numbers in Rust, as an optimizer's step does; capture a function without the step";
        return decline("the program".to_owned(), reason);
    }
    if program.changes_gradients() {
        let reason =
            "a run changes gradients of tensors that require them; capture the function under `no_grad`";
        return decline("the program".to_owned(), reason);
    }
    for (i, state) in program.states().iter().enumerate() {
        // Floats of Core ML's states are zero in these bits; −0 is refused, which costs nobody anything.
        if state.to_bytes()?.iter().any(|&byte| byte != 0) {
            let reason = "is not zero, and Core ML's states begin with zeros; set it to zero before, or give it as an argument";
            return decline(format!("state {i}"), reason);
        }
    }
    let constants = program.constants();
    let bytes = |i: usize, range: Range<usize>| match constants.get(i) {
        Some(constant) => {
            let part =
                constant.flatten(0, -1).and_then(|all| all.narrow(0, range.start, range.len())?.to_bytes());
            part.map_err(io::Error::other)
        }
        None => Err(io::Error::other("the program does not have it")),
    };
    Package::with_options(program.graph(), &bytes, options)?.write(path)?;
    Ok(())
}

//! Captured functions as Core ML packages.

use super::Result;
use rustorch_coreml::{CoreMlOptions, Declined, Error, Function, Package};
use rustorch_tensor::{DType, Program, Tensor};
use std::collections::HashMap;
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
    save_mlpackage_functions(path, &[("main", program, options)])
}

/// As [`save_mlpackage_with`], with several functions in one package (macOS 15, iOS 18): each has a name, a program and options. Tensors that
/// several programs refer to are written once; those that they write in place are one state. Programs load the first function if they name none; its
/// description and metadata are the package's.
///
/// ```
/// use rustorch::coreml::CoreMlOptions;
/// use rustorch::files::save_mlpackage_functions;
/// use rustorch::{DType, Tensor, TensorSpec, capture};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("model.mlpackage");
/// let weight = Tensor::ones([64, 64], DType::F32)?;
/// let of_rows = |rows: usize| {
///     capture(&[TensorSpec::new([rows, 64], DType::F32)?], |x| Ok(vec![x[0].matmul(&weight)?]))
/// };
/// let (one, eight, options) = (of_rows(1)?, of_rows(8)?, CoreMlOptions::default());
/// save_mlpackage_functions(&path, &[("one", &one, &options), ("eight", &eight, &options)])?;
/// let weights = std::fs::metadata(path.join("Data/com.apple.CoreML/weights/weight.bin"))?.len();
/// assert_eq!(weights, 64 + 64 + 64 * 64 * 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`save_mlpackage_with`]; if there is no function, a name is none or given twice, or one function writes what another takes for a
/// constant.
pub fn save_mlpackage_functions(
    path: impl AsRef<Path>,
    programs: &[(&str, &Program, &CoreMlOptions)],
) -> Result<()> {
    let decline = |place: String, reason: &str| {
        let declined = Declined { place, reason: reason.to_owned() };
        Err(Error::Declined(vec![declined]).into())
    };
    let (mut states, mut constants) = (Vec::<Tensor>::new(), Distinct::default());
    let mut functions = Vec::with_capacity(programs.len());
    for &(name, program, options) in programs {
        if program.uses_host_state() {
            let reason = "a run reads or changes numbers in Rust, as an optimizer's step does; capture a function without the step";
            return decline(name.to_owned(), reason);
        }
        if program.changes_gradients() {
            let reason =
                "a run changes gradients of tensors that require them; capture the function under `no_grad`";
            return decline(name.to_owned(), reason);
        }
        let mut function = Function::new(name, program.graph(), options.clone());
        for (i, state) in program.states().into_iter().enumerate() {
            if let Some(have) = states.iter().position(|have| have.shares_memory(&state)) {
                function.states[i] = have;
                continue;
            }
            // Floats of Core ML's states are zero in these bits; −0 is refused, which costs nobody anything.
            if state.to_bytes()?.iter().any(|&byte| byte != 0) {
                let reason = "is not zero, and Core ML's states begin with zeros; set it to zero before, or give it as an argument";
                return decline(format!("state {i}"), reason);
            }
            function.states[i] = states.len();
            states.push(state);
        }
        functions.push(function);
    }
    for (function, &(name, program, _)) in functions.iter_mut().zip(programs) {
        for (i, constant) in program.constants().into_iter().enumerate() {
            if states.iter().any(|state| state.shares_memory(&constant)) {
                let reason = "is a state of another function; have each function write it, or none";
                return decline(format!("{name}, constant {i}"), reason);
            }
            function.constants[i] = constants.number(constant)?;
        }
    }
    let bytes = |i: usize, range: Range<usize>| match constants.tensors.get(i) {
        Some(constant) => part(constant, range).map_err(io::Error::other),
        None => Err(io::Error::other("the program does not have it")),
    };
    Package::of_functions(&functions, &bytes)?.write(path)?;
    Ok(())
}

/// How many elements of constants are looked at together.
const CHUNK: usize = 1 << 16;

/// Constants without those that are equal: a table that is the last layer's weight, too, is written once.
#[derive(Default)]
struct Distinct {
    tensors: Vec<Tensor>,
    /// Those of a dtype, a number of elements and first elements.
    by_head: HashMap<(DType, usize, Vec<u8>), Vec<usize>>,
}

impl Distinct {
    /// The place of an equal one, which is made.
    fn number(&mut self, constant: Tensor) -> Result<usize> {
        // Whole blocks of every type.
        let head = part(&constant, 0..constant.numel().min(256))?;
        let alike = self.by_head.entry((constant.dtype(), constant.numel(), head)).or_default();
        for &have in alike.iter() {
            if is_equal(&self.tensors[have], &constant)? {
                return Ok(have);
            }
        }
        alike.push(self.tensors.len());
        self.tensors.push(constant);
        Ok(self.tensors.len() - 1)
    }
}

/// Whether constants of the same dtype and number of elements have the same bytes.
fn is_equal(a: &Tensor, b: &Tensor) -> Result<bool> {
    if a.shares_memory(b) && a.dims() == b.dims() {
        return Ok(true);
    }
    for start in (0..a.numel()).step_by(CHUNK) {
        let range = start..a.numel().min(start + CHUNK);
        if part(a, range.clone())? != part(b, range)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The bytes of elements of a constant, which is contiguous.
fn part(constant: &Tensor, range: Range<usize>) -> rustorch_tensor::Result<Vec<u8>> {
    constant.flatten(0, -1)?.narrow(0, range.start, range.len())?.to_bytes()
}

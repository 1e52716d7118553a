//! Programs: captured functions in files.

use super::Result;
use super::load::Load;
use rustorch_formats::graph::{ErrorKind, File, Writer};
use rustorch_tensor::{Program, Tensor, with_device};
use std::io;
use std::path::Path;

/// Saves a captured function as it is: its graph after passes, the tensors that it refers to, and the states as the last run left them.
/// The file is a safetensors file, which other programs can read, too; see [`rustorch_formats::graph`].
///
/// What the program checks in Rust before each run ([`guard`](crate::guard())) is not saved: the file is the function as it was captured.
/// Random numbers are drawn anew in each run, from the generator of the process that loads it. Save between runs: states are read one after
/// the other.
///
/// ```
/// use rustorch::files::{load_program, save_program};
/// use rustorch::{DType, Tensor, TensorSpec, capture};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("double.safetensors");
/// let (two, count) = (Tensor::new(2.0f32)?, Tensor::new(0.0f32)?);
/// let program = capture(&[TensorSpec::new(3, DType::F32)?], |x| {
///     count.add_(1)?;
///     Ok(vec![x[0].mul(&two)?, count.add(0)?])
/// })?;
/// let x = Tensor::new([1.0f32, 2.0, 3.0])?;
/// program.run(&[&x])?;
/// save_program(&path, &program)?;
///
/// let loaded = load_program(&path)?;
/// let outputs = loaded.run(&[&x])?;
/// assert_eq!(outputs[0].to_vec::<f32>()?, [2.0, 4.0, 6.0]);
/// assert_eq!(outputs[1].item()?.to_f64(), 2.0);
/// assert_eq!(count.item()?.to_f64(), 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If runs change gradients (return them as outputs, from [`autograd::grad`](crate::autograd::grad)) or numbers in Rust
/// ([`HostState`](crate::HostState)), the graph has a custom operation, or
/// the disk refuses; a file that was there is then as it was.
pub fn save_program(path: impl AsRef<Path>, program: &Program) -> Result<()> {
    let path = path.as_ref();
    let is_more = if program.uses_host_state() {
        Some(
            "a run reads or changes numbers in Rust, such as the learning rate and the count of an optimizer's step, which are no part of the \
             graph; save a function without the step",
        )
    } else if program.changes_gradients() {
        Some(
            "a run changes gradients of tensors that require them, which are no part of the graph; get gradients from \
             `autograd::grad` and return them as outputs",
        )
    } else {
        None
    };
    if let Some(message) = is_more {
        let error: rustorch_formats::graph::Error =
            ErrorKind::Unsupported { message: message.to_owned() }.into();
        return Err(error.into());
    }
    let (constants, states) = (program.constants(), program.states());
    let bytes = |tensors: Vec<Tensor>| move |i: usize| tensors[i].to_bytes().map_err(io::Error::other);
    Ok(Writer::new(program.graph(), bytes(constants), bytes(states))?.write_file(path)?)
}

/// Loads a program that [`save_program`] saved, to be run by the current executor. Its constants are read-only.
///
/// # Errors
/// If the file holds no graph, or a damaged one (each [way](ErrorKind) has its error), or a device that the graph names is not here.
pub fn load_program(path: impl AsRef<Path>) -> Result<Program> {
    program(File::open(path)?)
}

/// As [`load_program`], with the constants on the CPU mapped into memory: the operating system reads their pages at their first use.
///
/// # Errors
/// As [`load_program`].
///
/// # Safety
/// As long as the program or an output of it lives, nobody overwrites the file in place or truncates it; see [`File::open_mapped`].
pub unsafe fn load_program_mapped(path: impl AsRef<Path>) -> Result<Program> {
    // SAFETY: that nobody changes the file is this function's contract.
    program(unsafe { File::open_mapped(path) }?)
}

fn program(file: File) -> Result<Program> {
    let graph = file.graph();
    let constants = graph.constants().into_iter().zip(file.constants()).map(|(id, bytes)| {
        let value = &graph.values[id.index()];
        // In the file's memory, also where that was read: nobody writes to constants.
        let tensor = Load::Mapped.tensor(bytes.clone(), value.dtype, value.shape.dims())?;
        if value.device.is_cpu() { Ok(tensor) } else { tensor.to_device(value.device) }
    });
    let constants = constants.collect::<rustorch_tensor::Result<Vec<_>>>()?;
    let states = graph.states.iter().zip(file.states()).map(|(state, bytes)| {
        let value = &graph.values[state.first.index()];
        with_device(value.device, || Tensor::from_bytes(bytes, value.dtype, value.shape.dims()))?
    });
    let states = states.collect::<rustorch_tensor::Result<Vec<_>>>()?;
    Ok(Program::from_parts(file.into_graph(), constants, states)?)
}

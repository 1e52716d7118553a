//! Captured functions: what a function of tensors does, recorded once and run again and again.

mod buckets;
mod compile;
pub(crate) mod guard;
mod host;

pub use compile::{CompileCounts, Compiled, compile};
pub use guard::{guard, guard_once};
pub use host::HostState;

use crate::autograd::leaf_log::{self, LeafEffect, LeafLog};
use crate::{IntoShape, Tensor, random};
use guard::{Guard, GuardLog};
use host::{HostEffects, HostLog};
use rustorch_core::{DType, Device, Error, Graph, Layout, Result, Shape, ValueId};
use rustorch_runtime::{
    Captured, FromOutput, HybridExecutor, Operand, Output, Pass, ProgramExplanation, Storage,
};
use smallvec::SmallVec;
use std::fmt;

/// What a captured function is given: a tensor's dtype, shape and device.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorSpec {
    dtype: DType,
    shape: Shape,
    device: Device,
}

impl TensorSpec {
    /// A tensor on the CPU.
    ///
    /// # Errors
    /// If it has more elements than can be addressed.
    pub fn new(shape: impl IntoShape, dtype: DType) -> Result<TensorSpec> {
        Ok(TensorSpec { dtype, shape: shape.into_shape()?, device: Device::CPU })
    }

    /// On a device.
    pub fn on(self, device: Device) -> TensorSpec {
        TensorSpec { device, ..self }
    }
}

impl From<&Tensor> for TensorSpec {
    /// What this tensor has.
    fn from(x: &Tensor) -> TensorSpec {
        TensorSpec { dtype: x.dtype(), shape: x.shape().clone(), device: x.device() }
    }
}

/// A captured function, ready to run: see [`capture`].
pub struct Program {
    program: rustorch_runtime::Program,
    /// How many of the graph's outputs are the function's; gradients of leaves follow.
    outputs: usize,
    /// What a run does to gradients.
    effects: Vec<LeafEffect>,
    /// What has to be as it was.
    guards: Vec<Guard>,
    /// What a run reads and changes in Rust.
    host: HostEffects,
}

/// Records what a function does, without computing anything: it runs once, on symbolic tensors of these dtypes, shapes and devices, which
/// have no values, and what it asks of them becomes a [`Graph`]. A [`Program`] runs the graph.
///
/// - Tensors that the function did not get as arguments are *constants* of the graph, which refers to them; those that it writes in place
///   (parameters, a cache, running statistics) are *states*: each run finds them as the last one left them.
/// - Tensors that the function makes, also of numbers, are made in each run.
/// - `backward`, `grad` and steps that write in place are recorded as well. What the function does to the gradient of a leaf, each run does
///   to it; at capture the leaf keeps the one that it had. Where the function reads a gradient from before, or adds to its memory, a run has
///   to find it there.
/// - What the function changes in Rust (a list, a flag, `requires_grad_`, hooks) it changes at capture only, and what other threads do for
///   it is done then. States that it makes when it is called first have to exist before.
/// - Numbers that the function computes in Rust are constants. Random operations that draw from the process's generator draw anew in each
///   run, in the same order.
/// - Values do not exist yet: `item`, `to_vec` and what depends on them ([`Tensor::nonzero`]) are errors that name the caller's line.
///
/// ```
/// use rustorch_tensor::{DType, Tensor, TensorSpec, capture};
/// let weight = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
/// let program = capture(&[TensorSpec::new([1, 2], DType::F32)?], |x| Ok(vec![x[0].matmul(&weight)?.relu()?]))?;
/// assert_eq!(
///     program.graph().to_string(),
///     "graph(%0: f32[1, 2]) {
///   constant %1: f32[4]
///   %2: f32[1, 2] = matmul { activation: Some(Relu), numerics: F32, batch_invariant: false }(%0, %1 as f32[2, 2])
///   return %2
/// }
/// "
/// );
/// let y = program.run(&[&Tensor::new([[1.0f32, -1.0]])?])?;
/// assert_eq!(y[0].to_vec::<f32>()?, [0.0, 0.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// That of the function; and if it asks for values, writes to an argument, draws from a generator of its own, or runs while another
/// function is captured on this thread.
pub fn capture(inputs: &[TensorSpec], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Program> {
    capture_with(Pass::ALL, inputs, f)
}

/// As [`capture`], with only some of the [passes](Pass), in this order, over the graph: with none it is what the function did.
///
/// # Errors
/// As there.
pub fn capture_with(
    passes: &[Pass],
    inputs: &[TensorSpec],
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Program> {
    let executor = HybridExecutor::current();
    let inputs: Vec<(DType, Shape, Device)> =
        inputs.iter().map(|spec| (spec.dtype, spec.shape.clone(), spec.device)).collect();
    let (captured, (outputs, effects, guards, host)) = executor.capture(&inputs, |inputs| {
        let guards = GuardLog::begin()?;
        let host = HostLog::begin();
        let log = LeafLog::begin();
        let inputs: Vec<Tensor> = inputs.into_iter().map(Tensor::output).collect();
        let outputs = f(&inputs)?;
        let (grads, effects) = log.finish(outputs.len());
        let all = outputs.iter().chain(&grads).map(|x| Output {
            storage: x.storage().clone(),
            dtype: x.dtype(),
            layout: x.layout().clone(),
        });
        Ok((all.collect(), (outputs.len(), effects, guards.finish()?, host.finish())))
    })?;
    Ok(Program {
        program: rustorch_runtime::Program::new(&executor, captured, passes)?,
        outputs,
        effects,
        guards,
        host,
    })
}

/// Whether a function is being captured on this thread: operations are recorded, and tensors have no values.
pub fn is_capturing() -> bool {
    HybridExecutor::with_current(HybridExecutor::is_capturing)
}

/// Runs `f` outside the capture that runs on this thread, if one does: operations are run and not recorded. To the captured function, the tensors that it
/// makes are tensors from before.
pub fn outside_capture<R>(f: impl FnOnce() -> R) -> R {
    match is_capturing() {
        true => HybridExecutor::current().outside_capture().scope(f),
        false => f(),
    }
}

/// For functions that change numbers in Rust beside tensors, such as a count of steps: an error while a function is captured, since runs
/// of its graph would not change them.
///
/// # Errors
/// If a function is captured on this thread.
pub fn expect_eager(name: &'static str) -> Result<()> {
    if !is_capturing() {
        return Ok(());
    }
    let message = "counts in Rust, which runs of a captured function would not repeat; capture what goes before, and call it after each run";
    Err(Error::argument(name, message))
}

impl Program {
    /// A program of a graph, for which it need not be captured: `constants` and `states` are the tensors that the graph refers to, each with
    /// the dtype, shape and device of its value, the first elements of memory of its own. No [pass](Pass) runs over the graph.
    ///
    /// ```
    /// use rustorch_tensor::{DType, Program, Tensor, TensorSpec, capture};
    /// let weight = Tensor::new([2.0f32, 3.0])?;
    /// let program = capture(&[TensorSpec::new(2, DType::F32)?], |x| Ok(vec![x[0].mul(&weight)?]))?;
    /// let other = Program::from_parts(program.graph().clone(), vec![Tensor::new([4.0f32, 5.0])?], vec![])?;
    /// assert_eq!(other.run(&[&Tensor::new([1.0f32, 1.0])?])?[0].to_vec::<f32>()?, [4.0, 5.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If [`Graph::verify`] refuses the graph, a device that it names is not here, a tensor is another than the graph says or a view, two have the same memory, or a state
    /// cannot be written.
    pub fn from_parts(graph: Graph, constants: Vec<Tensor>, states: Vec<Tensor>) -> Result<Program> {
        // Before its values are looked up.
        graph.verify()?;
        let executor = HybridExecutor::current();
        let of_values = graph.values.iter().map(|value| value.device);
        let mut devices: Vec<Device> =
            of_values.chain(graph.nodes.iter().filter_map(|node| node.device)).collect();
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            executor.backend(device)?;
        }
        let firsts = graph.states.iter().map(|state| state.first);
        let storages = |role: &str, ids: Vec<ValueId>, tensors: Vec<Tensor>| {
            if ids.len() != tensors.len() {
                let message = format!("{} tensors were given for {} {role}s", tensors.len(), ids.len());
                return Err(Error::argument("program", message));
            }
            let of = |(i, (id, tensor)): (usize, (ValueId, Tensor))| {
                let value = &graph.values[id.index()];
                if (tensor.dtype(), tensor.shape()) != (value.dtype, &value.shape) {
                    let (dtype, shape) = (tensor.dtype(), tensor.shape());
                    let message = format!(
                        "the tensor of {role} {i} is {dtype}{shape}, and the graph's is {}{}",
                        value.dtype, value.shape
                    );
                    return Err(Error::argument("program", message));
                }
                tensor.expect_value("program")?;
                if tensor.layout().offset() != 0 || !tensor.layout().is_contiguous() {
                    let message = format!("the tensor of {role} {i} is a view; copy it");
                    return Err(Error::argument("program", message));
                }
                Ok(tensor.storage().clone())
            };
            ids.into_iter().zip(tensors).enumerate().map(of).collect::<Result<Vec<Storage>>>()
        };
        let constants = storages("constant", graph.constants(), constants)?;
        let states = storages("state", firsts.collect(), states)?;
        let outputs = graph.outputs.len();
        let captured = Captured { graph, constants, states };
        let program = rustorch_runtime::Program::new(&executor, captured, &[])?;
        Ok(Program {
            program,
            outputs,
            effects: Vec::new(),
            guards: Vec::new(),
            host: HostEffects::default(),
        })
    }

    /// The tensors that the graph refers to, in the order of [`Source::Constant`](rustorch_core::Source::Constant): whole memories, in one
    /// dimension.
    pub fn constants(&self) -> Vec<Tensor> {
        let tensors = self.graph().constants().into_iter().zip(self.program.constants());
        tensors.map(|(id, storage)| self.tensor(id, storage)).collect()
    }

    /// The tensors that runs change, in the order of [`Graph::states`], as [`constants`](Self::constants) gives the others.
    pub fn states(&self) -> Vec<Tensor> {
        let tensors = self.graph().states.iter().zip(self.program.states());
        tensors.map(|(state, storage)| self.tensor(state.first, storage)).collect()
    }

    fn tensor(&self, id: ValueId, storage: &Storage) -> Tensor {
        let value = &self.graph().values[id.index()];
        // The program has checked that the storage has so many elements of this dtype.
        Tensor::from_parts(storage.clone(), value.dtype, Layout::contiguous(value.shape.clone()))
    }

    /// Whether a run reads or changes numbers in Rust ([`HostState`]), which are no part of the graph.
    pub fn uses_host_state(&self) -> bool {
        !self.host.is_empty()
    }

    /// Whether a run changes gradients of tensors that require them, which are no part of the graph.
    pub fn changes_gradients(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Runs the captured function on tensors of the dtypes, shapes and devices that it was captured for. The results have no history, also
    /// where an argument requires a gradient.
    ///
    /// # Errors
    /// If the arguments are others (the error says which), one is a state of the graph, something that the function read in Rust or the
    /// gradients that it read have changed, a function is being captured, or an operation fails. States are then as they were, unless the
    /// error is [`Error::StatesWritten`], which says of a device's failure which ones the run had changed by then; gradients that the function
    /// replaces are gone.
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        if is_capturing() {
            let message = "runs by itself, not in a captured function; call there what it was captured from";
            return Err(Error::argument("program", message));
        }
        let _alone = self.host.begin();
        guard::check(&self.guards)?;
        let taken = self.graph().inputs.len() - self.host.operands();
        if inputs.len() != taken {
            let message = format!("{} inputs were given, it takes {taken}", inputs.len());
            return Err(Error::argument("program", message));
        }
        let numbers = self.host.read()?;
        let mut operands: SmallVec<[Operand<'_>; 4]> = SmallVec::new();
        operands.extend(inputs.iter().map(|x| x.operand()));
        operands.extend(numbers.iter().map(Tensor::operand));
        let outputs: SmallVec<[Tensor; 1]> = self.program.run_as(&operands, || {
            // As in eager execution, memory of gradients that are replaced is there for the run.
            self.effects.iter().for_each(leaf_log::forget_replaced);
            let draws = self.graph().draws.iter();
            draws.map(|draw| random::next_of_default(draw.blocks)).collect::<SmallVec<[_; 4]>>()
        })?;
        self.host.apply();
        let mut outputs = outputs.into_vec();
        for effect in &self.effects {
            leaf_log::apply(effect, &outputs)?;
        }
        outputs.truncate(self.outputs);
        Ok(outputs)
    }

    /// Whether what the function read in Rust is as it was: see [`guard()`].
    pub fn is_current(&self) -> bool {
        self.guards.iter().all(Guard::holds)
    }

    /// What the function does, as data.
    pub fn graph(&self) -> &Graph {
        self.program.graph()
    }

    /// Where each operation is expected to run as devices are now, why not elsewhere, and what is copied from one device to another. Runs
    /// nothing, but measures devices whose cost is not known yet.
    ///
    /// ```
    /// use rustorch_tensor::{DType, TensorSpec, capture};
    /// let program = capture(&[TensorSpec::new([4, 4], DType::F32)?], |x| Ok(vec![x[0].matmul(&x[0])?]))?;
    /// let explanation = program.explain()?;
    /// assert_eq!(explanation.nodes[0].op, "matmul");
    /// println!("{explanation}");
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a device of the graph is not here any more, or the environment asks for a fallback order that makes no sense.
    pub fn explain(&self) -> Result<ProgramExplanation> {
        self.program.explain()
    }

    /// The bytes of the memory in which a run on the CPU has its temporaries; `None` where it does not run there as a whole.
    pub fn arena_bytes(&self) -> Option<usize> {
        self.program.arena_bytes()
    }

    /// How many states a run changes in copies, which takes their memory and time: those that are written before an operation that may fail
    /// for its values (an index out of range, a condition).
    pub fn staged_states(&self) -> usize {
        self.program.staged_states()
    }

    /// Whether a device other than the CPU has [made a node ready](rustorch_core::Backend::prepare): a run only submits it.
    pub fn is_prepared(&self, node: usize) -> bool {
        self.program.is_prepared(node)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.fmt(f)
    }
}

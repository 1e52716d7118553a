//! Programs: captured graphs, made ready to run.

use super::by_executor::Replay;
use super::capture::Captured;
use super::copies::SharedCopies;
use super::on_cpu::CpuProgram;
use super::partition::{self, Partition, PartitionPlan, Parts, ProgramExplanation, ProgramOptions, settle};
use super::passes::Pass;
use super::regions::{CompiledPart, RegionReport, compile_all};
use crate::executor::{FromOutput, HybridExecutor, Operand, Output, OutputVec};
use crate::storage::Storage;
use rustorch_core::{CopyOp, Error, Graph, Op, PhiloxKey, Result, Source, ValueId};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::fmt;

/// A captured graph, made ready to run again and again: what can be found out from the graph alone is found out once.
///
/// Where everything is on the CPU, a run calls the kernels one after the other, on memory that was planned: no inference, planning,
/// dispatch or allocation of temporaries. Elsewhere each operation is dispatched as outside a graph, but for regions that a device compiles
/// ([`Compiler`](rustorch_core::Compiler)): these run as a whole, where [that pays](Program::plan). If its device fails at a region, the
/// region's operations run one by one on the next ones.
///
/// A run is one change of the states. If it fails for the values of its arguments (an index out of range, a singular matrix), they are
/// as they were. If a device is lost that alone had results of its regions, the run begins again without it, unless it has written to a state by
/// then. A run that fails behind such a write, or in it, is an [`Error::StatesWritten`], which names the states that it changed; after any other error they
/// are as they were.
pub struct Program {
    graph: Graph,
    constants: Vec<Storage>,
    states: Vec<Storage>,
    executor: HybridExecutor,
    on_cpu: Option<CpuProgram>,
    replay: Replay,
    plan: Option<PartitionPlan>,
    /// By input: whether some operation sees it by another dtype, as of complex numbers, so that it has to start with its storage.
    is_recast: Vec<bool>,
}

/// What a run is given.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) graph: &'a Graph,
    pub(super) executor: &'a HybridExecutor,
    pub(super) inputs: &'a [Operand<'a>],
    pub(super) constants: &'a [Storage],
    pub(super) states: &'a [Storage],
    /// For each draw of the graph, the key.
    pub(super) keys: &'a [PhiloxKey],
}

impl Program {
    /// A program that an executor runs, of the graph after these passes.
    ///
    /// # Errors
    /// If [`Graph::verify`] refuses the graph, or a tensor has not the size, dtype or device that the graph says.
    pub fn new(executor: &HybridExecutor, captured: Captured, passes: &[Pass]) -> Result<Program> {
        Program::with_options(executor, captured, passes, ProgramOptions::default())
    }

    /// As [`new`](Self::new), with options. If one of the executor's devices compiles regions, devices whose cost is not known yet are measured.
    ///
    /// # Errors
    /// As there; and if a region that a device is to compile is refused as a mistake.
    pub fn with_options(
        executor: &HybridExecutor,
        mut captured: Captured,
        passes: &[Pass],
        options: ProgramOptions,
    ) -> Result<Program> {
        captured.graph.verify()?;
        for pass in passes {
            pass.run(&mut captured, executor)?;
        }
        check_tensors(&captured)?;
        let on_cpu = CpuProgram::new(&captured.graph, executor);
        let partition = match on_cpu.is_some() && executor.runs_all_on_cpu() {
            true => None,
            false => partition::partition(&mut captured, executor, options)?,
        };
        let mut plan = None;
        let (replay, on_cpu) = match partition {
            Some(Partition { plan: found, regions, runs_on }) if !regions.is_empty() => {
                let plan = plan.insert(found);
                let executor = &executor.partitioned();
                let planned = regions.len();
                let regions = compile_all(plan, regions, executor, &captured)?;
                let sides: Vec<_> = regions.iter().map(CompiledPart::sides).collect();
                let mut runs_on = match regions.len() == planned {
                    true => runs_on,
                    false => settle(plan, &captured, executor, &sides)?,
                };
                // Where they run one by one is found out then.
                regions.iter().for_each(|region| runs_on[region.nodes.clone()].fill(None));
                let copies = SharedCopies::new(&captured.graph, runs_on);
                (Replay::new(&captured.graph, executor, regions, Some((executor.clone(), copies))), None)
            }
            partition => {
                plan = partition.map(|partition| partition.plan);
                (Replay::new(&captured.graph, executor, Vec::new(), None), on_cpu)
            }
        };
        let Captured { graph, constants, states } = captured;
        let mut is_recast = vec![false; graph.inputs.len()];
        for operand in graph.nodes.iter().flat_map(|node| &node.args).chain(&graph.outputs) {
            let value = &graph.values[operand.value.index()];
            if let Source::Input(i) = value.source {
                is_recast[i as usize] |= operand.dtype != value.dtype;
            }
        }
        Ok(Program { graph, constants, states, executor: executor.clone(), on_cpu, replay, plan, is_recast })
    }

    /// Which parts of the graph devices compiled, and why not the rest; `None` where no device compiles, or all is on the CPU and stays there.
    pub fn plan(&self) -> Option<&PartitionPlan> {
        self.plan.as_ref()
    }

    /// What became of the regions of the [plan](Self::plan) so far, in order.
    pub fn region_reports(&self) -> Vec<RegionReport> {
        self.replay.regions().iter().map(CompiledPart::report).collect()
    }

    /// Where each operation is expected to run as devices are now, and why not elsewhere; what is copied from one device to another; and of
    /// regions what was expected and what was measured. Runs nothing, but measures devices whose cost is not known yet.
    ///
    /// # Errors
    /// If a device of the graph is not here any more, or the environment asks for a fallback order that makes no sense.
    pub fn explain(&self) -> Result<ProgramExplanation> {
        let Program { graph, constants, states, .. } = self;
        let parts = Parts { graph, constants, states };
        let sides: Vec<_> = self.replay.regions().iter().map(CompiledPart::sides).collect();
        let executor = match sides.is_empty() {
            true => self.executor.clone(),
            false => self.executor.partitioned(),
        };
        partition::explain(parts, &executor, self.plan(), (&sides, self.region_reports()))
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The memory of each constant, in the order of the graph's.
    pub fn constants(&self) -> &[Storage] {
        &self.constants
    }

    /// The memory of each state.
    pub fn states(&self) -> &[Storage] {
        &self.states
    }

    /// The bytes of the memory in which a run on the CPU has its temporaries; `None` where it does not run there as a whole.
    pub fn arena_bytes(&self) -> Option<usize> {
        self.on_cpu.as_ref().map(CpuProgram::arena_bytes)
    }

    /// Whether a device other than the CPU has [made a node ready](rustorch_core::Backend::prepare): a run only submits it.
    pub fn is_prepared(&self, node: usize) -> bool {
        self.replay.is_prepared(node)
    }

    /// How many states a run changes in copies, since an operation behind may fail for its values.
    pub fn staged_states(&self) -> usize {
        self.replay.staged_states()
    }

    /// Runs it. `draw` is called when the inputs are known to fit, and gives a key of random numbers for each draw of the graph.
    ///
    /// # Errors
    /// If number, dtype, shape or device of the inputs is not the graph's, an input is one of the states, or an operation fails.
    pub fn run<K: AsRef<[PhiloxKey]>>(
        &self,
        inputs: &[Operand<'_>],
        draw: impl FnOnce() -> K,
    ) -> Result<OutputVec> {
        self.run_as(inputs, draw)
    }

    /// As [`run`](Self::run), with each output made into what the caller wants of it.
    ///
    /// # Errors
    /// As there.
    pub fn run_as<R: FromOutput, K: AsRef<[PhiloxKey]>>(
        &self,
        inputs: &[Operand<'_>],
        draw: impl FnOnce() -> K,
    ) -> Result<SmallVec<[R; 1]>> {
        self.check_inputs(inputs)?;
        let keys = draw();
        let keys = keys.as_ref();
        if keys.len() != self.graph.draws.len() {
            return Err(wrong(format!("{} keys for {} draws", keys.len(), self.graph.draws.len())));
        }
        let begins = |(input, is_recast): (&Operand<'_>, &bool)| {
            input.layout.is_contiguous() && !(*is_recast && input.layout.offset() != 0)
        };
        if inputs.iter().zip(&self.is_recast).all(begins) {
            return self.run_contiguous(inputs, keys);
        }
        let packed = inputs.iter().zip(&self.is_recast).map(|(input, is_recast)| {
            let copy = || Ok(self.executor.run(&Op::Copy(CopyOp), &[*input])?.remove(0));
            if begins((input, is_recast)) { Ok(None) } else { copy().map(Some) }
        });
        let packed = packed.collect::<Result<Vec<Option<Output>>>>()?;
        let inputs = inputs.iter().zip(&packed);
        let inputs = inputs.map(|(input, packed)| packed.as_ref().map_or(*input, Output::operand));
        self.run_contiguous(&inputs.collect::<Vec<Operand<'_>>>(), keys)
    }

    /// As [`run`](Self::run), on inputs whose elements are contiguous in their storages.
    fn run_contiguous<R: FromOutput>(
        &self,
        inputs: &[Operand<'_>],
        keys: &[PhiloxKey],
    ) -> Result<SmallVec<[R; 1]>> {
        let Program { graph, constants, states, executor, on_cpu, replay, .. } = self;
        let run = Run { graph, executor, inputs, constants, states, keys };
        match on_cpu {
            Some(program) if executor.runs_plainly_on_cpu() => program.run(&run),
            _ => Ok(replay.run(&run)?.into_iter().map(R::output).collect()),
        }
    }

    fn check_inputs(&self, inputs: &[Operand<'_>]) -> Result<()> {
        let wanted = &self.graph.inputs;
        if inputs.len() != wanted.len() {
            return Err(wrong(format!("{} inputs were given, it takes {}", inputs.len(), wanted.len())));
        }
        for (i, (input, id)) in inputs.iter().zip(wanted).enumerate() {
            let value = &self.graph.values[id.index()];
            if (input.dtype, input.layout.shape()) != (value.dtype, &value.shape) {
                return Err(wrong(format!(
                    "input {i} is {}{}, and was {}{} when the function was captured; capture it again for others",
                    input.dtype,
                    input.layout.shape(),
                    value.dtype,
                    value.shape
                )));
            }
            if input.device() != value.device {
                return Err(wrong(format!(
                    "input {i} is on {}, and was on {}",
                    input.device(),
                    value.device
                )));
            }
            input.check_for("program")?;
            if let Some(state) = self.states.iter().position(|state| state.same(input.storage)) {
                return Err(wrong(format!(
                    "input {i} has the memory of state {state}, which a run changes; copy it"
                )));
            }
        }
        Ok(())
    }
}

/// Whether the memory of constants and states is what the graph says.
fn check_tensors(captured: &Captured) -> Result<()> {
    let Captured { graph, constants, states } = captured;
    let firsts = graph.states.iter().map(|state| state.first);
    let wanted = [("constant", graph.constants(), constants), ("state", firsts.collect(), states)];
    for (role, values, storages) in wanted {
        if values.len() != storages.len() {
            return Err(wrong(format!("{} tensors for {} {role}s", storages.len(), values.len())));
        }
        for (i, (id, storage)) in values.iter().zip(storages).enumerate() {
            check_tensor(graph, *id, storage, role == "state")
                .map_err(|error| wrong(format!("the tensor of {role} {i}: {error}")))?;
        }
    }
    let mut seen = HashMap::new();
    for (i, storage) in constants.iter().chain(states).enumerate() {
        if let Some(first) = seen.insert(storage.identity(), i) {
            return Err(wrong(format!("tensors {first} and {i}, constants first, are the same memory")));
        }
    }
    Ok(())
}

/// Whether a constant's or state's memory is what the graph says of it.
fn check_tensor(graph: &Graph, id: ValueId, storage: &Storage, is_written: bool) -> Result<()> {
    let whole = graph.whole(id);
    let device = graph.values[id.index()].device;
    let operand = Operand { storage, dtype: whole.dtype, layout: &whole.layout };
    operand.check_for("program")?;
    if storage.device() != device {
        return Err(wrong(format!("it is on {}, and was on {device}", storage.device())));
    }
    if is_written { operand.check_destination("program") } else { Ok(()) }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("nodes", &self.graph.nodes.len())
            .field("arena_bytes", &self.arena_bytes())
            .finish_non_exhaustive()
    }
}

fn wrong(message: impl Into<String>) -> Error {
    Error::argument("program", message)
}

//! Programs whose values are all on the CPU: a list of kernels' calls on planned memory.

use super::guards::Guards;
use super::memory_plan::{MemoryPlan, Place};
use super::program::Run;
use super::state_writes;
use crate::executor::{FAST_PATH_ELEMENTS, FromOutput, HybridExecutor, Output};
use crate::storage::{FreshMemory, Storage};
use rustorch_core::{
    Buffer, Call, CopyOp, DType, Fault, Graph, GraphOperand, HOST_ALIGN, Layout, Node, Op, Overlap, Result,
    Source, View, ViewMut, packed_bytes,
};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Arenas that are kept for later runs: more are made where more threads run a program at once.
const MOST_SPARE: usize = 2;

/// What of a graph is needed to run it on the CPU.
pub(super) struct CpuProgram {
    steps: Vec<Step>,
    plan: MemoryPlan,
    /// The arena, and behind it room for results that overlap arguments of their own operation.
    arena_bytes: usize,
    /// Arenas that no run uses.
    spare: Mutex<Vec<FreshMemory>>,
}

/// A call of a kernel.
struct Step {
    op: Op,
    /// The draw whose key it takes.
    draw: Option<usize>,
    args: SmallVec<[Slot; 4]>,
    outs: SmallVec<[Slot; 1]>,
    /// How many elements there are, if the kernel for a few contiguous ones may compute them.
    packed: Option<usize>,
    /// How many steps, from this one on, are [matmuls of one left operand](group_matmuls), which run together.
    together: usize,
}

/// Elements of a place.
struct Slot {
    place: Place,
    dtype: DType,
    /// In the arena, counted from its start.
    layout: Layout,
    /// Whether a result of the same step overwrites it.
    is_aliased: bool,
}

impl CpuProgram {
    /// `None` if some value is elsewhere, or of a block type and a temporary: these have no place in an arena; or if temporaries are larger
    /// than any memory, so that the first one for which there is none is named when it is made.
    pub(super) fn new(graph: &Graph, executor: &HybridExecutor) -> Option<CpuProgram> {
        let is_placeable = |i: usize| {
            let value = &graph.values[i];
            value.device.is_cpu()
                && (!value.dtype.is_quant() || !matches!(value.source, Source::Result { .. }))
        };
        // A closure of the user's may ask for the value of a tensor that the run keeps everybody else from.
        if graph.nodes.iter().any(|node| matches!(node.op, Op::Custom(_))) {
            return None;
        }
        if !(0..graph.values.len()).all(is_placeable)
            || graph.nodes.iter().any(|node| node.device.is_some_and(|d| !d.is_cpu()))
        {
            return None;
        }
        let backend = &executor.cpu().backend;
        let plan = MemoryPlan::new(graph, &**backend)?;
        let mut compiler =
            Compiler { graph, plan: &plan, scratch: 0, overwrites: &|op| backend.overwrites(op) };
        let draws: HashMap<_, _> = graph.draws.iter().enumerate().map(|(i, draw)| (draw.key, i)).collect();
        let mut steps = Vec::with_capacity(graph.nodes.len());
        let whole = |i: usize| graph.whole(graph.states[i].first);
        let state_slot = |i: usize| {
            let GraphOperand { dtype, layout, .. } = whole(i);
            Slot { place: Place::State(i), dtype, layout, is_aliased: false }
        };
        for &i in &plan.staged {
            steps.push(Step::copy(state_slot(i), compiler.slot(&whole(i))?));
        }
        for node in &graph.nodes {
            let draw = node.op.philox_key().and_then(|key| draws.get(&key).copied());
            compiler.steps_of(node, draw, &mut steps)?;
        }
        for &i in &plan.staged {
            steps.push(Step::copy(compiler.slot(&whole(i))?, state_slot(i)));
        }
        group_matmuls(&mut steps);
        let arena_bytes = plan.arena.checked_add(compiler.scratch)?;
        Some(CpuProgram { steps, plan, arena_bytes, spare: Mutex::default() })
    }

    pub(super) fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }

    pub(super) fn run<R: FromOutput>(&self, run: &Run<'_>) -> Result<SmallVec<[R; 1]>> {
        let cpu = run.executor.cpu();
        let mut guards = Guards::default();
        guards.take(run);
        let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let arena = match self.arena_bytes {
            0 => None,
            bytes => Some(match spare().pop() {
                Some(arena) => arena,
                None => cpu.fresh(bytes, false)?,
            }),
        };
        // Lists of results of a few words are filled in place here and below: collecting them costs as much as a small kernel.
        let mut returned: SmallVec<[FreshMemory; 2]> = SmallVec::new();
        for id in &self.plan.returned {
            let value = &run.graph.values[id.index()];
            returned.push(cpu.fresh(value.bytes(), value.dtype == DType::Bool)?);
        }
        let memory = Memory { run, arena: arena.as_ref(), returned: &returned };
        let mut begun = 0;
        let mut result = Ok(());
        while let Some(step) = self.steps.get(begun).filter(|_| result.is_ok()) {
            let steps = &self.steps[begun..begun + step.together];
            begun += steps.len();
            // SAFETY: the guards keep others out, and the steps are this program's in order.
            result = unsafe {
                match steps {
                    [step] => memory.run(step),
                    steps => memory.run_together(steps),
                }
            };
        }
        if let Some(arena) = arena {
            let mut spare = spare();
            if spare.len() < MOST_SPARE {
                spare.push(arena);
            }
        }
        if let Err(fault) = result {
            let written = match &fault {
                // States that are written before the last operation that may fail so are staged.
                Fault::Invalid(_) => Vec::new(),
                _ => states_written_by(&self.steps[..begun]),
            };
            if written.is_empty() {
                guards.leave_unchanged();
            }
            return Err(state_writes::after(fault.into(), written));
        }
        let mut outputs = SmallVec::new();
        for output in &run.graph.outputs {
            let (storage, base) = match self.plan.places[output.value.index()] {
                Place::Input(i) => (run.inputs[i].storage, Some(i)),
                Place::Constant(i) => (&run.constants[i], None),
                Place::State(i) => (&run.states[i], None),
                // SAFETY: every value that is returned is the whole result of a node, which wrote every element.
                Place::Returned(i) => (unsafe { returned[i].as_init() }, None),
                // Only what a state is staged in, which was copied back.
                Place::Arena(_) => (self.staged_state(run, output), None),
            };
            let GraphOperand { dtype, layout, .. } = output;
            outputs.push(match base {
                None if layout.is_contiguous() && layout.offset() == 0 => {
                    R::packed(storage.clone(), *dtype, layout.shape())
                }
                None => R::output(Output { storage: storage.clone(), dtype: *dtype, layout: layout.clone() }),
                Some(i) => {
                    let layout = run.input_layout(i, layout)?;
                    R::output(Output { storage: storage.clone(), dtype: *dtype, layout })
                }
            });
        }
        Ok(outputs)
    }

    fn staged_state<'a>(&self, run: &Run<'a>, output: &GraphOperand) -> &'a Storage {
        let root = self.plan.roots[output.value.index()];
        let i = run.graph.states.iter().position(|state| state.first == root);
        &run.states[i.expect("what is returned from the arena is a state")]
    }
}

impl Step {
    fn new(op: Op, draw: Option<usize>, args: SmallVec<[Slot; 4]>, outs: SmallVec<[Slot; 1]>) -> Step {
        let packed = match (&args[..], &outs[..]) {
            ([first, ..], [out]) => {
                let n = out.layout.numel();
                let is_packed = |slot: &Slot| {
                    slot.layout.is_contiguous()
                        && slot.layout.shape() == out.layout.shape()
                        && !slot.is_aliased
                };
                let is_alike = |slot: &Slot| slot.dtype == first.dtype && slot.place != out.place;
                let fits = (1..=FAST_PATH_ELEMENTS).contains(&n)
                    && draw.is_none()
                    && op.elementwise_output(first.dtype, args.len()) == Some(out.dtype)
                    && args.iter().all(|slot| is_packed(slot) && is_alike(slot))
                    && is_packed(out);
                fits.then_some(n)
            }
            _ => None,
        };
        Step { op, draw, args, outs, packed, together: 1 }
    }

    fn copy(from: Slot, to: Slot) -> Step {
        Step {
            op: Op::Copy(CopyOp),
            draw: None,
            args: [from].into_iter().collect(),
            outs: [to].into_iter().collect(),
            packed: None,
            together: 1,
        }
    }
}

/// Makes steps of nodes.
struct Compiler<'a> {
    graph: &'a Graph,
    plan: &'a MemoryPlan,
    /// The bytes that the largest step needs behind the arena.
    scratch: usize,
    overwrites: &'a dyn Fn(&Op) -> bool,
}

impl Compiler<'_> {
    /// `None` if an element of the operand is not addressed from the arena's start.
    fn slot(&self, operand: &GraphOperand) -> Option<Slot> {
        let place = self.plan.places[operand.value.index()];
        let layout = match place {
            Place::Arena(at) => shifted(&operand.layout, at, operand.dtype)?,
            _ => operand.layout.clone(),
        };
        Some(Slot { place, dtype: operand.dtype, layout, is_aliased: false })
    }

    fn steps_of(&mut self, node: &Node, draw: Option<usize>, steps: &mut Vec<Step>) -> Option<()> {
        let mut args = node.args.iter().map(|arg| self.slot(arg)).collect::<Option<SmallVec<[Slot; 4]>>>()?;
        let mut outs: SmallVec<[Slot; 1]> = SmallVec::new();
        let mut copies = Vec::new();
        let mut scratch = 0;
        let into: SmallVec<[_; 1]> =
            node.results.iter().filter_map(|result| result.into.as_deref()).collect();
        let is_shared = |i: usize| {
            let root = |at: usize| self.plan.roots[into[at].value.index()];
            (0..into.len()).any(|other| other != i && root(other) == root(i))
        };
        for (i, result) in node.results.iter().enumerate() {
            let Some(to) = &result.into else {
                let out = self.slot(&self.graph.whole(result.value))?;
                for arg in args.iter_mut().filter(|arg| arg.place == out.place) {
                    arg.is_aliased = true;
                }
                outs.push(out);
                continue;
            };
            let to = self.slot(to)?;
            let meets = |arg: &Slot| match arg.place == to.place {
                false => Overlap::None,
                true if arg.dtype != to.dtype => Overlap::Partial,
                true => arg.layout.overlap(&to.layout),
            };
            let fits = |(j, arg): (usize, &Slot)| match meets(arg) {
                Overlap::None => true,
                Overlap::Exact => node.op.may_overwrite(j, i) && (self.overwrites)(&node.op),
                Overlap::Partial => false,
            };
            if !is_shared(i) && args.iter().enumerate().all(fits) {
                let aliased: SmallVec<[bool; 4]> =
                    args.iter().map(|arg| meets(arg) == Overlap::Exact).collect();
                for (arg, aliased) in args.iter_mut().zip(aliased) {
                    arg.is_aliased |= aliased;
                }
                outs.push(to);
                continue;
            }
            // Apart, and copied.
            let at = self.plan.arena.checked_add(scratch)?;
            let layout = Layout::contiguous(to.layout.shape().clone());
            let bytes = packed_bytes(to.dtype, layout.numel()).max(1).checked_next_multiple_of(HOST_ALIGN)?;
            scratch = scratch.checked_add(bytes)?;
            let layout = shifted(&layout, at, to.dtype)?;
            let slot = |layout| Slot { place: Place::Arena(at), dtype: to.dtype, layout, is_aliased: false };
            outs.push(slot(layout.clone()));
            copies.push(Step::copy(slot(layout), to));
        }
        self.scratch = self.scratch.max(scratch);
        steps.push(Step::new(node.op.clone(), draw, args, outs));
        steps.append(&mut copies);
        Some(())
    }
}

/// Finds runs of matmuls of one left operand with block-quantized weights, none of which reads or writes what another writes.
fn group_matmuls(steps: &mut [Step]) {
    let is_matmul = |step: &Step| {
        matches!(step.op, Op::MatMul(_))
            && matches!(step.args[1].dtype, DType::Quant(_))
            && !step.args.iter().any(|arg| arg.is_aliased)
    };
    let mut at = 0;
    while at < steps.len() {
        let mut end = at + 1;
        let first = &steps[at];
        let is_alike = |step: &Step| {
            let (left, other) = (&first.args[0], &step.args[0]);
            is_matmul(step) && left.layout == other.layout && left.place == other.place
        };
        if is_matmul(first) {
            while end < steps.len()
                && is_alike(&steps[end])
                && steps[at..end].iter().all(|before| are_apart(before, &steps[end]))
            {
                end += 1;
            }
        }
        steps[at].together = end - at;
        at = end;
    }
}

/// Whether neither of two steps reads or writes what the other writes.
fn are_apart(one: &Step, other: &Step) -> bool {
    let meet = |a: &Slot, b: &Slot| {
        let in_one = match (a.place, b.place) {
            (Place::Arena(_), Place::Arena(_)) => true,
            (a, b) => a == b,
        };
        in_one && (a.dtype != b.dtype || a.layout.overlap(&b.layout) != Overlap::None)
    };
    let writes_into = |one: &Step, other: &Step| {
        one.outs.iter().any(|out| other.args.iter().chain(&other.outs).any(|slot| meet(out, slot)))
    };
    !writes_into(one, other) && !writes_into(other, one)
}

/// The states that these steps write to where they are.
fn states_written_by(steps: &[Step]) -> Vec<usize> {
    let places = steps.iter().flat_map(|step| &step.outs).map(|slot| slot.place);
    let mut states: Vec<usize> = places
        .filter_map(|place| match place {
            Place::State(i) => Some(i),
            _ => None,
        })
        .collect();
    states.sort_unstable();
    states.dedup();
    states
}

/// A layout from a byte of the arena.
fn shifted(layout: &Layout, byte: usize, dtype: DType) -> Option<Layout> {
    let size = dtype.size().filter(|size| byte.is_multiple_of(*size))?;
    layout.clone().at_offset(byte / size + layout.offset()).ok()
}

/// The memory of a run.
struct Memory<'a> {
    run: &'a Run<'a>,
    /// None where nothing is in it.
    arena: Option<&'a FreshMemory>,
    returned: &'a [FreshMemory],
}

impl Memory<'_> {
    /// Where a slot's elements are, counted from the start of the buffer.
    fn buffer(&self, slot: &Slot) -> &Buffer {
        match slot.place {
            Place::Input(i) => self.run.inputs[i].storage.buffer(),
            Place::Constant(i) => self.run.constants[i].buffer(),
            Place::State(i) => self.run.states[i].buffer(),
            Place::Returned(i) => self.returned[i].buffer(),
            Place::Arena(_) => self.arena.expect("an arena in which something is has bytes").buffer(),
        }
    }

    /// # Safety
    /// Constants and inputs are guarded against writers and states against everybody, the memory is no other run's, and the steps
    /// before this one have run.
    unsafe fn run(&self, step: &Step) -> Result<(), Fault> {
        // SAFETY: this function's contract.
        if step.packed.is_some_and(|n| unsafe { self.run_packed(step, n) }) {
            return Ok(());
        }
        let moved = self.moved(step)?;
        // SAFETY: this function's contract.
        let (args, mut outs) = unsafe { (self.args(step, &moved), self.outs(step)) };
        let redrawn;
        let op = match step.draw {
            Some(draw) => {
                redrawn = step.op.with_philox_key(self.run.keys[draw]);
                &redrawn
            }
            None => &step.op,
        };
        // SAFETY: the graph was verified: the operation accepts the arguments and gives these results.
        unsafe { self.run.executor.cpu().backend.run(op, &args, &mut outs) }
    }

    /// Runs matmuls of one left operand.
    ///
    /// # Safety
    /// As of [`run`](Self::run); the steps are those of a [group](group_matmuls).
    unsafe fn run_together(&self, steps: &[Step]) -> Result<(), Fault> {
        let moved = steps.iter().map(|step| self.moved(step)).collect::<Result<SmallVec<[_; 3]>, _>>()?;
        let operands = steps.iter().zip(&moved).map(|(step, moved)| {
            // SAFETY: this function's contract.
            unsafe { (self.args(step, moved), self.outs(step)) }
        });
        let mut operands: SmallVec<[_; 3]> = operands.collect();
        let calls = steps.iter().zip(&mut operands);
        let calls = calls.map(|(step, (args, outs))| Call { op: &step.op, args, outs });
        let mut calls: SmallVec<[Call<'_, '_>; 3]> = calls.collect();
        // SAFETY: the graph was verified: the operations accept the arguments and give these results, and none of them meets another's.
        unsafe { self.run.executor.cpu().backend.run_together(&mut calls) }
    }

    /// The layouts of arguments that are inputs which do not start with their storage, and which arguments these are. Mostly there are none,
    /// and an empty `Vec` is returned without a copy of places for all.
    fn moved(&self, step: &Step) -> Result<Vec<(usize, Layout)>> {
        let mut moved = Vec::new();
        for (at, slot) in step.args.iter().enumerate() {
            if let Place::Input(i) = slot.place
                && self.run.inputs[i].layout.offset() != 0
            {
                moved.push((at, self.run.input_layout(i, &slot.layout)?));
            }
        }
        Ok(moved)
    }

    /// # Safety
    /// As of [`run`](Self::run), while the views live.
    #[inline]
    unsafe fn args<'a>(&'a self, step: &'a Step, moved: &'a [(usize, Layout)]) -> SmallVec<[View<'a>; 4]> {
        let mut args = SmallVec::new();
        for (at, slot) in step.args.iter().enumerate() {
            let moved = moved.iter().find(|(moved, _)| *moved == at);
            let (buffer, layout) = (self.buffer(slot), moved.map_or(&slot.layout, |(_, layout)| layout));
            // SAFETY: the graph was verified: the layout stays inside its value, which lies in the buffer as planned (or inside the
            // input's storage, which was checked), its elements were written by an earlier step or before, with booleans apart, and
            // nobody else writes. Where a result of this step does, the operation allows it.
            args.push(unsafe {
                match slot.is_aliased {
                    true => View::aliased(buffer, slot.dtype, layout),
                    false => View::new(buffer, slot.dtype, layout),
                }
            });
        }
        args
    }

    /// # Safety
    /// As of [`run`](Self::run), while the views live.
    #[inline]
    unsafe fn outs<'a>(&'a self, step: &'a Step) -> SmallVec<[ViewMut<'a>; 1]> {
        let outs = step.outs.iter().map(|slot| {
            // SAFETY: as for arguments; the plan gives memory to one value at a time, and destinations in states, which are exclusive, do
            // not reach an element twice.
            unsafe { ViewMut::from_shared(self.buffer(slot), slot.dtype, &slot.layout) }
        });
        outs.collect()
    }
}

impl Memory<'_> {
    /// Runs a step by the kernel for a few contiguous elements, if there is one.
    ///
    /// # Safety
    /// As of [`run`](Self::run), for a step of so many elements that may run so.
    unsafe fn run_packed(&self, step: &Step, n: usize) -> bool {
        let address = |slot: &Slot| {
            let start = match slot.place {
                Place::Input(i) => self.run.inputs[i].layout.offset(),
                _ => 0,
            };
            let byte = (start + slot.layout.offset()) * slot.dtype.size()?;
            // SAFETY: inside the buffer, as the first element is.
            Some(unsafe { self.buffer(slot).host_address()?.as_ptr().add(byte) })
        };
        let mut args: SmallVec<[*const u8; 4]> = SmallVec::new();
        for slot in &step.args {
            let Some(address) = address(slot) else { return false };
            args.push(address);
        }
        let Some(out) = address(&step.outs[0]) else { return false };
        let dtype = step.args[0].dtype;
        // SAFETY: the arguments are of one dtype, for which the operation has a result of that of the output, and of as many elements,
        // which overlap no other's; all are in host memory and aligned, as checked for inputs and planned for the rest.
        unsafe { self.run.executor.cpu().backend.run_packed(&step.op, dtype, &args, out, n) }
    }
}

impl Run<'_> {
    /// A layout in an input's storage, of one in the input's value.
    pub(super) fn input_layout(&self, i: usize, layout: &Layout) -> Result<Layout> {
        layout.clone().at_offset(self.inputs[i].layout.offset() + layout.offset())
    }
}

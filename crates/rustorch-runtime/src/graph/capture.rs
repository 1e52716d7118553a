//! Recording operations instead of running them.

use crate::device_state::DeviceState;
use crate::executor::{Operand, Output, OutputVec};
use crate::storage::{PassiveStorage, Storage, Symbol};
use rustorch_core::{
    CopyOp, DType, Device, Draw, Error, Graph, GraphOperand, Layout, Node, NodeResult, Op, OutputMeta,
    PhiloxKey, Result, Shape, Source, State, Value, ValueId,
};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// What an executor that captures writes to. It belongs to one thread, and ends once.
pub(crate) struct Capture {
    id: u64,
    thread: ThreadId,
    /// None once it has ended.
    recording: Mutex<Option<Recording>>,
}

/// A graph, and the tensors that it refers to.
#[derive(Debug)]
pub struct Captured {
    /// The graph.
    pub graph: Graph,
    /// The memory of each constant, in the order of the graph's.
    pub constants: Vec<Storage>,
    /// The memory of each state.
    pub states: Vec<Storage>,
}

#[derive(Default)]
struct Recording {
    graph: Graph,
    /// The present value of each storage, by slot.
    present: Vec<ValueId>,
    /// The slots of storages with memory, by identity.
    slots: HashMap<*const (), usize>,
    /// Storages with memory, which live for as long as their identities are known: the first value of each, and the memory. To the
    /// captured function nobody else holds them.
    known: Vec<(ValueId, PassiveStorage)>,
    /// The storages with memory of the writes so far, none of which has happened.
    noted_writes: Vec<PassiveStorage>,
    /// Those of them, by slot, that the captured function made of numbers: each run finds them as they were made.
    made: HashSet<usize>,
}

// SAFETY: identities are addresses that are only compared; nothing is reached by them.
unsafe impl Send for Recording {}

/// The seed of keys that stand for those that runs draw: any number that nobody takes for a seed.
const PLACEHOLDER: u64 = 0x9D3F_61A8_C5E0_7B24;

fn refused(op: &'static str, message: impl Into<String>) -> Error {
    Error::argument(op, message)
}

impl Capture {
    pub(crate) fn new() -> Capture {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        Capture { id, thread: thread::current().id(), recording: Mutex::new(Some(Recording::default())) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Recording>> {
        // Each change is whole but for a panic in the allocator.
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, op: &'static str, f: impl FnOnce(&mut Recording) -> Result<R>) -> Result<R> {
        if thread::current().id() != self.thread {
            return Err(refused(
                op,
                "runs by the executor of a capture on another thread; a capture belongs to its own",
            ));
        }
        match &mut *self.lock() {
            Some(recording) => f(recording),
            None => Err(refused(op, "runs by the executor of a capture that has ended")),
        }
    }

    /// Whether a storage stands for something in this capture.
    pub(crate) fn owns(&self, storage: &Storage) -> bool {
        storage.symbol().is_some_and(|symbol| symbol.capture == self.id)
    }

    /// The symbolic memory of a value.
    fn symbolic(
        &self,
        recording: &mut Recording,
        state: &Arc<DeviceState>,
        value: Value,
        origin: &'static str,
    ) -> (ValueId, Storage) {
        let (bytes, truth) = (value.bytes(), value.dtype == DType::Bool);
        let id = recording.graph.add_value(value);
        let slot = recording.present.len();
        recording.present.push(id);
        let symbol = Symbol { capture: self.id, slot, origin, state: Arc::clone(state) };
        (id, Storage::symbolic(symbol, bytes, truth))
    }

    /// A tensor that each run is given.
    pub(crate) fn input(&self, dtype: DType, shape: &Shape, state: &Arc<DeviceState>) -> Result<Storage> {
        self.with("capture", |recording| {
            dtype.bytes_for(shape.numel()).ok_or_else(|| {
                Error::shape("capture", format!("{dtype} values of this shape are no whole blocks"), [shape])
            })?;
            let source = Source::Input(recording.graph.inputs.len() as u32);
            let value = Value { source, dtype, shape: shape.clone(), device: state.device };
            let (id, storage) = self.symbolic(recording, state, value, "an input");
            recording.graph.inputs.push(id);
            Ok(storage)
        })
    }

    /// Records an operation; where it is not to write into destinations, the symbolic results.
    pub(crate) fn record(
        &self,
        op: &Op,
        args: &[Operand<'_>],
        outs: &[OutputMeta],
        destinations: Option<&[Operand<'_>]>,
        state: &Arc<DeviceState>,
        asked: Option<Device>,
    ) -> Result<OutputVec> {
        self.with(op.name(), |recording| {
            for to in destinations.into_iter().flatten() {
                recording.copy_if_made(to)?;
            }
            let mut operands = Vec::with_capacity(args.len());
            for arg in args {
                operands.push(recording.operand(arg)?);
            }
            let node = recording.graph.nodes.len() as u32;
            let mut results: SmallVec<[NodeResult; 1]> = SmallVec::new();
            let mut outputs = OutputVec::new();
            for (index, out) in (0u32..).zip(outs) {
                let source = Source::Result { node, index };
                match destinations.map(|destinations| &destinations[index as usize]) {
                    None => {
                        let value = Value {
                            source,
                            dtype: out.dtype,
                            shape: out.shape.clone(),
                            device: state.device,
                        };
                        let (value, storage) = self.symbolic(recording, state, value, op.name());
                        results.push(NodeResult { value, into: None });
                        let layout = Layout::contiguous(out.shape.clone());
                        outputs.push(Output { storage, dtype: out.dtype, layout });
                    }
                    Some(to) => results.push(recording.write(op, to, source)?),
                }
            }
            recording.graph.nodes.push(Node { op: op.clone(), args: operands, results, device: asked });
            Ok(outputs)
        })
    }

    /// Notes that the captured function made a tensor of numbers.
    pub(crate) fn note_made(&self, made: &Operand<'_>) -> Result<()> {
        self.with("upload", |recording| {
            let slot = recording.slot(made)?;
            recording.made.insert(slot);
            Ok(())
        })
    }

    /// Records a copy to a device.
    pub(crate) fn record_transfer(&self, source: &Operand<'_>, state: &Arc<DeviceState>) -> Result<Output> {
        let out = OutputMeta { dtype: source.dtype, shape: source.layout.shape().clone() };
        let copy = Op::Copy(CopyOp);
        let mut outputs = self.record(&copy, &[*source], &[out], None, state, Some(state.device))?;
        Ok(outputs.pop().expect("a copy has a result"))
    }

    /// A key for so many blocks that the captured function draws from the generator of random numbers.
    pub(crate) fn draw(&self, blocks: u64) -> Result<PhiloxKey> {
        self.with("random", |recording| {
            let draws = &mut recording.graph.draws;
            let drawn = draws.last().map_or(0, |last| last.key.offset.wrapping_add(last.blocks));
            let key = PhiloxKey { seed: PLACEHOLDER, offset: drawn };
            draws.push(Draw { key, blocks });
            Ok(key)
        })
    }

    /// # Errors
    /// If the captured function wrote to a storage: its elements, which are those from before the capture, must not be taken for what
    /// they will be.
    pub(crate) fn check_unwritten(&self, storage: &Storage, op: &'static str) -> Result<()> {
        self.with(op, |recording| {
            let Some(&slot) = recording.slots.get(&storage.identity()) else { return Ok(()) };
            let is_written = recording
                .known
                .iter()
                .any(|(first, known)| known.storage().same(storage) && *first != recording.present[slot]);
            match is_written {
                true => Err(refused(
                    op,
                    "is asked of a tensor that the captured function wrote to: its value is not computed",
                )),
                false => Ok(()),
            }
        })
    }

    /// Ends the capture: the graph of what was recorded, which returns these tensors.
    pub(crate) fn finish(&self, outputs: &[Operand<'_>]) -> Result<Captured> {
        self.with("capture", |recording| {
            for output in outputs {
                // Whoever gets it may write to it.
                recording.copy_if_made(output)?;
                let operand = recording.operand(output)?;
                recording.graph.outputs.push(operand);
            }
            Ok(())
        })?;
        let recording = self.lock().take();
        recording.map(Recording::finish).ok_or_else(|| refused("capture", "has ended already"))
    }

    /// Ends the capture, whatever became of it: its symbolic tensors are nobody's from now on.
    pub(crate) fn end(&self) {
        if let Some(recording) = self.lock().take() {
            recording.finish();
        }
    }
}

impl Recording {
    /// The slot of a storage, which is made one of the graph's if it is not.
    fn slot(&mut self, operand: &Operand<'_>) -> Result<usize> {
        if let Some(symbol) = operand.storage.symbol() {
            return Ok(symbol.slot);
        }
        let storage = operand.storage;
        if let Some(&slot) = self.slots.get(&storage.identity()) {
            return Ok(slot);
        }
        // Memory that was first seen as complex numbers may hold one real number more.
        let is_cut =
            operand.dtype.is_complex() && !storage.bytes().is_multiple_of(operand.dtype.block_bytes());
        let dtype = if is_cut { operand.dtype.to_real() } else { operand.dtype };
        let elements = storage.bytes() / dtype.block_bytes() * dtype.block_len();
        let shape = Shape::new([elements].as_slice())?;
        let source = Source::Constant(self.known.len() as u32);
        let id = self.graph.add_value(Value { source, dtype, shape, device: storage.device() });
        self.known.push((id, PassiveStorage::new(storage)));
        self.slots.insert(storage.identity(), self.present.len());
        self.present.push(id);
        Ok(self.present.len() - 1)
    }

    fn operand(&mut self, operand: &Operand<'_>) -> Result<GraphOperand> {
        let slot = self.slot(operand)?;
        Ok(GraphOperand { value: self.present[slot], dtype: operand.dtype, layout: operand.layout.clone() })
    }

    /// Before a tensor that the function made of numbers is written first: its place in the graph is taken by a copy, which each run makes.
    fn copy_if_made(&mut self, to: &Operand<'_>) -> Result<()> {
        let slot = self.slot(to)?;
        let value = self.present[slot];
        if !self.made.contains(&slot)
            || !matches!(self.graph.values[value.index()].source, Source::Constant(_))
        {
            return Ok(());
        }
        let source = Source::Result { node: self.graph.nodes.len() as u32, index: 0 };
        let copy = Value { source, ..self.graph.values[value.index()].clone() };
        let copy = self.graph.add_value(copy);
        let node = Node::new(Op::Copy(CopyOp), [self.graph.whole(value)], [copy]);
        self.graph.nodes.push(node);
        self.present[slot] = copy;
        Ok(())
    }

    /// A result that is written in place.
    fn write(&mut self, op: &Op, to: &Operand<'_>, source: Source) -> Result<NodeResult> {
        let slot = self.slot(to)?;
        let into = self.operand(to)?;
        let base = &self.graph.values[into.value.index()];
        if let Source::Input(i) = base.source {
            return Err(refused(
                op.name(),
                format!(
                    "would write to input {i} of the captured function; copy it, or let the function refer to the tensor"
                ),
            ));
        }
        let value = Value { source, ..base.clone() };
        let value = self.graph.add_value(value);
        self.present[slot] = value;
        to.storage.note_captured_write();
        if !to.storage.is_symbolic() {
            self.noted_writes.push(PassiveStorage::new(to.storage));
        }
        Ok(NodeResult { value, into: Some(Box::new(into)) })
    }

    /// The graph, with the constants that were written as states.
    fn finish(self) -> Captured {
        let Recording { mut graph, present, slots, known, made, noted_writes } = self;
        noted_writes.iter().for_each(|storage| storage.storage().forget_captured_write());
        let (mut constants, mut states) = (Vec::new(), Vec::new());
        for (first, storage) in known {
            let storage = storage.into_storage();
            let slot = slots[&storage.identity()];
            let last = present[slot];
            let value = &mut graph.values[first.index()];
            if last == first || made.contains(&slot) {
                value.source = Source::Constant(constants.len() as u32);
                constants.push(storage);
            } else {
                value.source = Source::State(states.len() as u32);
                graph.states.push(State { first, last });
                states.push(storage);
            }
        }
        Captured { graph, constants, states }
    }
}

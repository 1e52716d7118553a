//! Nodes that their device made ready when a program was made: planned once, on memory that stays from run to run.
//!
//! Nothing depends on it: where such a node fails, or the executor is to choose, record or check, the node is dispatched as outside a graph.

use super::memory_plan::is_returned;
use super::program::Run;
use crate::device_state::DeviceState;
use crate::executor::{HybridExecutor, Operand, ReadyOp, may_overwrite};
use crate::storage::Storage;
use rustorch_core::{
    DType, Device, Error, Fault, Graph, GraphOperand, Layout, Node, Overlap, PrepareRequest, Result, Source,
    TensorMeta, ValueId,
};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, PoisonError};

/// Sets of temporaries that are kept for later runs: more are made where more threads run a program at once.
const MOST_SPARE: usize = 2;

/// The bytes of inputs and outputs, other memory in each run, that what devices keep of a node may hold on to.
const MOST_MOVING: usize = 1 << 20;

/// The nodes of a program that devices made ready.
pub(super) struct PreparedNodes {
    devices: Vec<Arc<DeviceState>>,
    /// By node.
    nodes: Vec<Option<PreparedNode>>,
    /// The memory of temporaries, each for values that do not live at the same time.
    slots: Vec<Slot>,
    /// Memory that no run uses.
    spare: Mutex<Vec<Temporaries>>,
}

struct PreparedNode {
    /// Its index among the devices.
    device: usize,
    op: ReadyOp,
    /// By result.
    results: SmallVec<[Target; 1]>,
    /// Whether a result is written over an argument, after which a failure leaves nothing to compute from.
    overwrites: bool,
}

/// Where a result is written.
#[derive(Clone, Copy, PartialEq)]
enum Target {
    /// To the memory of an earlier value.
    Into,
    /// To a temporary's.
    Slot(usize),
    /// To memory that the run returns.
    Fresh,
}

#[derive(Clone, Copy, PartialEq)]
struct Slot {
    device: usize,
    bytes: usize,
    /// Whether it holds booleans.
    truth: bool,
}

/// A result, and the memory that it needs.
type Temporary = (usize, Slot);

/// The memory of the slots, made when it is first needed.
type Temporaries = Vec<Option<Storage>>;

/// What of it a run uses.
pub(super) struct PreparedRun<'a> {
    nodes: &'a PreparedNodes,
    /// By device: whether what was made ready there runs there now.
    is_usable: SmallVec<[bool; 2]>,
    temporaries: Temporaries,
}

impl PreparedNodes {
    /// `None` if no device makes any node ready. `freed` says of each node which memory is not used behind it.
    pub(super) fn new(
        graph: &Graph,
        executor: &HybridExecutor,
        roots: &[ValueId],
        freed: &[Vec<ValueId>],
    ) -> Option<PreparedNodes> {
        let mut made = PreparedNodes {
            devices: Vec::new(),
            nodes: Vec::with_capacity(graph.nodes.len()),
            slots: Vec::new(),
            spare: Mutex::default(),
        };
        let is_returned = is_returned(graph, roots);
        let mut free: Vec<usize> = Vec::new();
        let mut slot_of: Vec<Option<usize>> = vec![None; graph.values.len()];
        for (node, freed) in graph.nodes.iter().zip(freed) {
            let prepared = made.prepare(graph, executor, roots, node, &is_returned);
            let prepared = prepared.map(|(mut prepared, slots)| {
                for (i, slot) in slots {
                    let fits = |at: &usize| made.slots[*at] == slot;
                    let at = match free.iter().position(fits) {
                        Some(place) => free.swap_remove(place),
                        None => {
                            made.slots.push(slot);
                            made.slots.len() - 1
                        }
                    };
                    prepared.results[i] = Target::Slot(at);
                    slot_of[node.results[i].value.index()] = Some(at);
                }
                prepared
            });
            made.nodes.push(prepared);
            free.extend(freed.iter().filter_map(|id| slot_of[id.index()].take()));
        }
        made.nodes.iter().any(Option::is_some).then_some(made)
    }

    /// The node made ready, and which results are temporaries.
    fn prepare(
        &mut self,
        graph: &Graph,
        executor: &HybridExecutor,
        roots: &[ValueId],
        node: &Node,
        is_returned: &[bool],
    ) -> Option<(PreparedNode, SmallVec<[Temporary; 1]>)> {
        // What is drawn is in the parameters of launches.
        if node.op.philox_key().is_some() {
            return None;
        }
        let device_of = |id: ValueId| graph.values[id.index()].device;
        let mut homes = (node.args.iter().map(|arg| device_of(arg.value)))
            .chain(node.results.iter().map(|result| device_of(result.value)));
        let device = homes.next()?;
        if device.is_cpu()
            || homes.any(|home| home != device)
            || node.device.is_some_and(|home| home != device)
        {
            return None;
        }
        let (index, state) = self.device(executor, device)?;
        if !executor.runs_plainly_on(&state) {
            return None;
        }
        let targets: SmallVec<[(GraphOperand, bool); 1]> = (node.results.iter())
            .map(|result| match &result.into {
                Some(into) => ((**into).clone(), true),
                None => (graph.whole(result.value), false),
            })
            .collect();
        let root = |operand: &GraphOperand| roots[operand.value.index()];
        let mut aliased: SmallVec<[bool; 4]> = SmallVec::from_elem(false, node.args.len());
        for (i, (to, _)) in targets.iter().enumerate().filter(|(_, (_, is_into))| *is_into) {
            if targets.iter().enumerate().any(|(other, (at, _))| other != i && root(at) == root(to)) {
                return None;
            }
            for (j, arg) in node.args.iter().enumerate().filter(|(_, arg)| root(arg) == root(to)) {
                match arg.layout.overlap(&to.layout) {
                    _ if arg.dtype != to.dtype => return None,
                    // Windows onto one buffer, one of them to write: not every device's kernels may have these.
                    Overlap::None | Overlap::Partial => return None,
                    Overlap::Exact if may_overwrite(&state, &node.op, j, i) => aliased[j] = true,
                    Overlap::Exact => return None,
                }
            }
        }
        let args: SmallVec<[TensorMeta<'_>; 4]> = node.args.iter().map(|arg| meta(arg, device)).collect();
        let outs: SmallVec<[TensorMeta<'_>; 1]> = targets.iter().map(|(to, _)| meta(to, device)).collect();
        // What is kept of a launch keeps memory alive, of which little does no harm: it is mostly the same again.
        let moves = |id: ValueId| {
            let value = &graph.values[id.index()];
            (matches!(value.source, Source::Input(_)) || is_returned[id.index()])
                && value.bytes() > MOST_MOVING
        };
        let read = node.args.iter().map(|arg| arg.value);
        let stays = !read.chain(node.results.iter().map(|result| result.value)).any(moves);
        let fresh: SmallVec<[bool; 1]> = targets.iter().map(|(_, is_into)| !is_into).collect();
        let (aliased, outs, fresh) = (&aliased, &outs, &fresh);
        let request = PrepareRequest { op: &node.op, args: &args, aliased, outs, fresh, stays };
        let op = executor.make_ready(&state, &request)?;
        let mut slots = SmallVec::new();
        let results = (targets.iter().enumerate())
            .map(|(i, (to, is_into))| match (is_into, is_returned[to.value.index()]) {
                (true, _) => Target::Into,
                (false, true) => Target::Fresh,
                (false, false) => {
                    let value = &graph.values[to.value.index()];
                    let truth = value.dtype == DType::Bool;
                    slots.push((i, Slot { device: index, bytes: value.bytes(), truth }));
                    Target::Fresh
                }
            })
            .collect();
        let overwrites = aliased.contains(&true);
        Some((PreparedNode { device: index, op, results, overwrites }, slots))
    }

    fn device(&mut self, executor: &HybridExecutor, device: Device) -> Option<(usize, Arc<DeviceState>)> {
        if let Some(at) = self.devices.iter().position(|state| state.device == device) {
            return Some((at, Arc::clone(&self.devices[at])));
        }
        let state = executor.state(device).ok()?;
        self.devices.push(Arc::clone(&state));
        Some((self.devices.len() - 1, state))
    }

    pub(super) fn has(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(Option::is_some)
    }

    /// Begins a run.
    pub(super) fn begin(&self, run: &Run<'_>) -> PreparedRun<'_> {
        let is_usable = self.devices.iter().map(|state| run.executor.runs_plainly_on(state)).collect();
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let temporaries = spare.unwrap_or_else(|| vec![None; self.slots.len()]);
        PreparedRun { nodes: self, is_usable, temporaries }
    }
}

impl PreparedRun<'_> {
    /// Runs a node as it was made ready; `false` where it has to be dispatched.
    ///
    /// # Errors
    /// If an operation fails for the values of its arguments, or has begun to write over one of them.
    pub(super) fn step(
        &mut self,
        run: &Run<'_>,
        n: usize,
        roots: &[ValueId],
        memory: &mut [Option<Storage>],
    ) -> Result<bool> {
        let Some(prepared) = &self.nodes.nodes[n] else { return Ok(false) };
        if !self.is_usable[prepared.device] {
            return Ok(false);
        }
        let (node, state) = (&run.graph.nodes[n], &self.nodes.devices[prepared.device]);
        let begins = |arg: &GraphOperand| match run.graph.values[arg.value.index()].source {
            Source::Input(i) => run.inputs[i as usize].layout.offset() == 0,
            _ => true,
        };
        // Memory that another device has after all, or that is gone.
        let is_there = |storage: &Storage| storage.state().is_some_and(|home| Arc::ptr_eq(home, state));
        let mut fresh: SmallVec<[(usize, Storage, Layout); 1]> = SmallVec::new();
        for (i, target) in prepared.results.iter().enumerate() {
            let value = &run.graph.values[node.results[i].value.index()];
            let storage = match target {
                Target::Into => continue,
                Target::Slot(at) => self.temporary(*at),
                Target::Fresh => make(state, value.bytes(), value.dtype == DType::Bool),
            };
            let Ok(storage) = storage else { return Ok(false) };
            fresh.push((i, storage, Layout::contiguous(value.shape.clone())));
        }
        let result = {
            let operand = |operand: &'_ GraphOperand| memory[roots[operand.value.index()].index()].as_ref();
            let mut args: SmallVec<[Operand<'_>; 4]> = SmallVec::new();
            for arg in &node.args {
                match operand(arg) {
                    Some(storage) if begins(arg) && is_there(storage) => {
                        args.push(Operand { storage, dtype: arg.dtype, layout: &arg.layout });
                    }
                    _ => return Ok(false),
                }
            }
            let mut made = fresh.iter();
            let mut destinations: SmallVec<[Operand<'_>; 1]> = SmallVec::new();
            for result in &node.results {
                destinations.push(match &result.into {
                    Some(into) => match operand(into) {
                        Some(storage) if is_there(storage) => {
                            Operand { storage, dtype: into.dtype, layout: &into.layout }
                        }
                        _ => return Ok(false),
                    },
                    None => {
                        let value = &run.graph.values[result.value.index()];
                        let (_, storage, layout) =
                            made.next().expect("made for each result that has memory of its own");
                        Operand { storage, dtype: value.dtype, layout }
                    }
                });
            }
            // SAFETY: the device made the node ready for these dtypes and layouts, as inputs begin with their storages; the graph was
            // verified, tensors and inputs were checked against it, and temporaries are as large as their values. Results are in memory of
            // their own, but where an argument is aliased.
            unsafe { prepared.op.run(state, &args, &destinations) }
        };
        match result {
            Ok(()) => {
                for (i, storage, _) in fresh {
                    memory[node.results[i].value.index()] = Some(storage);
                }
                Ok(true)
            }
            Err(Fault::Invalid(error)) => Err(*error),
            Err(fault) if prepared.overwrites => {
                run.executor.warn_once(state, &node.op, &fault);
                Err(Error::from(fault))
            }
            // Dispatch falls back, and knows what to make of it; a device that is gone it passes by without a word.
            Err(fault) => {
                if matches!(fault, Fault::DeviceLost { .. }) {
                    run.executor.warn_once(state, &node.op, &fault);
                }
                tracing::debug!(op = node.op.name(), device = %state.device, %fault, "prepared operation failed");
                self.is_usable[prepared.device] = false;
                Ok(false)
            }
        }
    }

    fn temporary(&mut self, at: usize) -> Result<Storage, Fault> {
        let Slot { device, bytes, truth } = self.nodes.slots[at];
        let place = &mut self.temporaries[at];
        if let Some(storage) = place {
            return Ok(storage.clone());
        }
        let storage = make(&self.nodes.devices[device], bytes, truth)?;
        Ok(place.insert(storage).clone())
    }

    /// Ends a run, which has given up the memory of temporaries.
    pub(super) fn end(self) {
        let mut spare = self.nodes.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MOST_SPARE {
            spare.push(self.temporaries);
        }
    }
}

fn meta(operand: &GraphOperand, device: Device) -> TensorMeta<'_> {
    TensorMeta { dtype: operand.dtype, layout: &operand.layout, device }
}

/// Memory that a node writes before anything reads it.
fn make(state: &Arc<DeviceState>, bytes: usize, truth: bool) -> Result<Storage, Fault> {
    let memory = state.fresh(bytes, truth)?;
    // SAFETY: nobody sees it before the node that it is made for has written every element.
    Ok(unsafe { memory.assume_init() })
}

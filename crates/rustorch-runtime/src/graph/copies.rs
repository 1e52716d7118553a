//! Copies of values on other devices during a run: one for all nodes that read a value there.

use super::memory_plan::roots;
use super::partition::is_transfer;
use super::program::Run;
use crate::device_state::DeviceState;
use crate::executor::{Operand, Output};
use rustorch_core::{Graph, Node, Source, ValueId, bytes_reached};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes up to which all of a value is copied for nodes that read less than half of it.
const SMALL: usize = 1 << 20;

/// Which values are copied before nodes in no region.
pub(super) struct SharedCopies {
    /// By node: the device that is expected to run it; none of what is in a region.
    runs_on: Vec<Option<Arc<DeviceState>>>,
    /// The last node that reads a value on a device.
    last: HashMap<Key, usize>,
    roots: Vec<ValueId>,
}

/// A value, and the address of a device's state.
type Key = (ValueId, *const DeviceState);

// SAFETY: addresses are only compared; the states behind them are kept by `runs_on`.
unsafe impl Send for SharedCopies {}
// SAFETY: as above.
unsafe impl Sync for SharedCopies {}

/// The copies of a run, each with the last node that reads it.
#[derive(Default)]
pub(super) struct Copies(HashMap<Key, (Output, usize)>);

impl SharedCopies {
    /// Of a graph, given where its nodes are expected to run.
    pub(super) fn new(graph: &Graph, runs_on: Vec<Option<Arc<DeviceState>>>) -> SharedCopies {
        let mut last = HashMap::new();
        for ((n, node), state) in graph.nodes.iter().enumerate().zip(&runs_on) {
            if let Some(state) = state {
                last.extend(node.args.iter().map(|arg| ((arg.value, Arc::as_ptr(state)), n)));
            }
        }
        SharedCopies { runs_on, last, roots: roots(graph) }
    }

    /// The arguments of a node where the device that is expected to run it reads them, as far as others may read the copies as well.
    pub(super) fn replace<'a>(
        &self,
        run: &Run<'a>,
        (n, node): (usize, &'a Node),
        mut args: Vec<Operand<'a>>,
        copies: &'a mut Copies,
    ) -> Vec<Operand<'a>> {
        let Some(state) = self.runs_on[n].as_ref().filter(|state| !state.health.is_lost()) else {
            return args;
        };
        if is_transfer(node) {
            return args;
        }
        let into = || node.results.iter().filter_map(|result| result.into.as_deref());
        let is_shared = |i: usize| {
            let arg = &node.args[i];
            let value = &run.graph.values[arg.value.index()];
            let root = self.roots[arg.value.index()];
            let span = bytes_reached(arg.dtype, &arg.layout).unwrap_or(0);
            let is_much = value.bytes() <= SMALL || span >= value.bytes() / 2;
            is_much && into().all(|into| self.roots[into.value.index()] != root)
        };
        let shared: Vec<usize> = (0..args.len()).filter(|&i| is_shared(i)).collect();
        for &i in &shared {
            let id = node.args[i].value;
            let key = (id, Arc::as_ptr(state));
            if copies.0.contains_key(&key) {
                continue;
            }
            let mut whole = run.graph.whole(id);
            if let Source::Input(input) = run.graph.values[id.index()].source {
                match run.input_layout(input as usize, &whole.layout) {
                    Ok(layout) => whole.layout = layout,
                    Err(_) => continue,
                }
            }
            let source = Operand { storage: args[i].storage, dtype: whole.dtype, layout: &whole.layout };
            // What cannot be copied now the executor finds out as well, and what to do about it.
            if let Ok(Some(copy)) = run.executor.copy_for(&source, state) {
                let until = self.last.get(&key).copied().unwrap_or(n);
                copies.0.insert(key, (copy, until));
            }
        }
        let copies = &*copies;
        for i in shared {
            if let Some((copy, _)) = copies.0.get(&(node.args[i].value, Arc::as_ptr(state))) {
                args[i] = Operand {
                    storage: &copy.storage,
                    dtype: node.args[i].dtype,
                    layout: &node.args[i].layout,
                };
            }
        }
        args
    }
}

impl Copies {
    /// Gives back what none reads behind these nodes.
    pub(super) fn forget(&mut self, nodes: Range<usize>) {
        self.0.retain(|_, (_, until)| *until >= nodes.end);
    }
}

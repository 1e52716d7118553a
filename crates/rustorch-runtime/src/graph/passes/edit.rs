//! What passes share: who uses a value, and taking out nodes.

use super::super::capture::Captured;
use crate::executor::HybridExecutor;
use rustorch_core::{Graph, GraphOperand, Node, Source, ValueId};

/// Who uses the values of a graph.
pub(super) struct Uses {
    /// By value: the nodes that read it, one for each operand.
    readers: Vec<Vec<usize>>,
    /// By value: whether it is an output, a state, or written over.
    kept: Vec<bool>,
    /// By value: the node that writes over it.
    replaced: Vec<Option<usize>>,
}

impl Uses {
    pub(super) fn of(graph: &Graph) -> Uses {
        let n = graph.values.len();
        let mut uses = Uses { readers: vec![Vec::new(); n], kept: vec![false; n], replaced: vec![None; n] };
        for (i, node) in graph.nodes.iter().enumerate() {
            for arg in &node.args {
                uses.readers[arg.value.index()].push(i);
            }
            for result in &node.results {
                if let Some(into) = &result.into {
                    uses.replaced[into.value.index()] = Some(i);
                    uses.kept[into.value.index()] = true;
                    uses.kept[result.value.index()] = true;
                }
            }
        }
        for output in &graph.outputs {
            uses.kept[output.value.index()] = true;
        }
        for state in &graph.states {
            uses.kept[state.first.index()] = true;
            uses.kept[state.last.index()] = true;
        }
        uses
    }

    /// The nodes that read a value.
    pub(super) fn readers(&self, value: ValueId) -> &[usize] {
        &self.readers[value.index()]
    }

    /// Whether a value is needed for more than what nodes read.
    pub(super) fn is_kept(&self, value: ValueId) -> bool {
        self.kept[value.index()]
    }

    /// The node that alone reads a value, if nothing else needs it.
    pub(super) fn only_reader(&self, value: ValueId) -> Option<usize> {
        let readers = self.readers(value);
        let first = *readers.first()?;
        (!self.is_kept(value) && readers.iter().all(|&reader| reader == first)).then_some(first)
    }

    /// Whether a value is still there when a node reads its arguments.
    pub(super) fn lives_until(&self, value: ValueId, node: usize) -> bool {
        self.replaced[value.index()].is_none_or(|writer| writer >= node)
    }
}

/// Whether the device where a node's result is can compute it.
pub(super) fn is_supported(executor: &HybridExecutor, graph: &Graph, node: &Node) -> bool {
    let Some(result) = node.results.first() else { return false };
    let metas: Vec<_> = node.args.iter().map(|arg| graph.meta(arg)).collect();
    let state = executor.state(graph.values[result.value.index()].device);
    state.is_ok_and(|state| state.backend.supports(&node.op, &metas).is_ok())
}

/// Whether an operand is all of a value, in its order.
pub(super) fn is_whole(graph: &Graph, operand: &GraphOperand) -> bool {
    let value = &graph.values[operand.value.index()];
    let layout = &operand.layout;
    operand.dtype == value.dtype
        && layout.offset() == 0
        && layout.is_contiguous()
        && *layout.shape() == value.shape
}

/// Takes out nodes, and values and constants that nobody uses any more.
pub(super) fn take_out(captured: &mut Captured, is_dead: &[bool]) {
    let Captured { graph, constants, .. } = captured;
    let mut dead = is_dead.iter();
    graph.nodes.retain(|_| !dead.next().is_some_and(|dead| *dead));
    let mut is_used = vec![false; graph.values.len()];
    for node in &graph.nodes {
        let written = node.results.iter().flat_map(|result| {
            [Some(result.value), result.into.as_deref().map(|into| into.value)].into_iter().flatten()
        });
        node.args.iter().map(|arg| arg.value).chain(written).for_each(|id| is_used[id.index()] = true);
    }
    let states = graph.states.iter().flat_map(|state| [state.first, state.last]);
    let outputs = graph.outputs.iter().map(|output| output.value);
    for id in graph.inputs.iter().copied().chain(states).chain(outputs) {
        is_used[id.index()] = true;
    }
    // New numbers.
    let mut renamed = vec![ValueId(0); graph.values.len()];
    let mut next = 0;
    for (i, used) in is_used.iter().enumerate() {
        renamed[i] = ValueId(next);
        next += u32::from(*used);
    }
    let mut used = is_used.iter();
    graph.values.retain(|_| used.next().is_some_and(|used| *used));
    let mut left = Vec::new();
    for value in &mut graph.values {
        if let Source::Constant(i) = &mut value.source {
            left.push(constants[*i as usize].clone());
            *i = left.len() as u32 - 1;
        }
    }
    *constants = left;
    let rename = |id: &mut ValueId| *id = renamed[id.index()];
    for (n, node) in graph.nodes.iter_mut().enumerate() {
        node.args.iter_mut().for_each(|arg| rename(&mut arg.value));
        for (i, result) in node.results.iter_mut().enumerate() {
            rename(&mut result.value);
            if let Some(into) = &mut result.into {
                rename(&mut into.value);
            }
            graph.values[result.value.index()].source = Source::Result { node: n as u32, index: i as u32 };
        }
    }
    graph.inputs.iter_mut().for_each(rename);
    graph.outputs.iter_mut().for_each(|output| rename(&mut output.value));
    for state in &mut graph.states {
        rename(&mut state.first);
        rename(&mut state.last);
    }
}

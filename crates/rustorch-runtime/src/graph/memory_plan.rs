//! Which memory the values of a graph have: temporaries share one arena, each where no other one lives at the time.

use super::fallible::may_fail;
use crate::executor::FAST_PATH_ELEMENTS;
use rustorch_core::{Backend, Graph, GraphOperand, HOST_ALIGN, Node, Overlap, Source, ValueId};
use std::collections::BTreeMap;

/// The memory of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The input of this index.
    Input(usize),
    /// The constant.
    Constant(usize),
    /// The state.
    State(usize),
    /// Memory that a run returns: its index among such.
    Returned(usize),
    /// From this byte of the arena.
    Arena(usize),
}

/// Where the values of a graph are.
pub(super) struct MemoryPlan {
    /// By value.
    pub(super) places: Vec<Place>,
    /// The bytes of the arena.
    pub(super) arena: usize,
    /// The values whose memory a run returns: the first of each.
    pub(super) returned: Vec<ValueId>,
    /// States that a run changes in the arena, and copies back at its end.
    pub(super) staged: Vec<usize>,
    /// By value: the first value in its memory.
    pub(super) roots: Vec<ValueId>,
}

/// By value, the one that was in its memory first.
pub(super) fn roots(graph: &Graph) -> Vec<ValueId> {
    let mut roots: Vec<ValueId> = (0..graph.values.len() as u32).map(ValueId).collect();
    for node in &graph.nodes {
        for result in &node.results {
            if let Some(into) = &result.into {
                roots[result.value.index()] = roots[into.value.index()];
            }
        }
    }
    roots
}

/// By value that is first in its memory, the last node that reads or writes the memory.
pub(super) fn last_uses(graph: &Graph, roots: &[ValueId]) -> Vec<usize> {
    let mut last = vec![0; graph.values.len()];
    for (n, node) in graph.nodes.iter().enumerate() {
        let read = node.args.iter().map(|arg| arg.value);
        let written = node.results.iter().map(|result| result.value);
        for value in read.chain(written) {
            last[roots[value.index()].index()] = n;
        }
    }
    last
}

/// By value: whether a run returns the memory that it is the first in.
pub(super) fn is_returned(graph: &Graph, roots: &[ValueId]) -> Vec<bool> {
    let mut is_returned = vec![false; graph.values.len()];
    for output in &graph.outputs {
        is_returned[roots[output.value.index()].index()] = true;
    }
    is_returned
}

/// The states that must not be written where they are: of those written before an operation that may yet fail for its values, after
/// which every state has to be what it was.
pub(super) fn staged_states(graph: &Graph, roots: &[ValueId]) -> Vec<usize> {
    let Some(last_fallible) = graph.nodes.iter().rposition(|node| may_fail(graph, node)) else {
        return Vec::new();
    };
    let is_early = |first: ValueId| {
        graph.nodes[..last_fallible].iter().any(|node| {
            let mut written = node.results.iter().filter(|result| result.into.is_some());
            written.any(|result| roots[result.value.index()] == first)
        })
    };
    (0..graph.states.len()).filter(|&i| is_early(graph.states[i].first)).collect()
}

impl MemoryPlan {
    /// A plan for a device that computes in host memory. `None` if the arena were larger than any memory.
    pub(super) fn new(graph: &Graph, backend: &dyn Backend) -> Option<MemoryPlan> {
        let roots = roots(graph);
        let last = last_uses(graph, &roots);
        let staged = staged_states(graph, &roots);
        let mut arena = Arena::default();
        let mut returned = Vec::new();
        let mut places: Vec<Option<Place>> = Vec::with_capacity(graph.values.len());
        for value in &graph.values {
            places.push(match value.source {
                Source::Input(i) => Some(Place::Input(i as usize)),
                Source::Constant(i) => Some(Place::Constant(i as usize)),
                Source::State(i) if staged.contains(&(i as usize)) => {
                    Some(Place::Arena(arena.take(value.bytes())?))
                }
                Source::State(i) => Some(Place::State(i as usize)),
                Source::Result { .. } => None,
            });
        }
        for output in &graph.outputs {
            let root = roots[output.value.index()];
            let place = &mut places[root.index()];
            if place.is_none() {
                *place = Some(Place::Returned(returned.len()));
                returned.push(root);
            }
        }
        for (n, node) in graph.nodes.iter().enumerate() {
            // What an operation returns may have the memory of an argument that is not read again.
            let mut free: Vec<ValueId> = Vec::new();
            for arg in &node.args {
                let root = roots[arg.value.index()];
                let is_temporary = matches!(graph.values[root.index()].source, Source::Result { .. });
                if last[root.index()] == n && is_temporary && !free.contains(&root) {
                    free.push(root);
                }
            }
            let read = free.clone();
            for (i, result) in node.results.iter().enumerate() {
                let id = result.value;
                if result.into.is_some() || places[id.index()].is_some() {
                    continue;
                }
                let taken = overwritten(graph, backend, node, i, &roots, &free)
                    .filter(|root| matches!(places[root.index()], Some(Place::Arena(_))));
                places[id.index()] = match taken {
                    Some(root) => {
                        free.retain(|other| *other != root);
                        places[root.index()]
                    }
                    None => Some(Place::Arena(arena.take(graph.values[id.index()].bytes())?)),
                };
            }
            // Memory that was written to, and is not read again.
            let mut written: Vec<ValueId> = Vec::new();
            for into in node.results.iter().filter_map(|result| result.into.as_deref()) {
                let root = roots[into.value.index()];
                let is_temporary = matches!(graph.values[root.index()].source, Source::Result { .. });
                if last[root.index()] == n
                    && is_temporary
                    && !written.contains(&root)
                    && !read.contains(&root)
                {
                    written.push(root);
                }
            }
            free.append(&mut written);
            for root in free {
                if let Some(Place::Arena(at)) = places[root.index()] {
                    arena.give_back(at, graph.values[root.index()].bytes());
                }
            }
            // Results that nobody reads.
            for result in node.results.iter().filter(|result| result.into.is_none()) {
                if last[result.value.index()] == n
                    && let Some(Place::Arena(at)) = places[result.value.index()]
                {
                    arena.give_back(at, graph.values[result.value.index()].bytes());
                }
            }
        }
        let places = (0..graph.values.len())
            .map(|i| {
                places[i]
                    .or(places[roots[i].index()])
                    .expect("a node makes each value, as the graph was verified")
            })
            .collect();
        Some(MemoryPlan { places, arena: arena.end, returned, staged, roots })
    }
}

/// The argument whose memory a result may have: it has the result's dtype and shape, and each of its elements is read before the result's
/// is written.
fn overwritten(
    graph: &Graph,
    backend: &dyn Backend,
    node: &Node,
    out: usize,
    roots: &[ValueId],
    free: &[ValueId],
) -> Option<ValueId> {
    if !backend.overwrites(&node.op) {
        return None;
    }
    let value = &graph.values[node.results[out].value.index()];
    if value.shape.numel() <= FAST_PATH_ELEMENTS {
        // Kernels for a few elements do not overwrite.
        return None;
    }
    let root_of = |arg: &GraphOperand| roots[arg.value.index()];
    node.args.iter().enumerate().find_map(|(j, arg)| {
        let root = root_of(arg);
        let is_whole = arg.dtype == value.dtype
            && arg.layout.offset() == 0
            && arg.layout.is_contiguous()
            && *arg.layout.shape() == value.shape
            && graph.values[root.index()].bytes() == value.bytes();
        // Others that see the same memory read it in the same order.
        let is_alone = || {
            node.args.iter().enumerate().all(|(k, other)| {
                root_of(other) != root
                    || other.dtype == arg.dtype
                        && other.layout.overlap(&arg.layout) == Overlap::Exact
                        && node.op.may_overwrite(k, out)
            })
        };
        (free.contains(&root) && is_whole && node.op.may_overwrite(j, out) && is_alone()).then_some(root)
    })
}

/// Memory of which parts are taken and given back in the order of the operations.
#[derive(Default)]
struct Arena {
    /// Parts that nobody has: the first byte, and how many.
    free: BTreeMap<usize, usize>,
    /// The bytes that were ever taken.
    end: usize,
}

/// The most bytes that memory may have.
const MOST_BYTES: usize = isize::MAX as usize;

fn rounded(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(HOST_ALIGN)
}

impl Arena {
    /// The smallest free part that is large enough, else one behind all others; `None` where no memory reaches.
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let bytes = rounded(bytes);
        let found = self.free.iter().filter(|&(_, &len)| len >= bytes).min_by_key(|&(_, &len)| len);
        if let Some((&at, &len)) = found {
            self.free.remove(&at);
            if len > bytes {
                self.free.insert(at + bytes, len - bytes);
            }
            return Some(at);
        }
        // The last part may grow.
        let last = self.free.last_key_value().map(|(&at, &len)| (at, at + len));
        let grown = last.filter(|&(_, end)| end == self.end).map(|(at, _)| at);
        let at = grown.unwrap_or(self.end);
        let end = at.checked_add(bytes).filter(|&end| end <= MOST_BYTES)?;
        if grown.is_some() {
            self.free.remove(&at);
        }
        self.end = end;
        Some(at)
    }

    fn give_back(&mut self, mut at: usize, bytes: usize) {
        let mut bytes = rounded(bytes);
        if let Some((&before, &len)) = self.free.range(..at).next_back()
            && before + len == at
        {
            self.free.remove(&before);
            (at, bytes) = (before, bytes + len);
        }
        if let Some(len) = self.free.remove(&(at + bytes)) {
            bytes += len;
        }
        self.free.insert(at, bytes);
    }
}

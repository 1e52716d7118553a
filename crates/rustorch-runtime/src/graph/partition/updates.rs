//! Nodes of a part that write a range of a state in place, so that the range alone has to leave the part.

use super::dag::Dag;
use rustorch_core::{Graph, GraphOperand, Node, Op, Source, ValueId};
use std::collections::{HashMap, HashSet};

/// What a part updates. Numbers of nodes are those in the part.
pub(super) struct Updates {
    pub(super) states: Vec<StateUpdates>,
    /// By node: whether it is one of these.
    pub(super) is_update: Vec<bool>,
    /// The values made inside that these nodes read beside their state: they run again outside.
    pub(super) read_again: HashSet<ValueId>,
}

/// Nodes that update a state one after the other, and are all that writes to it in the part.
pub(super) struct StateUpdates {
    /// What the state holds before.
    pub(super) first: ValueId,
    pub(super) nodes: Vec<usize>,
}

/// The updates of a part: these nodes, in order, which write nothing but whole states in place.
pub(super) fn updates(graph: &Graph, dag: &Dag, nodes: &[u32]) -> Updates {
    let mut states: Vec<Option<StateUpdates>> = Vec::new();
    // By the last value of each so far.
    let mut state_of: HashMap<ValueId, usize> = HashMap::new();
    let mut made: HashSet<ValueId> = HashSet::new();
    for (number, &n) in nodes.iter().enumerate() {
        let node = &graph.nodes[n as usize];
        for into in node.results.iter().filter_map(|result| result.into.as_deref()) {
            let state = state_of.remove(&into.value);
            let is_first = state.is_none() && !made.contains(&into.value);
            if !is_update(graph, dag, node, into) {
                // All of the state is returned.
                state.into_iter().for_each(|state| states[state] = None);
                continue;
            }
            let at = match state {
                Some(at) => at,
                None if is_first => {
                    states.push(Some(StateUpdates { first: into.value, nodes: Vec::new() }));
                    states.len() - 1
                }
                None => continue,
            };
            if let Some(state) = &mut states[at] {
                state.nodes.push(number);
                state_of.insert(node.results[0].value, at);
            }
        }
        made.extend(node.results.iter().map(|result| result.value));
    }
    let states: Vec<StateUpdates> = states.into_iter().flatten().collect();
    let mut found = Updates { states, is_update: vec![false; nodes.len()], read_again: HashSet::new() };
    for number in found.states.iter().flat_map(|state| &state.nodes) {
        found.is_update[*number] = true;
        let others = graph.nodes[nodes[*number] as usize].args[1..].iter().map(|arg| arg.value);
        found.read_again.extend(others.filter(|id| made.contains(id)));
    }
    found
}

/// Whether a node updates all of a state by a range, and will find its other arguments as they were when it runs behind the part.
fn is_update(graph: &Graph, dag: &Dag, node: &Node, into: &GraphOperand) -> bool {
    let [state, others @ ..] = &node.args[..] else { return false };
    let stays = |arg: &GraphOperand| {
        let is_written = match graph.values[arg.value.index()].source {
            Source::State(_) => true,
            Source::Result { node, index } => {
                graph.nodes[node as usize].results[index as usize].into.is_some()
            }
            Source::Input(_) | Source::Constant(_) => false,
        };
        !is_written && !dag.is_overwritten(arg.value)
    };
    // An empty update leaves the state's version as it is.
    let is_some = others.iter().all(|arg| arg.layout.numel() > 0);
    matches!(node.op, Op::SliceUpdate(_)) && state == into && is_some && others.iter().all(stays)
}

//! Regions that keep the inputs which they update in states of Core ML.

use rustorch_core::{DType, Graph, Source, State, UpdatedInput, Value, ValueId};

/// Whether an input that is updated may be a state. Core ML's are `f16`.
pub(super) fn keeps(input: &Value) -> bool {
    input.dtype == DType::F16
}

/// A region, some of whose inputs are states.
pub(super) struct Resident {
    pub(super) graph: Graph,
    /// By input of the graph, then by state: the number of the region's input.
    pub(super) given: Vec<usize>,
    /// The region's inputs that are states, in order of the states.
    pub(super) kept: Vec<usize>,
}

impl Resident {
    /// The region with states for what it updates, if there is such a graph.
    pub(super) fn new(region: &Graph, updates: &[UpdatedInput]) -> Resident {
        let kept: Vec<&UpdatedInput> = (updates.iter())
            .filter(|update| keeps(&region.values[region.inputs[update.input].index()]))
            .collect();
        let graph = with_states(region, &kept);
        let (graph, kept) = match graph.verify() {
            Ok(()) => (graph, kept.iter().map(|update| update.input).collect()),
            Err(error) => {
                tracing::debug!("a region is given its states in each run: {error}");
                (region.clone(), Vec::new())
            }
        };
        let inputs = (0..region.inputs.len()).filter(|input| !kept.contains(input));
        let given = inputs.chain(kept.iter().copied()).collect();
        Resident { graph, given, kept }
    }
}

/// The region with states in place of these inputs, in which nodes write what they have made of them.
fn with_states(region: &Graph, kept: &[&UpdatedInput]) -> Graph {
    let mut graph = region.clone();
    for update in kept {
        let first = region.inputs[update.input];
        let shape = region.values[first.index()].shape.clone();
        let mut last = first;
        for &node in &update.nodes {
            let node = &mut graph.nodes[node];
            // All of the state, which it reads first.
            let into = Box::new(node.args[0].clone());
            let result = &mut node.results[0];
            result.into = Some(into);
            last = result.value;
            graph.values[last.index()].shape = shape.clone();
        }
        graph.values[first.index()].source = Source::State(graph.states.len() as u32);
        graph.states.push(State { first, last });
    }
    let is_state = |id: &ValueId| graph.states.iter().any(|state| state.first == *id);
    let inputs: Vec<ValueId> = region.inputs.iter().copied().filter(|id| !is_state(id)).collect();
    for (i, id) in (0u32..).zip(&inputs) {
        graph.values[id.index()].source = Source::Input(i);
    }
    graph.inputs = inputs;
    graph
}

//! A part of a graph as a graph of its own.

use super::dag::Dag;
use super::updates::{Updates, updates};
use rustorch_core::{
    Device, Graph, GraphOperand, Node, NodeResult, Shape, Source, UpdatedInput, Value, ValueId,
};
use smallvec::SmallVec;

/// A region as a graph, and which values of the whole graph its own are.
pub(in super::super) struct Extracted {
    pub(in super::super) graph: Graph,
    /// The values that its inputs are.
    pub(in super::super) inputs: Vec<ValueId>,
    /// Those that its constants are.
    pub(in super::super) constants: Vec<ValueId>,
    /// Those that its outputs are.
    pub(in super::super) outputs: Vec<ValueId>,
    /// The inputs of which it updates ranges, by numbers of its own nodes.
    pub(in super::super) updates: Vec<UpdatedInput>,
}

/// Makes graphs of parts of one graph.
pub(super) struct Extractor<'a> {
    graph: &'a Graph,
    dag: &'a Dag,
    /// By value of the whole graph: its number in the part, or `NONE`.
    numbers: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl<'a> Extractor<'a> {
    pub(super) fn new(graph: &'a Graph, dag: &'a Dag) -> Extractor<'a> {
        Extractor { graph, dag, numbers: vec![NONE; graph.values.len()] }
    }

    /// The graph of these nodes, which are in order and write nothing but whole states in place, for a device. There, what such a node writes is a value
    /// of its own, an output if it is what the state holds in the end; of a node that only [updates](UpdatedInput) the state, its other arguments are.
    pub(super) fn extract(
        &mut self,
        nodes: &[u32],
        is_inside: impl Fn(u32) -> bool,
        device: Device,
    ) -> Extracted {
        let mut part = Extracted {
            graph: Graph::default(),
            inputs: vec![],
            constants: vec![],
            outputs: vec![],
            updates: vec![],
        };
        let Updates { states, is_update, read_again } = updates(self.graph, self.dag, nodes);
        part.graph.nodes.reserve(nodes.len());
        let mut seen: Vec<ValueId> = Vec::new();
        for (number, &n) in (0u32..).zip(nodes) {
            let node = &self.graph.nodes[n as usize];
            let mut args: Vec<GraphOperand> = Vec::with_capacity(node.args.len());
            for arg in &node.args {
                if self.numbers[arg.value.index()] == NONE {
                    let source = match self.graph.values[arg.value.index()].source {
                        Source::Constant(_) => {
                            part.constants.push(arg.value);
                            Source::Constant(part.constants.len() as u32 - 1)
                        }
                        _ => {
                            part.inputs.push(arg.value);
                            Source::Input(part.inputs.len() as u32 - 1)
                        }
                    };
                    let id = self.add(&mut part.graph, arg.value, source, device, None);
                    if let Source::Input(_) = source {
                        part.graph.inputs.push(id);
                    }
                    seen.push(arg.value);
                }
                let value = ValueId(self.numbers[arg.value.index()]);
                args.push(GraphOperand { value, dtype: arg.dtype, layout: arg.layout.clone() });
            }
            let mut results: SmallVec<[NodeResult; 1]> = SmallVec::new();
            for (index, result) in (0u32..).zip(&node.results) {
                let source = Source::Result { node: number, index };
                // The elements of a state in the shape in which they are written: both are contiguous.
                let shape = result.into.as_deref().map(|into| into.layout.shape());
                let value = self.add(&mut part.graph, result.value, source, device, shape);
                seen.push(result.value);
                results.push(NodeResult { value, into: None });
                let is_read_outside = || {
                    self.dag.is_output(result.value)
                        || self.dag.readers(result.value).iter().any(|reader| !is_inside(*reader))
                };
                if read_again.contains(&result.value) || (!is_update[number as usize] && is_read_outside()) {
                    part.outputs.push(result.value);
                    let output = part.graph.whole(value);
                    part.graph.outputs.push(output);
                }
            }
            part.graph.nodes.push(Node { op: node.op.clone(), args, results, device: None });
        }
        for state in states {
            // Nothing inside makes what its first node reads.
            if let Some(input) = part.inputs.iter().position(|id| *id == state.first) {
                part.updates.push(UpdatedInput { input, nodes: state.nodes });
            }
        }
        seen.iter().for_each(|id| self.numbers[id.index()] = NONE);
        part
    }

    fn add(
        &mut self,
        part: &mut Graph,
        id: ValueId,
        source: Source,
        device: Device,
        shape: Option<&Shape>,
    ) -> ValueId {
        let mut value = Value { source, device, ..self.graph.values[id.index()].clone() };
        if let Some(shape) = shape {
            value.shape = shape.clone();
        }
        let added = part.add_value(value);
        self.numbers[id.index()] = added.0;
        added
    }
}

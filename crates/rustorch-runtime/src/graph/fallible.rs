//! Which operations of a graph may fail for the values of their arguments.

use rustorch_core::{Graph, GraphOperand, Node, Op, Source};

/// Whether a node may fail for the values of its arguments. Indices that the graph itself has found, as the experts of a router, are within what they
/// were found in.
pub(super) fn may_fail(graph: &Graph, node: &Node) -> bool {
    let dim = |arg: usize, axis: usize| node.args[arg].layout.dims().get(axis).copied();
    let (indices, len) = match &node.op {
        Op::MulMatId(_) => (2, dim(1, 0)),
        Op::Embedding(_) => (1, dim(0, 0)),
        Op::IndexSelect(op) => (1, dim(0, op.axis)),
        Op::Gather(op) => (1, dim(0, op.axis)),
        Op::Scatter(op) => (1, dim(0, op.axis)),
        op => return op.fails_on_values(),
    };
    found_in(graph, &node.args[indices]).zip(len).is_none_or(|(found, len)| found > len)
}

/// Of indices that another node has found, the length of the axis in which it found them: they are less.
fn found_in(graph: &Graph, indices: &GraphOperand) -> Option<usize> {
    let value = &graph.values[indices.value.index()];
    let Source::Result { node, index } = value.source else { return None };
    let node = &graph.nodes[node as usize];
    // Memory that was there before holds other elements, too.
    if node.results[index as usize].into.is_some() || indices.dtype != value.dtype {
        return None;
    }
    let x = &node.args.first()?.layout;
    match (&node.op, index) {
        (Op::TopK(op), 1) => x.dims().get(op.axis).copied(),
        (Op::Sort(op), 1) => x.dims().get(op.axis).copied(),
        _ => None,
    }
}

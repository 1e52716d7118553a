//! Matmuls of one left operand, one behind the other: a device rounds it once for all of their weights.

use super::super::capture::Captured;
use super::edit::take_out;
use rustorch_core::{DType, Graph, Node, Op, Source};

/// Moves matmuls with block-quantized weights up, to the first one of the same left operand. Each then reads what it read, since that was
/// there already and is there still when it is needed later.
pub(super) fn run(captured: &mut Captured) {
    let graph = &mut captured.graph;
    let mut order = Vec::with_capacity(graph.nodes.len());
    let mut is_placed = vec![false; graph.nodes.len()];
    for first in 0..graph.nodes.len() {
        if is_placed[first] {
            continue;
        }
        order.push(first);
        is_placed[first] = true;
        if !is_movable(graph, &graph.nodes[first]) {
            continue;
        }
        let left = &graph.nodes[first].args[0];
        for (n, node) in graph.nodes.iter().enumerate().skip(first + 1) {
            let fits = |node: &Node| {
                is_movable(graph, node)
                    && node.args[0] == *left
                    && node.device == graph.nodes[first].device
                    && node.args.iter().all(|arg| match graph.values[arg.value.index()].source {
                        Source::Result { node, .. } => (node as usize) < first,
                        _ => true,
                    })
            };
            if !is_placed[n] && fits(node) {
                order.push(n);
                is_placed[n] = true;
            }
        }
    }
    let mut nodes: Vec<Option<Node>> = std::mem::take(&mut graph.nodes).into_iter().map(Some).collect();
    graph.nodes = order.into_iter().filter_map(|n| nodes[n].take()).collect();
    take_out(captured, &[]);
}

/// Whether a node is a matmul with a block-quantized weight, whose result has memory of its own.
fn is_movable(graph: &Graph, node: &Node) -> bool {
    matches!(node.op, Op::MatMul(_))
        && matches!(graph.values[node.args[1].value.index()].dtype, DType::Quant(_))
        && node.results.iter().all(|result| result.into.is_none())
}

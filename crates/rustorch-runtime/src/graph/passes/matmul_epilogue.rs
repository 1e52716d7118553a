//! Bias and activation as parts of a matmul.

use super::super::capture::Captured;
use super::edit::{Uses, is_supported, is_whole, take_out};
use crate::executor::HybridExecutor;
use rustorch_core::{BinaryOp, DType, Graph, MatMul, Node, Op};

pub(super) fn run(captured: &mut Captured, executor: &HybridExecutor) {
    let graph = &mut captured.graph;
    let uses = Uses::of(graph);
    let mut is_dead = vec![false; graph.nodes.len()];
    for n in 0..graph.nodes.len() {
        let mut at = n;
        // The bias first, then the activation: each takes the place of the operation that it was.
        while let Some((next, node)) = absorbed(graph, &uses, at) {
            if !is_supported(executor, graph, &node) {
                break;
            }
            is_dead[at] = true;
            graph.nodes[next] = node;
            at = next;
        }
    }
    take_out(captured, &is_dead);
}

/// The node that alone reads a matmul's result, and the matmul that does what both do.
fn absorbed(graph: &Graph, uses: &Uses, n: usize) -> Option<(usize, Node)> {
    let node = &graph.nodes[n];
    let Op::MatMul(matmul) = &node.op else { return None };
    let [result] = &node.results[..] else { return None };
    let value = &graph.values[result.value.index()];
    // 16-bit results would be rounded once less.
    let is_exact = matches!(value.dtype, DType::F32 | DType::F64);
    if result.into.is_some() || matmul.activation.is_some() || !is_exact || node.device.is_some() {
        return None;
    }
    let next = uses.only_reader(result.value)?;
    let reader = &graph.nodes[next];
    let is_ours = |i: usize| reader.args[i].value == result.value && is_whole(graph, &reader.args[i]);
    let lives = node.args.iter().all(|arg| uses.lives_until(arg.value, next));
    let [out] = &reader.results[..] else { return None };
    if !lives || graph.values[out.value.index()].shape != value.shape && out.into.is_none() {
        return None;
    }
    let mut args = node.args.clone();
    let op = match &reader.op {
        Op::Binary(BinaryOp::Add) if node.args.len() == 2 && reader.args.len() == 2 => {
            let other = if is_ours(0) {
                1
            } else if is_ours(1) {
                0
            } else {
                return None;
            };
            let bias = &reader.args[other];
            let columns = value.shape.last()?;
            if bias.value == result.value || bias.layout.dims() != [*columns] || bias.dtype != value.dtype {
                return None;
            }
            args.push(bias.clone());
            matmul.clone()
        }
        Op::Unary(activation) if is_ours(0) && activation.output(value.dtype) == Some(value.dtype) => {
            MatMul { activation: Some(*activation), ..matmul.clone() }
        }
        _ => return None,
    };
    Some((next, Node { op: Op::MatMul(op), args, results: reader.results.clone(), device: reader.device }))
}

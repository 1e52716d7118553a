//! Sums and their RMS norms as one operation.

use super::super::capture::Captured;
use super::edit::{Uses, is_supported, is_whole, take_out};
use crate::executor::HybridExecutor;
use rustorch_core::{AddRmsNorm, BinaryOp, Graph, Node, Op, Source};

pub(super) fn run(captured: &mut Captured, executor: &HybridExecutor) {
    let graph = &mut captured.graph;
    let uses = Uses::of(graph);
    let mut is_dead = vec![false; graph.nodes.len()];
    for n in 0..graph.nodes.len() {
        if let Some((norm, node)) = joined(graph, &uses, &is_dead, n)
            && is_supported(executor, graph, &node)
        {
            // Where the sum is made: others may read it before the norm did.
            graph.nodes[n] = node;
            is_dead[norm] = true;
        }
    }
    take_out(captured, &is_dead);
}

/// The first norm of a sum, and the operation that makes both. What else the norm reads is there when the sum is made.
fn joined(graph: &Graph, uses: &Uses, is_dead: &[bool], n: usize) -> Option<(usize, Node)> {
    let add = &graph.nodes[n];
    let (Op::Binary(BinaryOp::Add), [result], [x, y]) = (&add.op, &add.results[..], &add.args[..]) else {
        return None;
    };
    let sum = &graph.values[result.value.index()];
    let is_alike = [x, y].iter().all(|arg| arg.dtype == sum.dtype && *arg.layout.shape() == sum.shape);
    if result.into.is_some() || add.device.is_some() || !is_alike {
        return None;
    }
    let reads_sum = |m: &usize| {
        let norm = &graph.nodes[*m];
        let is_norm = matches!(norm.op, Op::RmsNorm(_)) && norm.device.is_none() && !is_dead[*m];
        is_norm && norm.args[0].value == result.value && is_whole(graph, &norm.args[0])
    };
    let m = *uses.readers(result.value).iter().find(|m| reads_sum(m))?;
    let norm = &graph.nodes[m];
    let (Op::RmsNorm(op), [normed]) = (&norm.op, &norm.results[..]) else { return None };
    let is_there = |source: Source| match source {
        Source::Result { node, .. } => (node as usize) < n,
        _ => true,
    };
    let weight = norm.args.get(1);
    if normed.into.is_some()
        || weight.is_some_and(|weight| !is_there(graph.values[weight.value.index()].source))
    {
        return None;
    }
    let args = [x, y].into_iter().chain(weight).cloned().collect();
    let results = [result.clone(), normed.clone()].into_iter().collect();
    Some((m, Node { op: Op::AddRmsNorm(AddRmsNorm { eps: op.eps }), args, results, device: None }))
}

//! Merging equal operations on equal arguments.

use super::super::capture::Captured;
use super::edit::{Uses, take_out};
use rustorch_core::{GraphOperand, Op, ValueId};
use std::collections::HashMap;

pub(super) fn run(captured: &mut Captured) {
    let graph = &mut captured.graph;
    let uses = Uses::of(graph);
    let mut is_dead = vec![false; graph.nodes.len()];
    let mut same: Vec<ValueId> = (0..graph.values.len() as u32).map(ValueId).collect();
    // The nodes so far, by what is cheap to compare.
    let mut known: HashMap<(&'static str, Vec<ValueId>), Vec<usize>> = HashMap::new();
    for (n, is_dead) in is_dead.iter_mut().enumerate() {
        for i in 0..graph.nodes[n].args.len() {
            let arg = &mut graph.nodes[n].args[i];
            arg.value = same[arg.value.index()];
        }
        let node = &graph.nodes[n];
        // Memory of its own is what a copy is for; a custom op may do what it likes.
        let is_pure = !matches!(node.op, Op::Custom(_) | Op::Copy(_))
            && node.op.philox_key().is_none()
            && node.results.iter().all(|result| result.into.is_none() && !uses.is_kept(result.value));
        if !is_pure {
            continue;
        }
        let key = (node.op.name(), node.args.iter().map(|arg| arg.value).collect::<Vec<_>>());
        let earlier = known.entry(key).or_default();
        let is_equal = |&&other: &&usize| {
            let other = &graph.nodes[other];
            // Of floats in parameters, zeros of either sign are equal, but not the same; NaN is neither.
            other.device == node.device
                && other.args == node.args
                && other.op == node.op
                && format!("{:?}", other.op) == format!("{:?}", node.op)
        };
        match earlier.iter().find(is_equal) {
            Some(&other) => {
                *is_dead = true;
                for (result, first) in node.results.iter().zip(&graph.nodes[other].results) {
                    same[result.value.index()] = first.value;
                }
            }
            None => earlier.push(n),
        }
    }
    let renamed = |operand: &mut GraphOperand| operand.value = same[operand.value.index()];
    graph.outputs.iter_mut().for_each(renamed);
    take_out(captured, &is_dead);
}

//! An order in which the nodes of each region follow each other.

use super::dag::Dag;
use rustorch_core::{Graph, Source};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A node, or all nodes of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Node(usize),
    Region(usize),
}

/// The steps in an order that the graph allows: of those that may come next always the one with the earliest node. Regions are lists of
/// nodes in order; `region_of` gives the region of each node.
///
/// `None` if there is no such order, as of regions that are not convex.
pub(super) fn steps(dag: &Dag, region_of: &[Option<u32>], regions: &[Vec<u32>]) -> Option<Vec<Step>> {
    let nodes = region_of.len();
    // Steps by number: those of nodes first, of which some are never taken, then the regions.
    let step_of = |node: u32| match region_of[node as usize] {
        Some(region) => nodes + region as usize,
        None => node as usize,
    };
    let mut waits_for = vec![0u32; nodes + regions.len()];
    for node in 0..nodes {
        let step = step_of(node as u32);
        let others = dag.before(node).iter().filter(|before| step_of(**before) != step);
        waits_for[step] += others.count() as u32;
    }
    let first = |step: usize| if step < nodes { step as u32 } else { regions[step - nodes][0] };
    let is_taken = |step: usize| step >= nodes || region_of[step].is_none();
    let mut ready: BinaryHeap<Reverse<(u32, usize)>> = (0..nodes + regions.len())
        .filter(|step| is_taken(*step) && waits_for[*step] == 0)
        .map(|step| Reverse((first(step), step)))
        .collect();
    let mut order = Vec::with_capacity(nodes);
    let mut placed = 0;
    while let Some(Reverse((_, step))) = ready.pop() {
        let single = [step as u32];
        let members = if step < nodes { &single[..] } else { &regions[step - nodes][..] };
        placed += members.len();
        for after in members.iter().flat_map(|node| dag.after(*node as usize)) {
            let next = step_of(*after);
            if next != step {
                waits_for[next] -= 1;
                if waits_for[next] == 0 {
                    ready.push(Reverse((first(next), next)));
                }
            }
        }
        order.push(if step < nodes { Step::Node(step) } else { Step::Region(step - nodes) });
    }
    (placed == nodes).then_some(order)
}

/// Puts the nodes of a graph into the order of the steps.
pub(super) fn arrange(graph: &mut Graph, steps: &[Step], regions: &[Vec<u32>]) {
    let mut order: Vec<u32> = Vec::with_capacity(graph.nodes.len());
    for step in steps {
        match step {
            Step::Node(node) => order.push(*node as u32),
            Step::Region(region) => order.extend_from_slice(&regions[*region]),
        }
    }
    let mut numbers = vec![0; order.len()];
    for (new, old) in order.iter().enumerate() {
        numbers[*old as usize] = new as u32;
    }
    let mut nodes: Vec<_> = std::mem::take(&mut graph.nodes).into_iter().zip(&numbers).collect();
    nodes.sort_unstable_by_key(|(_, number)| **number);
    graph.nodes = nodes.into_iter().map(|(node, _)| node).collect();
    for value in &mut graph.values {
        if let Source::Result { node, .. } = &mut value.source {
            *node = numbers[*node as usize];
        }
    }
}

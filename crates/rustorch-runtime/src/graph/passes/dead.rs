//! Dropping operations whose results nobody reads.

use super::super::capture::Captured;
use super::edit::{Uses, take_out};

pub(super) fn run(captured: &mut Captured) {
    let graph = &captured.graph;
    let uses = Uses::of(graph);
    let mut is_dead = vec![false; graph.nodes.len()];
    // From the last: what only dead nodes read is dead as well.
    for (n, node) in graph.nodes.iter().enumerate().rev() {
        let is_needed = |id| uses.is_kept(id) || uses.readers(id).iter().any(|&reader| !is_dead[reader]);
        let may_go = !node.op.fails_on_values() && node.results.iter().all(|result| result.into.is_none());
        is_dead[n] = may_go && !node.results.iter().any(|result| is_needed(result.value));
    }
    take_out(captured, &is_dead);
}

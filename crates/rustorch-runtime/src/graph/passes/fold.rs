//! Computing what every run would compute again.

use super::super::capture::Captured;
use super::edit::{Uses, take_out};
use crate::executor::{HybridExecutor, Operand};
use crate::storage::Storage;
use rustorch_core::{Node, Op, Result, Source, ValueId};

/// The bytes that results may take in sum.
const MOST_BYTES: usize = 64 << 20;

pub(super) fn run(captured: &mut Captured, executor: &HybridExecutor) -> Result<()> {
    let uses = Uses::of(&captured.graph);
    let mut is_dead = vec![false; captured.graph.nodes.len()];
    // By value: the result that was computed, or a constant that only the graph has, so that nobody changes it.
    let own = |source: &Source| match *source {
        Source::Constant(i) => Some(&captured.constants[i as usize]).filter(|storage| storage.handles() == 1),
        _ => None,
    };
    // One that a run returns is somebody else's from then on.
    let known = captured
        .graph
        .values
        .iter()
        .enumerate()
        .map(|(i, value)| own(&value.source).filter(|_| !uses.is_kept(ValueId(i as u32))).cloned());
    let mut known: Vec<Option<Storage>> = known.collect();
    let mut bytes = 0;
    for (n, is_dead) in is_dead.iter_mut().enumerate() {
        let graph = &captured.graph;
        let node = &graph.nodes[n];
        let size: usize = node.results.iter().map(|result| graph.values[result.value.index()].bytes()).sum();
        if !is_foldable(node, &uses, &known) || bytes + size > MOST_BYTES {
            continue;
        }
        let args: Vec<Operand<'_>> = (node.args.iter())
            .filter_map(|arg| {
                let storage = known[arg.value.index()].as_ref()?;
                Some(Operand { storage, dtype: arg.dtype, layout: &arg.layout })
            })
            .collect();
        // Wherever it is computed, the result is where the graph says.
        let Some(first) = node.results.first() else { continue };
        let outputs = executor.run_on(graph.values[first.value.index()].device, &node.op, &args)?;
        let results: Vec<_> = node.results.iter().map(|result| result.value).collect();
        for (id, output) in results.into_iter().zip(outputs) {
            let value = &mut captured.graph.values[id.index()];
            value.source = Source::Constant(captured.constants.len() as u32);
            captured.constants.push(output.storage.clone());
            known[id.index()] = Some(output.storage);
        }
        bytes += size;
        *is_dead = true;
    }
    drop(known);
    take_out(captured, &is_dead);
    Ok(())
}

/// Whether a node computes the same in every run, and nobody could tell its results from a constant: they are neither returned nor
/// written.
fn is_foldable(node: &Node, uses: &Uses, known: &[Option<Storage>]) -> bool {
    node.op.philox_key().is_none()
        && !matches!(node.op, Op::Custom(_))
        && !node.op.fails_on_values()
        && node.args.iter().all(|arg| known[arg.value.index()].is_some())
        && node.results.iter().all(|result| result.into.is_none() && !uses.is_kept(result.value))
}

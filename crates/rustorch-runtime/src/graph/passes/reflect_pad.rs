//! Padding that repeats elements of a tensor as a concatenation of slices, for compilers that have no indexing.

use super::super::capture::Captured;
use super::edit::{Uses, take_out};
use crate::executor::{HybridExecutor, Operand};
use rustorch_core::{Concat, DType, DTypeKind, Graph, GraphOperand, Node, Op, Result, Source};

/// The slices that a concatenation may have: reflected elements are one each.
const MOST_SLICES: usize = 64;

/// The elements that an index may have.
const MOST_INDICES: usize = 1 << 20;

/// The graph with each `IndexSelect` by a constant index of few slices as a `Concat`, where `gains` says so of the graphs before and after and
/// the node; `None` if there is no such node. On the CPU results have the same bits: elements are copied either way.
pub(in super::super) fn rewritten(
    captured: &Captured,
    executor: &HybridExecutor,
    gains: impl Fn(&Graph, &Graph, usize) -> bool,
) -> Result<Option<Captured>> {
    let uses = Uses::of(&captured.graph);
    let mut graph: Option<Graph> = None;
    let mut is_changed = false;
    for (n, select) in captured.graph.nodes.iter().enumerate() {
        let Some(node) = concat(captured, executor, &uses, select)? else { continue };
        let changed = graph.get_or_insert_with(|| captured.graph.clone());
        changed.nodes[n] = node;
        match gains(&captured.graph, changed, n) {
            true => is_changed = true,
            false => changed.nodes[n] = select.clone(),
        }
    }
    let Some(graph) = graph.filter(|_| is_changed) else { return Ok(None) };
    let is_dead = vec![false; graph.nodes.len()];
    let (constants, states) = (captured.constants.clone(), captured.states.clone());
    let mut rewritten = Captured { graph, constants, states };
    // The indices, if nobody else reads them.
    take_out(&mut rewritten, &is_dead);
    if cfg!(debug_assertions) {
        rewritten.graph.verify()?;
    }
    Ok(Some(rewritten))
}

/// The concatenation that does what a node does.
fn concat(captured: &Captured, executor: &HybridExecutor, uses: &Uses, node: &Node) -> Result<Option<Node>> {
    let Op::IndexSelect(select) = &node.op else { return Ok(None) };
    let [x, index] = &node.args[..] else { return Ok(None) };
    // Blocks of quantized types cannot be cut along their rows, and what writes in place is in no region.
    if x.dtype.kind() == DTypeKind::Quant || node.results.iter().any(|result| result.into.is_some()) {
        return Ok(None);
    }
    let Some(&len) = x.layout.dims().get(select.axis) else { return Ok(None) };
    let Some(index) = indices(captured, executor, uses, index, len) else { return Ok(None) };
    let mut args: Vec<GraphOperand> = Vec::new();
    for (start, length) in slices(&index) {
        let layout = x.layout.slice(select.axis, start, length, 1)?;
        args.push(GraphOperand { layout, ..x.clone() });
    }
    if args.is_empty() || args.len() > MOST_SLICES {
        return Ok(None);
    }
    let op = Op::Concat(Concat { axis: select.axis });
    Ok(Some(Node { op, args, results: node.results.clone(), device: node.device }))
}

/// The elements of an index that nobody can change, if all of them are of a dimension of this length.
fn indices(
    captured: &Captured,
    executor: &HybridExecutor,
    uses: &Uses,
    index: &GraphOperand,
    len: usize,
) -> Option<Vec<usize>> {
    let Source::Constant(i) = captured.graph.values[index.value.index()].source else { return None };
    let storage = &captured.constants[i as usize];
    let is_ours = storage.handles() == 1 && !uses.is_kept(index.value);
    if !is_ours || index.layout.numel() > MOST_INDICES {
        return None;
    }
    let size = index.dtype.block_bytes();
    let mut bytes = vec![0; index.layout.numel() * size];
    // What cannot be read stays as it is.
    executor.download(&Operand { storage, dtype: index.dtype, layout: &index.layout }, &mut bytes).ok()?;
    let elements = bytes.chunks_exact(size).map(|bytes| {
        let element = match index.dtype {
            DType::I64 => i64::from_ne_bytes(bytes.try_into().ok()?),
            DType::I32 => i32::from_ne_bytes(bytes.try_into().ok()?).into(),
            _ => return None,
        };
        usize::try_from(element).ok().filter(|element| *element < len)
    });
    elements.collect()
}

/// Runs of indices, each one more than that before it: the first and how many.
fn slices(index: &[usize]) -> Vec<(usize, usize)> {
    let mut slices: Vec<(usize, usize)> = Vec::new();
    for &at in index {
        match slices.last_mut() {
            Some((start, length)) if *start + *length == at => *length += 1,
            _ => slices.push((at, 1)),
        }
    }
    slices
}

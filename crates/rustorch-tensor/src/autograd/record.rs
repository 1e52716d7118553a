//! Recording: what becomes of an operation whose arguments have a history.

use super::history::Edge;
use super::is_grad_enabled;
use super::node::{Inputs, Kind, Node, NodeRef};
use super::rule::{self, Gradient, Recording, Rule};
use super::saved::{Saves, Which};
use super::steps;
use crate::Tensor;
use rustorch_core::{Error, Op, Result, Scalar, ViewOp};
use smallvec::SmallVec;

/// The results of an operation.
pub type Results = SmallVec<[Tensor; 2]>;

/// Runs an operation on tensors and records it, as all methods of tensors do: for operations as data.
///
/// ```
/// use rustorch_core::{BinaryOp, Op};
/// use rustorch_tensor::{Tensor, autograd::apply};
/// let x = Tensor::new([1.0f32, 2.0])?;
/// x.requires_grad_(true)?;
/// let y = &apply(&Op::Binary(BinaryOp::Mul), &[&x, &x])?[0];
/// assert_eq!(y.to_string(), "tensor([1., 4.], grad_fn=<mul>)");
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If the arguments do not fit the operation, no device runs it, or it would lose a gradient.
pub fn apply(op: &Op, args: &[&Tensor]) -> Result<Results> {
    crate::dispatch::run_all(op, args)
}

/// Whether an argument has a history: one load for each.
#[inline(always)]
pub(crate) fn is_tracked(args: &[&Tensor]) -> bool {
    args.iter().any(|x| x.history().exists())
}

/// Whether an operation is recorded: this thread records, and an argument requires a gradient.
#[inline]
pub(crate) fn is_recorded(args: &[&Tensor]) -> bool {
    is_grad_enabled() && args.iter().any(|x| x.history().requires_grad())
}

/// A tensor as an argument. Its gradient goes where it came from, if one is wanted there.
#[inline(always)]
fn with_edge<'a>(x: &&'a Tensor) -> (&'a Tensor, Option<Edge>) {
    (x, x.history().edge_if_required())
}

/// Whether a result can have a gradient.
#[inline]
fn is_differentiable(result: &Tensor) -> bool {
    result.dtype().is_float() || result.dtype().is_complex()
}

/// How an operation of these arguments is recorded.
enum Recorded<'a> {
    /// Not at all.
    No,
    /// With this rule.
    By(&'a dyn Rule),
    /// As the operations that it stands for.
    Steps,
}

#[inline(always)]
fn recorded<'a>(op: &'a Op, args: &[&Tensor]) -> Result<Recorded<'a>> {
    if !is_recorded(args) {
        return Ok(Recorded::No);
    }
    let rule = rule::of(op);
    match rule.gradient(args) {
        Gradient::Exists => Ok(Recorded::By(rule)),
        Gradient::None => Ok(Recorded::No),
        Gradient::Refused(reason) => Err(refused(op.name(), reason, args)),
        Gradient::Steps => Ok(Recorded::Steps),
    }
}

/// Runs an operation and records it.
#[inline(never)]
pub(crate) fn run(op: &Op, args: &[&Tensor], execute: impl FnOnce() -> Result<Results>) -> Result<Results> {
    let rule = match recorded(op, args)? {
        Recorded::No => return execute(),
        Recorded::By(rule) => rule,
        Recorded::Steps => return steps::run(op, args),
    };
    let results = execute()?;
    attach(node(op, None, rule, args, &results)?, &results)?;
    Ok(results)
}

/// Runs an operation that has one result and records it. `scalar` is that of a binary operation of a tensor and a scalar.
#[inline]
pub(crate) fn run_one(
    op: &Op,
    scalar: Option<(Scalar, bool)>,
    args: &[&Tensor],
    execute: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    let rule = match recorded(op, args)? {
        Recorded::No => return execute(),
        Recorded::By(rule) => rule,
        Recorded::Steps => return steps::run(op, args).map(only),
    };
    let result = execute()?;
    let node = node(op, scalar, rule, args, std::slice::from_ref(&result))?;
    if is_differentiable(&result) {
        result.history().set_fresh(Edge { node, index: 0 });
    }
    Ok(result)
}

/// The result of an operation that has one.
#[inline]
pub(crate) fn only(mut results: Results) -> Tensor {
    results.pop().expect("every operation has a result")
}

/// The node of an operation as it ran, with what its rule saves.
#[inline]
fn node(
    op: &Op,
    scalar: Option<(Scalar, bool)>,
    rule: &dyn Rule,
    args: &[&Tensor],
    results: &[Tensor],
) -> Result<NodeRef> {
    let mut node = Node::of_op(op, scalar, args.iter().map(with_edge), results);
    let saves = rule.saves(&Recording { edges: &node.inputs, args, scalar });
    if !saves.is_empty() {
        Node::saved_of(&mut node).keep_all(&saves, args, results)?;
    }
    Ok(node)
}

/// Records that a tensor is a view of another.
#[inline(never)]
pub(crate) fn view(op: &ViewOp, x: &Tensor, view: Tensor) -> Result<Tensor> {
    if is_recorded(&[x]) {
        attach(
            Node::new(|| Kind::View(op.clone()), [with_edge(&x)], std::slice::from_ref(&view)),
            std::slice::from_ref(&view),
        )?;
    }
    Ok(view)
}

/// Records that a tensor is a copy of another on another device.
#[inline(never)]
pub(crate) fn transfer(x: &Tensor, copy: &Tensor) -> Result<()> {
    if !is_recorded(&[x]) {
        return Ok(());
    }
    let copy = std::slice::from_ref(copy);
    attach(Node::new(|| Kind::Transfer, [with_edge(&x)], copy), copy)
}

/// Gives those results of a new node that can have a gradient an edge to it.
#[inline]
pub(crate) fn attach(node: NodeRef, results: &[Tensor]) -> Result<()> {
    if let [result] = results {
        if is_differentiable(result) {
            result.history().set_fresh(Edge { node, index: 0 });
        }
        return Ok(());
    }
    for (index, result) in results.iter().enumerate().filter(|(_, result)| is_differentiable(result)) {
        if index >= Edge::MOST_RESULTS {
            return Err(Error::argument(
                "autograd",
                format!(
                    "{} has {} results, and at most {} can have gradients; detach its arguments",
                    node.name(),
                    results.len(),
                    Edge::MOST_RESULTS
                ),
            ));
        }
        result.history().set_fresh(Edge { node: node.clone(), index });
    }
    Ok(())
}

/// Runs an operation that writes its one result into a tensor, and records it: the tensor's history is then the operation's.
#[inline(never)]
#[cfg_attr(debug_assertions, track_caller)]
pub(crate) fn run_into(
    op: &Op,
    args: &[&Tensor],
    out: &Tensor,
    execute: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if !is_grad_enabled() || !is_differentiable(out) {
        return execute();
    }
    let target = out.history().edge_if_required();
    let inputs: Inputs = args.iter().map(|x| x.history().edge_if_required()).collect();
    let needed = inputs.iter().any(Option::is_some);
    if target.is_none() && !needed {
        return execute();
    }
    if let Some(edge) = &target
        && edge.node.as_leaf().is_some()
    {
        return Err(Error::argument(
            op.name(),
            format!(
                "would write in place to a leaf that requires a gradient, {}{}; write under no_grad, or use the form that returns a tensor",
                out.dtype(),
                out.shape()
            ),
        ));
    }
    let rule = rule::of(op);
    if needed && let Gradient::Refused(reason) = rule.gradient(args) {
        return Err(refused(op.name(), reason, args));
    }
    if needed && let Gradient::Steps = rule.gradient(args) {
        // Their last one writes.
        return out.copy_(&steps::run(op, args)?[0]);
    }
    // Passive handles are those of saved tensors, which notice by the version that their memory was written.
    let storage = out.storage();
    let seen_by = storage.handles().saturating_sub(storage.passive_handles());
    if seen_by != 1 {
        return Err(Error::argument(
            op.name(),
            format!(
                "would write in place, with a gradient, to memory that {seen_by} tensors share; use the form that returns a tensor \
                 (index_put, slice_scatter, index_copy, masked_fill, or the method without _)"
            ),
        ));
    }
    let none = matches!(rule.gradient(args), Gradient::None);
    let saves = match needed && !none {
        true => rule.saves(&Recording { edges: &inputs, args, scalar: None }),
        false => Saves::new(),
    };
    let known = if none { &[][..] } else { args };
    let mut node = Node::of_op(op, None, known.iter().copied().zip(inputs), std::slice::from_ref(out));
    // Arguments are kept as they are before the write, results as they are after it.
    let (before, after): (Saves, Saves) = saves.into_iter().partition(|which| matches!(which, Which::Arg(_)));
    Node::saved_of(&mut node).keep_all(&before, args, &[])?;
    execute()?;
    Node::saved_of(&mut node).keep_all(&after, args, std::slice::from_ref(out))?;
    out.history().replace(Edge { node, index: 0 });
    Ok(())
}

/// The error of an operation on the way to a leaf that has no gradient to hand on.
#[cold]
fn refused(op: &str, reason: &str, args: &[&Tensor]) -> Error {
    let edge = args.iter().find_map(|x| x.history().edge_if_required());
    let leaf = edge
        .map(|edge| super::graph::first_leaf(&edge.node))
        .map_or_else(String::new, |meta| format!(" to the leaf {}{}", meta.dtype, meta.shape));
    Error::argument(
        "autograd",
        format!(
            "{op} {reason}, and a gradient{leaf} would pass through it; detach its arguments, or run it under no_grad"
        ),
    )
}

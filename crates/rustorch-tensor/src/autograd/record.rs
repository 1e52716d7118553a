//! Recording: what becomes of an operation whose arguments have a history.

use super::history::Edge;
use super::is_grad_enabled;
use super::node::{Input, Kind, Meta, Node};
use super::rule::{self, Gradient, Recording};
use super::saved::{Saved, Saves, Which};
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

/// The arguments of a node.
pub(crate) type Inputs = SmallVec<[Input; 2]>;

/// Whether an argument has a history: one load for each.
#[inline(always)]
pub(crate) fn is_tracked(args: &[&Tensor]) -> bool {
    args.iter().any(|x| x.history().exists())
}

/// Arguments with edges to where they came from, if this thread records and one of them requires a gradient.
fn inputs(args: &[&Tensor]) -> Option<Inputs> {
    if !is_grad_enabled() {
        return None;
    }
    let inputs = edges(args);
    inputs.iter().any(|input| input.edge.is_some()).then_some(inputs)
}

fn edges(args: &[&Tensor]) -> Inputs {
    let mut inputs = Inputs::new();
    for x in args {
        let edge = x.history().edge().filter(|edge| edge.node.requires_grad());
        inputs.push(Input { meta: Meta::of(x), edge });
    }
    inputs
}

/// Runs an operation and records it. `scalar` is that of a binary operation of a tensor and a scalar.
#[inline(never)]
pub(crate) fn run(
    op: &Op,
    scalar: Option<(Scalar, bool)>,
    args: &[&Tensor],
    execute: impl FnOnce() -> Result<Results>,
) -> Result<Results> {
    let Some(inputs) = inputs(args) else { return execute() };
    let rule = rule::of(op);
    match rule.gradient(args) {
        Gradient::Exists => {}
        Gradient::None => return execute(),
        Gradient::Refused(reason) => return Err(refused(op.name(), reason, &inputs)),
        Gradient::Steps => return steps::run(op, args),
    }
    let results = execute()?;
    let saves = rule.saves(&Recording { inputs: &inputs, args, scalar });
    let saved = Saved::new(&saves, args, &results)?;
    attach(Kind::Op { op: op.clone(), scalar }, inputs, saved, &results)?;
    Ok(results)
}

/// Records that a tensor is a view of another.
#[inline(never)]
pub(crate) fn view(op: &ViewOp, x: &Tensor, view: Tensor) -> Result<Tensor> {
    if let Some(inputs) = inputs(&[x]) {
        attach(Kind::View(op.clone()), inputs, Saved::default(), std::slice::from_ref(&view))?;
    }
    Ok(view)
}

/// Records that a tensor is a copy of another on another device.
#[inline(never)]
pub(crate) fn transfer(x: &Tensor, copy: &Tensor) -> Result<()> {
    let Some(inputs) = inputs(&[x]) else { return Ok(()) };
    attach(Kind::Transfer, inputs, Saved::default(), std::slice::from_ref(copy))
}

/// Makes a node and gives those of its results that can have a gradient an edge to it.
pub(crate) fn attach(kind: Kind, inputs: Inputs, saved: Saved, results: &[Tensor]) -> Result<()> {
    let differentiable = |x: &Tensor| x.dtype().is_float() || x.dtype().is_complex();
    let outputs: SmallVec<[Meta; 1]> = results.iter().map(Meta::of).collect();
    let node = Node::new(kind, inputs, outputs, saved);
    for (index, result) in results.iter().enumerate().filter(|(_, result)| differentiable(result)) {
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
        result.history().set(Edge { node: node.clone(), index });
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
    let differentiable = out.dtype().is_float() || out.dtype().is_complex();
    if !is_grad_enabled() || !differentiable {
        return execute();
    }
    let target = out.history().edge().filter(|edge| edge.node.requires_grad());
    let inputs = edges(args);
    let needed = inputs.iter().any(|input| input.edge.is_some());
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
        return Err(refused(op.name(), reason, &inputs));
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
                 (slice_scatter, index_copy, masked_fill, or the method without _)"
            ),
        ));
    }
    let none = matches!(rule.gradient(args), Gradient::None);
    let saves = match needed && !none {
        true => rule.saves(&Recording { inputs: &inputs, args, scalar: None }),
        false => Saves::new(),
    };
    // Arguments are kept as they are before the write, results as they are after it.
    let mut saved = Saved::default();
    for &which in saves.iter().filter(|which| matches!(which, Which::Arg(_))) {
        saved.keep(which, args, &[])?;
    }
    execute()?;
    for &which in saves.iter().filter(|which| matches!(which, Which::Result(_))) {
        saved.keep(which, args, std::slice::from_ref(out))?;
    }
    let inputs = if none { Inputs::new() } else { inputs };
    let node = Node::new(
        Kind::Op { op: op.clone(), scalar: None },
        inputs,
        [Meta::of(out)].into_iter().collect(),
        saved,
    );
    out.history().set(Edge { node, index: 0 });
    Ok(())
}

/// The error of an operation on the way to a leaf that has no gradient to hand on.
#[cold]
fn refused(op: &str, reason: &str, inputs: &[Input]) -> Error {
    let edge = inputs.iter().find_map(|input| input.edge.clone());
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

//! What a captured function does to the gradients of leaves, which runs of the graph have to do as well.

use super::node::NodeRef;
use crate::Tensor;
use rustorch_core::{Error, Result};
use std::cell::RefCell;

/// How a function changes the gradient of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GradEffect {
    /// It is the graph's output of this index, whatever it was.
    Set(usize),
    /// The graph's output is added to it.
    Add(usize),
    /// There is none.
    Clear,
}

/// The leaf, and how a run changes its gradient.
pub(crate) type LeafEffect = (NodeRef, GradEffect);

/// A change of a leaf's gradient.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GradChange {
    /// Whatever it was, it is something else.
    Replace,
    /// Something is added to it, in its own memory.
    AddInPlace,
    /// Something is added to it, or it is the first: a tensor of its own.
    Add,
}

/// A leaf whose gradient the function has changed.
struct Touched {
    node: NodeRef,
    /// The gradient before it was first replaced. Of one that is added to in place nothing is held, since another handle would be in the
    /// way.
    before: Option<Tensor>,
    /// The first change.
    first: GradChange,
    /// Whether it was replaced.
    is_replaced: bool,
}

thread_local! {
    static LOG: RefCell<Option<Vec<Touched>>> = const { RefCell::new(None) };
}

/// Notes that the gradient of a leaf is about to change.
///
/// # Errors
/// If a captured function adds to a gradient from before, whose memory somebody else has as well: the sum would be another tensor, and
/// the next run would not find it.
pub(crate) fn touch(node: &NodeRef, grad: &Option<Tensor>, change: GradChange) -> Result<()> {
    LOG.with_borrow_mut(|log| {
        let Some(log) = log else { return Ok(()) };
        let replaces = change != GradChange::AddInPlace;
        if let Some(known) = log.iter_mut().find(|touched| touched.node.same(node)) {
            if replaces && !std::mem::replace(&mut known.is_replaced, true) {
                known.before = grad.clone();
            }
            return Ok(());
        }
        if change == GradChange::Add && grad.is_some() {
            return Err(Error::argument(
                "capture",
                "the captured function adds to a gradient that is also held elsewhere; call zero_grad in it, or drop the other handle",
            ));
        }
        let before = grad.clone().filter(|_| replaces);
        log.push(Touched { node: node.clone(), before, first: change, is_replaced: replaces });
        Ok(())
    })
}

/// While it lives, changes of leaves' gradients are noted; they are taken back when it is dropped.
pub(crate) struct LeafLog(());

impl LeafLog {
    pub(crate) fn begin() -> LeafLog {
        LOG.set(Some(Vec::new()));
        LeafLog(())
    }

    /// The changes so far: the gradients that the graph has to return, beginning with the output of this index, and what they do.
    pub(crate) fn finish(self, first_output: usize) -> (Vec<Tensor>, Vec<LeafEffect>) {
        let (mut grads, mut effects) = (Vec::new(), Vec::new());
        LOG.with_borrow(|log| {
            // One that was added to in place is a state of the graph.
            for Touched { node, before, first, .. } in
                log.iter().flatten().filter(|touched| touched.is_replaced)
            {
                let now = node.as_leaf().and_then(|leaf| leaf.grad().clone());
                let effect = match now {
                    Some(now) if before.as_ref().is_some_and(|before| now.is_same(before)) => continue,
                    Some(now) => {
                        let output = first_output + grads.len();
                        grads.push(now);
                        if *first == GradChange::Add {
                            GradEffect::Add(output)
                        } else {
                            GradEffect::Set(output)
                        }
                    }
                    None => GradEffect::Clear,
                };
                effects.push((node.clone(), effect));
            }
        });
        (grads, effects)
    }
}

impl Drop for LeafLog {
    fn drop(&mut self) {
        for Touched { node, before, is_replaced, .. } in LOG.take().into_iter().flatten() {
            if let Some(leaf) = node.as_leaf().filter(|_| is_replaced) {
                let now = std::mem::replace(&mut *leaf.grad(), before);
                drop(now);
            }
        }
    }
}

/// Drops the gradient that a run is going to replace.
pub(crate) fn forget_replaced((node, effect): &LeafEffect) {
    if let (Some(leaf), GradEffect::Set(_) | GradEffect::Clear) = (node.as_leaf(), effect) {
        drop(leaf.grad().take());
    }
}

/// Does to a leaf's gradient what the captured function did.
pub(crate) fn apply(effect: &LeafEffect, outputs: &[Tensor]) -> Result<()> {
    let (node, effect) = effect;
    let Some(leaf) = node.as_leaf() else { return Ok(()) };
    match *effect {
        GradEffect::Clear => drop(leaf.grad().take()),
        GradEffect::Set(i) => drop(leaf.grad().replace(outputs[i].clone())),
        GradEffect::Add(i) => {
            let place = &mut *leaf.grad();
            match place {
                Some(sum) => super::no_grad(|| sum.add_(&outputs[i]))?,
                None => *place = Some(outputs[i].clone()),
            }
        }
    }
    Ok(())
}

//! What a captured function does to the gradients of leaves, which runs of the graph have to do as well.

use super::node::NodeRef;
use crate::Tensor;
use crate::graph::guard::guard;
use rustorch_core::{Error, Result};
use rustorch_runtime::PassiveStorage;
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

/// A leaf whose gradient the function has read or changed.
struct Touched {
    node: NodeRef,
    /// The gradient before it was first replaced. Of one that is added to in place nothing is held, since another handle would be in the
    /// way.
    before: Option<Tensor>,
    /// Its memory when the function began.
    at_first: Option<PassiveStorage>,
    /// The first change; none if it was read first.
    first: Option<GradChange>,
    /// Whether there is another tensor in its place.
    is_replaced: bool,
    /// Whether the function has seen the gradient, or put another one in its place, after it was added to.
    is_used: bool,
}

impl Touched {
    /// Whether the graph is right only for the gradient that was there: it reads it, or adds to its memory.
    fn depends_on_first(&self) -> bool {
        match self.first {
            None | Some(GradChange::AddInPlace) => true,
            Some(GradChange::Add) => self.is_used,
            Some(GradChange::Replace) => false,
        }
    }
}

/// What a captured function has done to leaves.
#[derive(Default)]
struct Log {
    touched: Vec<Touched>,
    /// Leaves that it has made, which are nobody's outside.
    made: Vec<NodeRef>,
}

impl Log {
    /// The entry of a leaf, made now if there is none; none of a leaf that the function has made.
    fn entry(
        &mut self,
        node: &NodeRef,
        grad: &Option<Tensor>,
        first: Option<GradChange>,
    ) -> Option<(&mut Touched, bool)> {
        if self.made.iter().any(|made| made.same(node)) {
            return None;
        }
        if let Some(at) = self.touched.iter().position(|touched| touched.node.same(node)) {
            return Some((&mut self.touched[at], false));
        }
        let at_first = grad.as_ref().map(|grad| PassiveStorage::new(grad.storage()));
        self.touched.push(Touched {
            node: node.clone(),
            before: None,
            at_first,
            first,
            is_replaced: false,
            is_used: false,
        });
        self.touched.last_mut().map(|touched| (touched, true))
    }
}

thread_local! {
    static LOG: RefCell<Option<Log>> = const { RefCell::new(None) };
}

/// Notes that a leaf was made.
pub(crate) fn note_made(node: &NodeRef) {
    LOG.with_borrow_mut(|log| {
        if let Some(log) = log {
            log.made.push(node.clone());
        }
    });
}

/// Notes that the gradient of a leaf is read.
pub(crate) fn note_read(node: &NodeRef, grad: &Option<Tensor>) {
    LOG.with_borrow_mut(|log| {
        if let Some((touched, _)) = log.as_mut().and_then(|log| log.entry(node, grad, None)) {
            touched.is_used = true;
        }
    });
}

/// Notes that the gradient of a leaf is about to change.
///
/// # Errors
/// If a captured function adds to a gradient from before, whose memory somebody else has as well: the sum would be another tensor, and
/// the next run would not find it.
pub(crate) fn touch(node: &NodeRef, grad: &Option<Tensor>, change: GradChange) -> Result<()> {
    LOG.with_borrow_mut(|log| {
        let Some((touched, is_new)) = log.as_mut().and_then(|log| log.entry(node, grad, Some(change))) else {
            return Ok(());
        };
        if is_new && change == GradChange::Add && grad.is_some() {
            return Err(Error::argument(
                "capture",
                "the captured function adds to a gradient that is also held elsewhere (by a handle, or a program that adds to it); call zero_grad in it",
            ));
        }
        // To a sum of sums others would be added in another order.
        touched.is_used |= !is_new && (change == GradChange::Replace || touched.first == Some(GradChange::Add));
        if change != GradChange::AddInPlace && !std::mem::replace(&mut touched.is_replaced, true) {
            touched.before = grad.clone();
        }
        Ok(())
    })
}

/// While it lives, changes of leaves' gradients are noted; they are taken back when it is dropped.
pub(crate) struct LeafLog(());

impl LeafLog {
    pub(crate) fn begin() -> LeafLog {
        LOG.set(Some(Log::default()));
        LeafLog(())
    }

    /// The changes so far: the gradients that the graph has to return, beginning with the output of this index, and what they do. A run
    /// has to find the gradients that the graph reads or adds to where they were.
    pub(crate) fn finish(self, first_output: usize) -> (Vec<Tensor>, Vec<LeafEffect>) {
        let (mut grads, mut effects) = (Vec::new(), Vec::new());
        // Guards and gradients are looked at when nothing is noted any more.
        let touched = LOG.with_borrow_mut(|log| log.as_mut().map(|log| std::mem::take(&mut log.touched)));
        let touched = touched.unwrap_or_default();
        for leaf in &touched {
            let Touched { node, before, at_first, .. } = leaf;
            if leaf.depends_on_first() {
                let node = node.clone();
                let memory = at_first.as_ref().map(|storage| PassiveStorage::new(storage.storage()));
                guard("the gradient of a leaf, which the function reads or adds to,", move || {
                    let now = node.as_leaf().and_then(|leaf| leaf.grad().clone());
                    match (&now, &memory) {
                        (Some(now), Some(memory)) => now.storage().same(memory.storage()),
                        (now, memory) => now.is_none() && memory.is_none(),
                    }
                });
            }
            if !leaf.is_replaced {
                continue;
            }
            let now = node.as_leaf().and_then(|leaf| leaf.grad().clone());
            let effect = match now {
                Some(now) if before.as_ref().is_some_and(|before| now.is_same(before)) => continue,
                Some(now) => {
                    let output = first_output + grads.len();
                    grads.push(now);
                    let is_added = leaf.first == Some(GradChange::Add) && !leaf.is_used;
                    if is_added { GradEffect::Add(output) } else { GradEffect::Set(output) }
                }
                None => GradEffect::Clear,
            };
            effects.push((node.clone(), effect));
        }
        LOG.with_borrow_mut(|log| {
            if let Some(log) = log {
                log.touched = touched;
            }
        });
        (grads, effects)
    }
}

impl Drop for LeafLog {
    fn drop(&mut self) {
        let touched = LOG.take().map(|log| log.touched);
        for Touched { node, before, is_replaced, .. } in touched.into_iter().flatten() {
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
            let Some(sum) = place else {
                *place = Some(outputs[i].clone());
                return Ok(());
            };
            // As backward passes do: what somebody else holds stays what it was.
            if sum.is_only_handle() && sum.storage().handles() == 1 {
                super::no_grad(|| sum.add_(&outputs[i]))?;
            } else {
                *place = Some(super::no_grad(|| sum.add(&outputs[i]))?);
            }
        }
    }
    Ok(())
}

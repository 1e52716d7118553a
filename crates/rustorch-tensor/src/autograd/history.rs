//! The pointer from a tensor to the node that made it.

use super::node::{Node, NodeRef};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// A result of a node: where a gradient goes.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) node: NodeRef,
    /// Which of the node's results.
    pub(crate) index: usize,
}

impl Edge {
    /// A tensor's history is an edge in one word: nodes are aligned to 64 bytes, and of the bits below one says that it is not.
    pub(crate) const MOST_RESULTS: usize = 32;

    #[inline]
    fn pack(self) -> *mut Node {
        debug_assert!(self.index < Edge::MOST_RESULTS);
        let index = self.index << 1;
        self.node.into_raw().cast_mut().map_addr(|addr| addr | index)
    }

    /// # Safety
    /// The pointer came from [`pack`](Self::pack), and each of those is turned back once, others being forgotten.
    #[inline]
    unsafe fn unpack(packed: *mut Node) -> Edge {
        let index = (packed.addr() & BITS) >> 1;
        // SAFETY: the caller's promise, and the bits were none of the address.
        Edge { node: unsafe { NodeRef::from_raw(packed.map_addr(|addr| addr & !BITS)) }, index }
    }
}

const REWRITTEN: usize = 1;
const BITS: usize = align_of::<Node>() - 1;
const _: () = assert!(BITS == 2 * Edge::MOST_RESULTS - 1);

/// Where gradients go from a tensor: nowhere, or to a result of a node.
///
/// An edge stays where it is while the tensor lives, so that readers need neither a lock nor a count. Only writing in place replaces it:
/// then the pointer is to a [`Rewritten`] from there on, which keeps the first edge and has a lock for the last.
pub(crate) struct History(AtomicPtr<Node>);

/// The history of a tensor that was written in place.
struct Rewritten {
    /// The edge before the first write, packed, which readers may be looking at; null if there was none.
    first: *mut Node,
    last: Mutex<Edge>,
}

impl Rewritten {
    fn last(&self) -> Edge {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Rewritten {
    fn drop(&mut self) {
        if !self.first.is_null() {
            // SAFETY: a history's packed edge, which this took over.
            drop(unsafe { Edge::unpack(self.first) });
        }
    }
}

/// What a history's pointer is to.
enum State<'a> {
    None,
    /// A copy of the history's edge, which it owns.
    First(ManuallyDrop<Edge>),
    Rewritten(&'a Rewritten),
}

impl History {
    #[inline]
    pub(crate) fn none() -> History {
        History(AtomicPtr::new(ptr::null_mut()))
    }

    /// Whether there is an edge: one load.
    #[inline(always)]
    pub(crate) fn exists(&self) -> bool {
        !self.0.load(Ordering::Relaxed).is_null()
    }

    #[inline]
    fn state(&self) -> State<'_> {
        let seen = self.0.load(Ordering::Acquire);
        if seen.is_null() {
            State::None
        } else if seen.addr() & REWRITTEN == 0 {
            // SAFETY: packed by `set` or `set_fresh`, and owned by the history, or what it was replaced by, until the tensor is dropped.
            State::First(ManuallyDrop::new(unsafe { Edge::unpack(seen) }))
        } else {
            // SAFETY: made by `replace`, and owned by the history until the tensor is dropped.
            State::Rewritten(unsafe { &*seen.map_addr(|addr| addr & !REWRITTEN).cast() })
        }
    }

    /// The value of a function of the edge.
    #[inline]
    pub(crate) fn with_edge<R>(&self, f: impl FnOnce(&Edge) -> R) -> Option<R> {
        match self.state() {
            State::None => None,
            State::First(edge) => Some(f(&edge)),
            State::Rewritten(rewritten) => Some(f(&rewritten.last())),
        }
    }

    /// The edge.
    #[inline]
    pub(crate) fn edge(&self) -> Option<Edge> {
        self.with_edge(Edge::clone)
    }

    /// The edge, if a gradient is wanted there.
    #[inline]
    pub(crate) fn edge_if_required(&self) -> Option<Edge> {
        self.with_edge(|edge| edge.node.requires_grad().then(|| edge.clone())).flatten()
    }

    /// Whether there is an edge where a gradient is wanted.
    #[inline]
    pub(crate) fn requires_grad(&self) -> bool {
        self.with_edge(|edge| edge.node.requires_grad()).unwrap_or(false)
    }

    /// The edge of a tensor that has none and was just made: nobody else has a handle to it.
    #[inline]
    pub(crate) fn set_fresh(&self, edge: Edge) {
        debug_assert!(!self.exists());
        self.0.store(edge.pack(), Ordering::Release);
    }

    /// The edge of a tensor that has none; one that came meanwhile stays.
    pub(crate) fn set_first(&self, edge: Edge) {
        let packed = edge.pack();
        let none = ptr::null_mut();
        if self.0.compare_exchange(none, packed, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: packed above, and handed to nobody.
            drop(unsafe { Edge::unpack(packed) });
        }
    }

    /// Replaces the edge of a tensor that was written in place.
    pub(crate) fn replace(&self, mut edge: Edge) {
        loop {
            let seen = self.0.load(Ordering::Acquire);
            if seen.addr() & REWRITTEN != 0 {
                // SAFETY: as in `state`.
                let rewritten: &Rewritten = unsafe { &*seen.map_addr(|addr| addr & !REWRITTEN).cast() };
                let last = &mut *rewritten.last.lock().unwrap_or_else(PoisonError::into_inner);
                // Dropped after the lock: it may be the last handle to a graph.
                edge = std::mem::replace(last, edge);
                break;
            }
            let place = Box::into_raw(Box::new(Rewritten { first: seen, last: Mutex::new(edge) }));
            let new = place.cast::<Node>().map_addr(|addr| addr | REWRITTEN);
            if self.0.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
            // SAFETY: made above, and handed to nobody.
            let mut rewritten = unsafe { Box::from_raw(place) };
            // Still the history's.
            rewritten.first = ptr::null_mut();
            edge = rewritten.last();
        }
        drop(edge);
    }
}

impl Drop for History {
    #[inline]
    fn drop(&mut self) {
        let seen = *self.0.get_mut();
        if seen.is_null() {
            return;
        }
        // SAFETY: as in `state`; nobody looks at the history of a tensor that is dropped.
        unsafe {
            if seen.addr() & REWRITTEN == 0 {
                drop(Edge::unpack(seen));
            } else {
                drop(Box::from_raw(seen.map_addr(|addr| addr & !REWRITTEN).cast::<Rewritten>()));
            }
        }
    }
}

//! The pointer from a tensor to the node that made it.

use super::node::{Node, NodeRef};
use std::hint;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A result of a node: where a gradient goes.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) node: NodeRef,
    /// Which of the node's results.
    pub(crate) index: usize,
}

impl Edge {
    /// A tensor's history is an edge in one word: nodes are aligned to 64 bytes, and of the bits below one is the lock.
    pub(crate) const MOST_RESULTS: usize = 32;

    fn pack(self) -> *mut Node {
        debug_assert!(self.index < Edge::MOST_RESULTS);
        let index = self.index << 1;
        self.node.into_raw().cast_mut().map_addr(|addr| addr | index)
    }

    /// # Safety
    /// The pointer came from [`pack`](Self::pack), and each of those is turned back once.
    unsafe fn unpack(packed: *mut Node) -> Edge {
        let index = (packed.addr() & BITS) >> 1;
        // SAFETY: the caller's promise, and the bits were none of the address.
        Edge { node: unsafe { NodeRef::from_raw(packed.map_addr(|addr| addr & !BITS)) }, index }
    }
}

const LOCK: usize = 1;
const BITS: usize = align_of::<Node>() - 1;
const _: () = assert!(BITS == 2 * Edge::MOST_RESULTS - 1);

/// Where gradients go from a tensor: nowhere, or to a result of a node. Writing in place replaces it, so that a reader on another
/// thread must not be between reading the pointer and counting itself: its lowest bit keeps others out for that long.
pub(crate) struct History(AtomicPtr<Node>);

impl History {
    #[inline]
    pub(crate) fn none() -> History {
        History(AtomicPtr::new(ptr::null_mut()))
    }

    /// Whether there is a node: one load.
    #[inline(always)]
    pub(crate) fn exists(&self) -> bool {
        !self.0.load(Ordering::Relaxed).is_null()
    }

    /// The edge.
    #[inline]
    pub(crate) fn edge(&self) -> Option<Edge> {
        if !self.exists() {
            return None;
        }
        let packed = self.lock();
        // SAFETY: `set` packed it, and the copy that is unpacked here is given back below, uncounted.
        let edge = (!packed.is_null()).then(|| unsafe { Edge::unpack(packed) });
        let copy = edge.clone();
        std::mem::forget(edge);
        self.0.store(packed, Ordering::Release);
        copy
    }

    /// Replaces the edge.
    pub(crate) fn set(&self, edge: Edge) {
        let packed = edge.pack();
        let before = self.lock();
        self.0.store(packed, Ordering::Release);
        if !before.is_null() {
            // SAFETY: `set` packed it, and nothing leads to it any more.
            drop(unsafe { Edge::unpack(before) });
        }
    }

    /// Takes the lock and returns the pointer without it.
    #[inline]
    fn lock(&self) -> *mut Node {
        let mut seen = self.0.load(Ordering::Relaxed);
        let mut tries = 0u32;
        loop {
            let free = seen.map_addr(|addr| addr & !LOCK);
            let locked = free.map_addr(|addr| addr | LOCK);
            match self.0.compare_exchange_weak(free, locked, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return free,
                Err(now) => seen = now,
            }
            // Held for a few instructions, unless its thread was stopped meanwhile.
            tries += 1;
            if tries.is_multiple_of(64) { std::thread::yield_now() } else { hint::spin_loop() }
        }
    }
}

impl Drop for History {
    #[inline]
    fn drop(&mut self) {
        let packed = *self.0.get_mut();
        if !packed.is_null() {
            // SAFETY: `set` packed it; nobody holds the lock of a tensor that is dropped.
            drop(unsafe { Edge::unpack(packed) });
        }
    }
}

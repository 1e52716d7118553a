//! Allocator statistics, counted without contention.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What a device's allocator has done since it was made. Sizes are in bytes, and of whole blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// In use by tensors.
    pub allocated: u64,
    /// Taken from the device: in use, or kept for reuse.
    pub reserved: u64,
    /// The most that was in use at once, to within the small blocks that threads keep for themselves.
    pub peak: u64,
    /// Requests served from memory kept for reuse.
    pub hits: u64,
    /// Requests for which the device was asked.
    pub misses: u64,
    /// Requests that could not be served.
    pub faults: u64,
}

impl MemoryStats {
    /// Requests in all.
    pub fn accesses(&self) -> u64 {
        self.hits + self.misses + self.faults
    }
}

/// One thread's share of an allocator's counts: `allocated` is less than zero by the bytes that the thread keeps. Only its thread writes it, so no read-modify-write instruction is needed.
#[derive(Default)]
pub(crate) struct ThreadCounts {
    pub(crate) allocated: AtomicI64,
    pub(crate) hits: AtomicU64,
}

impl ThreadCounts {
    #[inline]
    pub(crate) fn took(&self, bytes: usize) {
        self.hits.store(self.hits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.changed(bytes as i64);
    }

    #[inline]
    pub(crate) fn gave(&self, bytes: usize) {
        self.changed(-(bytes as i64));
    }

    #[inline]
    pub(crate) fn changed(&self, bytes: i64) {
        self.allocated.store(self.allocated.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }
}

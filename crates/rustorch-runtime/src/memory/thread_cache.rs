//! Small host blocks that each thread keeps for itself, so that an operation on a few numbers neither locks nor asks the
//! system for memory. A block is kept together with its handle's counters, ready to be handed out again.

use super::size_class::class_of;
use super::stats::ThreadCounts;
use crate::device_state::DeviceState;
use crate::storage::Block;
use std::cell::RefCell;
use std::sync::Arc;

/// The largest block that threads keep.
pub(crate) const LARGEST: usize = 32 << 10;
/// The bytes that a thread keeps of one size at most.
const MOST: usize = 128 << 10;

/// Serves one CPU's allocator at a time: a thread rarely works with two executors.
struct Cache {
    state: Arc<DeviceState>,
    epoch: usize,
    counts: Arc<ThreadCounts>,
    bins: Vec<Vec<Arc<Block>>>,
}

thread_local! {
    static CACHE: RefCell<Option<Cache>> = const { RefCell::new(None) };
}

/// A block of the class of `bytes` from this thread's cache.
#[inline]
pub(crate) fn take(state: &Arc<DeviceState>, bytes: usize) -> Option<Arc<Block>> {
    CACHE
        .try_with(|cache| {
            let mut cache = cache.try_borrow_mut().ok()?;
            let cache = match &mut *cache {
                Some(cache) if Arc::ptr_eq(&cache.state, state) && cache.epoch == state.allocator.epoch() => {
                    cache
                }
                other => {
                    // Binds the cache to this allocator, so that blocks that come back are kept.
                    *other = None;
                    *other = Some(Cache::new(state));
                    return None;
                }
            };
            let block = cache.bins[class_of(bytes)].pop()?;
            cache.counts.took(block.capacity());
            Some(block)
        })
        .ok()
        .flatten()
}

/// Keeps a block that nobody uses any more, or returns it to its allocator.
#[inline]
pub(crate) fn put(block: Arc<Block>) {
    // Whatever is not kept is dropped after the cache is let go of.
    let _rest = CACHE.try_with(|cache| {
        let Ok(mut cache) = cache.try_borrow_mut() else { return Some(block) };
        match (&mut *cache, block.state()) {
            (Some(cache), Some(state))
                if block.capacity() <= LARGEST
                    && Arc::ptr_eq(&cache.state, state)
                    && cache.epoch == state.allocator.epoch() =>
            {
                let capacity = block.capacity();
                let bin = &mut cache.bins[class_of(capacity)];
                if bin.len() < (MOST / capacity).min(64) {
                    bin.push(block);
                    cache.counts.gave(capacity);
                    return None;
                }
                Some(block)
            }
            _ => Some(block),
        }
    });
}

/// Gives back everything that this thread keeps.
pub(crate) fn flush() {
    let _ = CACHE.try_with(|cache| cache.try_borrow_mut().ok().and_then(|mut cache| cache.take()));
}

impl Cache {
    fn new(state: &Arc<DeviceState>) -> Cache {
        let counts = Arc::new(ThreadCounts::default());
        state.allocator.register(&counts);
        let mut bins = Vec::new();
        bins.resize_with(class_of(LARGEST) + 1, Vec::new);
        Cache { state: Arc::clone(state), epoch: state.allocator.epoch(), counts, bins }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        for block in self.bins.iter_mut().flat_map(|bin| bin.drain(..)) {
            // No longer kept: its drop counts it as back in the allocator.
            self.counts.changed(block.capacity() as i64);
            drop(block);
        }
        self.state.allocator.unregister(&self.counts);
    }
}

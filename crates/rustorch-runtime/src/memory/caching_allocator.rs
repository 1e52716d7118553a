//! The caching allocator of a device.

use super::free_list::take_of;
use super::size_class::{class_of, rounded};
use super::stats::{MemoryStats, ThreadCounts};
use super::{allocate, allocate_zeroed, thread_cache};
use rustorch_core::{Backend, Buffer, Device, Fault, current_stream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much host memory is kept at most: the system serves large blocks well enough itself.
const HOST_CACHE: usize = 512 << 20;

/// The caching allocator of one device.
pub(crate) struct CachingAllocator {
    device: Device,
    backend: Arc<dyn Backend>,
    /// Changes when thread caches must give back what they hold.
    epoch: AtomicUsize,
    limit: AtomicUsize,
    shared: Mutex<Shared>,
    faults: AtomicU64,
}

#[derive(Default)]
struct Shared {
    /// By size class; each buffer with the stream of the thread that let go of it.
    free: Vec<Vec<(usize, Buffer)>>,
    cached: usize,
    /// Blocks outside, be they in use or in a thread's cache.
    outside: usize,
    peak: u64,
    hits: u64,
    misses: u64,
    threads: Vec<Arc<ThreadCounts>>,
    /// The sums of threads that have ended.
    ended_allocated: i64,
    ended_hits: u64,
}

impl CachingAllocator {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> CachingAllocator {
        CachingAllocator {
            device: backend.device(),
            backend,
            epoch: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            shared: Mutex::default(),
            faults: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn epoch(&self) -> usize {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Memory for `bytes` bytes at least, kept or new.
    pub(crate) fn take(&self, bytes: usize) -> Result<Buffer, Fault> {
        let new = |size| Ok((allocate(&*self.backend, size)?, false));
        self.take_or(bytes, new).map(|(buffer, _)| buffer)
    }

    /// As [`take`](Self::take), and whether its bytes are zero: only of new memory.
    pub(crate) fn take_zeroed(&self, bytes: usize) -> Result<(Buffer, bool), Fault> {
        self.take_or(bytes, |size| allocate_zeroed(&*self.backend, size))
    }

    /// Memory that is kept, else new.
    #[inline]
    fn take_or(
        &self,
        bytes: usize,
        new: impl FnOnce(usize) -> Result<(Buffer, bool), Fault>,
    ) -> Result<(Buffer, bool), Fault> {
        let size = rounded(bytes);
        let class = class_of(bytes);
        let stream = self.stream();
        {
            let mut shared = self.lock();
            if let Some(buffer) = shared.free.get_mut(class).and_then(|free| take_of(free, stream)) {
                shared.hits += 1;
                shared.cached -= buffer.bytes();
                shared.count_out(buffer.bytes());
                return Ok((buffer, false));
            }
            let reserved = (shared.outside + shared.cached).checked_add(size);
            // No allocation may have more than `isize::MAX` bytes, so no device need be asked.
            let limit = self.limit.load(Ordering::Relaxed);
            if size > isize::MAX as usize || reserved.is_none_or(|reserved| reserved > limit) {
                drop(shared);
                return Err(self.fault(bytes));
            }
            // Counted before the device is asked, so that several threads together keep the limit.
            shared.outside += size;
        }
        // The device is asked without the lock: it may take long.
        let allocated = new(size);
        let mut shared = self.lock();
        shared.outside -= size;
        match allocated {
            Ok((buffer, is_zeroed)) => {
                shared.misses += 1;
                shared.count_out(buffer.bytes());
                Ok((buffer, is_zeroed))
            }
            Err(fault) => {
                self.faults.fetch_add(1, Ordering::Relaxed);
                Err(fault)
            }
        }
    }

    fn fault(&self, bytes: usize) -> Fault {
        self.faults.fetch_add(1, Ordering::Relaxed);
        Fault::OutOfMemory { device: self.device, requested: bytes }
    }

    /// Takes back what [`take`](Self::take) gave.
    pub(crate) fn give_back(&self, buffer: Buffer) {
        let stream = self.stream();
        let mut shared = self.lock();
        let size = buffer.bytes();
        shared.outside -= size;
        if self.device.is_cpu() && shared.cached + size > HOST_CACHE {
            // The system may take long; not under the lock.
            drop(shared);
            drop(buffer);
            return;
        }
        let class = class_of(size);
        if shared.free.len() <= class {
            shared.free.resize_with(class + 1, Vec::new);
        }
        shared.cached += size;
        shared.free[class].push((stream, buffer));
    }

    pub(crate) fn release_cached(&self) -> usize {
        self.epoch.fetch_add(1, Ordering::Relaxed);
        thread_cache::flush();
        let mut shared = self.lock();
        // Under the lock: memory that another thread is to have in its place is not there before, and the two together
        // would be more than the limit.
        shared.free = Vec::new();
        std::mem::take(&mut shared.cached)
    }

    pub(crate) fn set_limit(&self, bytes: Option<usize>) {
        self.limit.store(bytes.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    pub(crate) fn limit(&self) -> Option<usize> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|&bytes| bytes != usize::MAX)
    }

    pub(crate) fn register(&self, counts: &Arc<ThreadCounts>) {
        self.lock().threads.push(Arc::clone(counts));
    }

    pub(crate) fn unregister(&self, counts: &Arc<ThreadCounts>) {
        let mut shared = self.lock();
        shared.threads.retain(|c| !Arc::ptr_eq(c, counts));
        shared.ended_allocated += counts.allocated.load(Ordering::Relaxed);
        shared.ended_hits += counts.hits.load(Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        let shared = self.lock();
        let allocated = shared.in_use();
        MemoryStats {
            allocated,
            reserved: (shared.outside + shared.cached) as u64,
            peak: shared.peak.max(allocated),
            hits: shared.hits
                + shared.ended_hits
                + shared.threads.iter().map(|t| t.hits.load(Ordering::Relaxed)).sum::<u64>(),
            misses: shared.misses,
            faults: self.faults.load(Ordering::Relaxed),
        }
    }

    /// This thread's stream on the device.
    fn stream(&self) -> usize {
        current_stream(self.backend.extensions().stream_count())
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic under the lock can only come from a failed allocation of the lists; they are valid at all times.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Bytes in use by tensors: outside, less what threads keep.
    fn in_use(&self) -> u64 {
        let kept: i64 = self.ended_allocated
            + self.threads.iter().map(|t| t.allocated.load(Ordering::Relaxed)).sum::<i64>();
        (self.outside as u64).saturating_add_signed(kept)
    }

    fn count_out(&mut self, bytes: usize) {
        self.outside += bytes;
        self.peak = self.peak.max(self.in_use());
    }
}

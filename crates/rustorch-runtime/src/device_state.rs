//! An open device: its backend, caching allocator, health and counters.

use crate::contexts::Contexts;
use crate::cost::{self, CostCache};
use crate::health::DeviceHealth;
use crate::memory::{CachingAllocator, thread_cache};
use crate::placement::Candidate;
use crate::record::{Counters, DeviceCounts};
use crate::storage::{Block, DeviceCopies, FreshMemory};
use rustorch_core::{Backend, Buffer, CostModel, Device, Fault};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A device of an executor or of the process. Every storage holds the one that made it, so that whoever has a tensor has its
/// backend.
pub(crate) struct DeviceState {
    pub(crate) device: Device,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) allocator: CachingAllocator,
    pub(crate) health: DeviceHealth,
    pub(crate) counters: Counters,
    /// What it keeps of other devices' memory.
    pub(crate) copies: DeviceCopies,
    pub(crate) contexts: Contexts,
    /// What it costs, once somebody needs to know.
    cost: OnceLock<CostModel>,
}

impl DeviceState {
    /// A device whose costs are given, or asked and measured when they are needed.
    pub(crate) fn new(backend: Arc<dyn Backend>, cost: Option<CostModel>) -> Arc<DeviceState> {
        Arc::new(DeviceState {
            device: backend.device(),
            allocator: CachingAllocator::new(Arc::clone(&backend)),
            backend,
            health: DeviceHealth::default(),
            counters: Counters::default(),
            copies: DeviceCopies::default(),
            contexts: Contexts::default(),
            cost: cost.map(OnceLock::from).unwrap_or_default(),
        })
    }

    /// Whether both work with the same memory, whatever they are called.
    pub(crate) fn has_backend_of(&self, other: &DeviceState) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
    }

    /// The backend; a fault if the device is gone.
    pub(crate) fn usable(&self) -> Result<&dyn Backend, Fault> {
        if self.health.is_lost() {
            let message = "it failed earlier in this process".to_owned();
            return Err(Fault::DeviceLost { device: self.device, message });
        }
        Ok(&*self.backend)
    }

    /// Remembers if what the backend was asked for shows that the device is gone.
    pub(crate) fn noted<T>(&self, result: Result<T, Fault>) -> Result<T, Fault> {
        if let Err(Fault::DeviceLost { device, .. }) = &result
            && *device == self.device
        {
            self.health.lose();
        }
        result
    }

    /// How long it takes; measured now, or read from the cache, if that is not known yet.
    pub(crate) fn cost(&self, cache: Option<&CostCache>) -> &CostModel {
        self.cost.get_or_init(|| cost::cost_of(&self.backend, cache))
    }

    /// Gives back what the device keeps for reuse, copies of other devices' memory included; returns how many bytes.
    pub(crate) fn release_cached(&self) -> usize {
        self.copies.take_back(usize::MAX);
        self.allocator.release_cached()
    }

    /// Gives back what the device keeps for reuse, and of the copies of other devices' memory as much as makes room for so many
    /// bytes; returns how many bytes.
    pub(crate) fn make_room(&self, bytes: usize) -> usize {
        self.copies.make_room(bytes);
        self.allocator.release_cached()
    }

    pub(crate) fn counts(&self) -> DeviceCounts {
        self.counters.counts()
    }

    /// Memory for `bytes` bytes, contents unspecified; `truth` says whether booleans will be written there.
    #[inline]
    pub(crate) fn fresh(self: &Arc<DeviceState>, bytes: usize, truth: bool) -> Result<FreshMemory, Fault> {
        if self.device.is_cpu()
            && bytes <= thread_cache::LARGEST
            && let Some(block) = thread_cache::take(self, bytes)
        {
            block.renew(bytes, truth);
            return Ok(FreshMemory::from_block(block));
        }
        let buffer = self.noted(self.allocator.take(bytes))?;
        Ok(self.fresh_block(buffer, bytes, truth))
    }

    /// As [`fresh`](Self::fresh), of more than threads keep, and whether its bytes are zero.
    pub(crate) fn fresh_zeroed(
        self: &Arc<DeviceState>,
        bytes: usize,
        truth: bool,
    ) -> Result<(FreshMemory, bool), Fault> {
        let (buffer, is_zeroed) = self.noted(self.allocator.take_zeroed(bytes))?;
        Ok((self.fresh_block(buffer, bytes, truth), is_zeroed))
    }

    fn fresh_block(self: &Arc<DeviceState>, buffer: Buffer, bytes: usize, truth: bool) -> FreshMemory {
        FreshMemory::from_block(Arc::new(Block::new(buffer, bytes, truth, Some(Arc::clone(self)))))
    }
}

impl fmt::Debug for DeviceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceState({})", self.device)
    }
}

impl Candidate for Arc<DeviceState> {
    fn device(&self) -> Device {
        self.device
    }

    fn is(&self, other: &Arc<DeviceState>) -> bool {
        Arc::ptr_eq(self, other)
    }
}

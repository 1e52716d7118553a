//! One caching pool per device, and what each has done.

mod pool;
pub(crate) mod size_class;
mod stats;
pub(crate) mod thread_cache;

pub(crate) use pool::Pool;
pub use stats::MemoryStats;

use rustorch_core::Device;
use std::sync::Arc;

/// The memory of an executor's devices.
#[derive(Clone)]
pub struct MemoryManager {
    pools: Arc<[Arc<Pool>]>,
}

impl MemoryManager {
    pub(crate) fn new(pools: Vec<Arc<Pool>>) -> MemoryManager {
        MemoryManager { pools: pools.into() }
    }

    /// The devices that have a pool.
    pub fn devices(&self) -> impl Iterator<Item = Device> + '_ {
        self.pools.iter().map(|pool| pool.device())
    }

    /// What a device's pool has done; `None` for a device that the executor does not have.
    pub fn stats(&self, device: Device) -> Option<MemoryStats> {
        self.pool(device).map(|pool| pool.stats())
    }

    /// Gives the memory that the pool of `device` keeps for reuse back to the device, and returns how many bytes that
    /// were. What other threads keep for themselves follows when they next allocate.
    pub fn release_cached(&self, device: Device) -> usize {
        self.pool(device).map_or(0, |pool| pool.release_cached())
    }

    /// The most bytes that may be in use on `device` at once; an allocation beyond is an out-of-memory fault.
    pub fn set_limit(&self, device: Device, bytes: Option<usize>) {
        if let Some(pool) = self.pool(device) {
            pool.set_limit(bytes);
        }
    }

    fn pool(&self, device: Device) -> Option<&Arc<Pool>> {
        self.pools.iter().find(|pool| pool.device() == device)
    }
}

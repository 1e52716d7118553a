//! One caching pool per device, and what each has done.

mod pool;
pub(crate) mod size_class;
mod stats;
pub(crate) mod thread_cache;

pub(crate) use pool::Pool;
pub use stats::MemoryStats;

use crate::transfers::Transfers;
use rustorch_core::Device;
use std::sync::Arc;

/// The memory of an executor's devices, and what was copied between them.
#[derive(Clone)]
pub struct MemoryManager {
    pools: Arc<[Arc<Pool>]>,
    transfers: Arc<Transfers>,
}

impl MemoryManager {
    pub(crate) fn new(pools: Vec<Arc<Pool>>) -> MemoryManager {
        MemoryManager { pools: pools.into(), transfers: Arc::default() }
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

    /// What was copied between the devices, by pair and by method, with the bandwidth that was reached.
    pub fn transfers(&self) -> &Transfers {
        &self.transfers
    }

    /// The most bytes that may be taken from `device` at once, in use or kept for reuse, if there is a limit.
    pub fn limit(&self, device: Device) -> Option<usize> {
        self.pool(device).and_then(|pool| pool.limit())
    }

    /// Sets the most bytes that may be taken from `device` at once, in use or kept for reuse. An allocation beyond is an
    /// out-of-memory fault, as if the device had no more: what is kept is given back, and if that does not suffice, the
    /// next device runs the operation. What is in use already stays.
    pub fn set_limit(&self, device: Device, bytes: Option<usize>) {
        if let Some(pool) = self.pool(device) {
            pool.set_limit(bytes);
        }
    }

    fn pool(&self, device: Device) -> Option<&Arc<Pool>> {
        self.pools.iter().find(|pool| pool.device() == device)
    }
}

//! One caching allocator per device, and what each has done.

mod caching_allocator;
mod free_list;
pub(crate) mod size_class;
mod stats;
pub(crate) mod thread_cache;

pub(crate) use caching_allocator::CachingAllocator;
pub use stats::MemoryStats;

use crate::device_set::DeviceSet;
use crate::device_state::DeviceState;
use crate::transfers::Transfers;
use rustorch_core::{Backend, Buffer, Device, Fault, HOST_ALIGN};
use std::sync::Arc;

/// New memory of a device: what [`Backend::alloc`] gives, if it is what was asked for.
pub(crate) fn allocate(backend: &dyn Backend, bytes: usize) -> Result<Buffer, Fault> {
    checked(backend, bytes, backend.alloc(bytes)?)
}

/// New memory of a device, and whether its bytes are zero.
fn allocate_zeroed(backend: &dyn Backend, bytes: usize) -> Result<(Buffer, bool), Fault> {
    match backend.alloc_zeroed(bytes) {
        Some(buffer) => Ok((checked(backend, bytes, buffer)?, true)),
        None => Ok((allocate(backend, bytes)?, false)),
    }
}

fn checked(backend: &dyn Backend, bytes: usize, buffer: Buffer) -> Result<Buffer, Fault> {
    let device = backend.device();
    let wrong = if buffer.location() != device {
        format!("memory of {}", buffer.location())
    } else if buffer.bytes() < bytes {
        format!("{} bytes", buffer.bytes())
    } else if buffer.is_read_only() {
        "read-only memory".to_owned()
    } else if buffer.host_address().is_some_and(|address| !address.addr().get().is_multiple_of(HOST_ALIGN)) {
        format!("memory that is not aligned to {HOST_ALIGN} bytes")
    } else {
        return Ok(buffer);
    };
    let message = format!("asked for {bytes} bytes, `Backend::alloc` gave {wrong}");
    Err(Fault::Backend { device, message })
}

/// The memory of an executor's devices (of the process's, of those that are open), and what was copied between them.
#[derive(Clone)]
pub struct MemoryManager {
    devices: Arc<DeviceSet>,
    transfers: Arc<Transfers>,
}

impl MemoryManager {
    pub(crate) fn new(devices: Arc<DeviceSet>) -> MemoryManager {
        MemoryManager { devices, transfers: Arc::default() }
    }

    /// The devices that have an allocator.
    pub fn devices(&self) -> Vec<Device> {
        self.devices.open().iter().map(|state| state.device).collect()
    }

    /// What a device's allocator has done; `None` for a device that the executor does not have.
    pub fn stats(&self, device: Device) -> Option<MemoryStats> {
        self.state(device).map(|state| state.allocator.stats())
    }

    /// Gives the memory that the allocator of `device` keeps for reuse, and copies of other devices' memory, back to the device, and
    /// returns how many bytes that were. What other threads keep for themselves follows when they next allocate.
    pub fn release_cached(&self, device: Device) -> usize {
        self.state(device).map_or(0, |state| state.release_cached())
    }

    /// Makes room on a device where memory is short.
    pub(crate) fn make_room(&self, device: Device, bytes: usize) -> usize {
        self.state(device).map_or(0, |state| state.make_room(bytes))
    }

    /// What was copied between the devices, by pair and by method, with the bandwidth that was reached.
    pub fn transfers(&self) -> &Transfers {
        &self.transfers
    }

    /// The most bytes that may be taken from `device` at once, in use or kept for reuse, if there is a limit.
    pub fn limit(&self, device: Device) -> Option<usize> {
        self.state(device).and_then(|state| state.allocator.limit())
    }

    /// Sets the most bytes that may be taken from `device` at once, in use or kept for reuse. An allocation beyond is an
    /// out-of-memory fault, as if the device had no more: what is kept is given back, and if that does not suffice, the
    /// next device runs the operation. What is in use already stays.
    pub fn set_limit(&self, device: Device, bytes: Option<usize>) {
        if let Some(state) = self.state(device) {
            state.allocator.set_limit(bytes);
        }
    }

    fn state(&self, device: Device) -> Option<Arc<DeviceState>> {
        self.devices.open().iter().find(|state| state.device == device).cloned()
    }
}

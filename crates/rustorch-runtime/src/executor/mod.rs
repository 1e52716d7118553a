//! The executor: one backend per device, and a decision for every operation.

mod arrange;
mod builder;
mod current;
mod dispatch;
mod into;
mod operand;
mod run;
mod transfer;

pub use builder::{Builder, OnFault};
pub use operand::{Operand, Output, OutputVec};

use crate::memory::{MemoryManager, Pool};
use crate::transfers::Transfers;
use rustorch_core::{Backend, Device, Error, Result};
use std::fmt;
use std::sync::Arc;

/// Runs operations on whichever of its devices suits each best. Cloning is cheap and shares everything.
///
/// Devices, memory and health are shared by all executors that were derived from one (by
/// [`with_policy`](HybridExecutor::with_policy), say).
#[derive(Clone)]
pub struct HybridExecutor(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    on_fault: OnFault,
    /// Operations on data of at most so many bytes, all on the processor, run there without planning.
    fast_bytes: usize,
}

/// What executors derived from each other have in common.
struct Shared {
    slots: Box<[Slot]>,
    /// Indices into `slots`, first choice first; the processor is last.
    chain: Box<[usize]>,
    /// The processor's index in `slots`.
    cpu: usize,
    memory: MemoryManager,
    transfers: Transfers,
}

/// A device and what belongs to it.
struct Slot {
    device: Device,
    backend: Arc<dyn Backend>,
    pool: Arc<Pool>,
}

impl HybridExecutor {
    /// Starts building an executor.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The devices in the order in which they are tried; the processor is last.
    pub fn chain(&self) -> impl Iterator<Item = Device> + '_ {
        let shared = &self.0.shared;
        shared.chain.iter().map(|&i| shared.slots[i].device)
    }

    /// The backend of a device.
    ///
    /// # Errors
    /// If the executor does not have the device; the error lists those that it has.
    pub fn backend(&self, device: Device) -> Result<&dyn Backend> {
        Ok(&*self.slot(device)?.backend)
    }

    /// The memory of the devices.
    pub fn memory(&self) -> &MemoryManager {
        &self.0.shared.memory
    }

    /// What was copied between devices.
    pub fn transfers(&self) -> &Transfers {
        &self.0.shared.transfers
    }

    /// Whether both are handles to one executor.
    pub fn same(&self, other: &HybridExecutor) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Waits until a device has finished everything.
    pub fn synchronize(&self, device: Device) -> Result<()> {
        Ok(self.slot(device)?.backend.synchronize()?)
    }

    fn slot(&self, device: Device) -> Result<&Slot> {
        self.index(device).map(|i| &self.0.shared.slots[i])
    }

    fn index(&self, device: Device) -> Result<usize> {
        let slots = &self.0.shared.slots;
        slots.iter().position(|slot| slot.device == device).ok_or_else(|| {
            let present: Vec<String> = slots.iter().map(|slot| slot.device.to_string()).collect();
            Error::argument(
                "device",
                format!("{device} is not here; this executor has {}", present.join(", ")),
            )
        })
    }

    fn cpu(&self) -> &Slot {
        &self.0.shared.slots[self.0.shared.cpu]
    }
}

impl fmt::Debug for HybridExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HybridExecutor").field(&self.chain().collect::<Vec<_>>()).finish()
    }
}

//! The candidate devices of an executor: its own, or the process's.

use crate::device_state::DeviceState;
use crate::registry::Registry;
use rustorch_core::{Device, Error, Result};
use std::sync::Arc;

/// Devices in the order in which they are tried, the CPU last.
pub(crate) type FallbackOrder = Arc<[Arc<DeviceState>]>;

/// The devices that an executor chooses among. Operands may be on others.
pub(crate) struct DeviceSet {
    cpu: Arc<DeviceState>,
    source: Source,
}

enum Source {
    /// Those that an executor was built with, and which of them are in the fallback order.
    Built { devices: Box<[Arc<DeviceState>]>, order: FallbackOrder },
    /// Those of the process, which are looked for when somebody names them.
    Process(&'static Registry),
}

impl DeviceSet {
    /// The devices that an executor is built with; the CPU is last in the order.
    pub(crate) fn built(devices: Box<[Arc<DeviceState>]>, order: FallbackOrder) -> DeviceSet {
        let cpu = Arc::clone(order.last().expect("the CPU is in every order"));
        DeviceSet { cpu, source: Source::Built { devices, order } }
    }

    /// The devices of the process.
    pub(crate) fn process(registry: &'static Registry) -> DeviceSet {
        DeviceSet { cpu: Arc::clone(registry.cpu()), source: Source::Process(registry) }
    }

    #[inline]
    pub(crate) fn cpu(&self) -> &Arc<DeviceState> {
        &self.cpu
    }

    /// The device of this name. One of the process is opened now if it was not before.
    ///
    /// # Errors
    /// If it is not here; the error says why and lists those that are.
    pub(crate) fn find(&self, device: Device) -> Result<Arc<DeviceState>> {
        if device.is_cpu() {
            return Ok(Arc::clone(&self.cpu));
        }
        match &self.source {
            Source::Built { devices, .. } => {
                let found = devices.iter().find(|state| state.device == device);
                found.cloned().ok_or_else(|| {
                    let present: Vec<String> = devices.iter().map(|s| s.device.to_string()).collect();
                    let present = present.join(", ");
                    Error::argument("device", format!("{device} is not here; this executor has {present}"))
                })
            }
            Source::Process(registry) => registry.find(device),
        }
    }

    /// Those that are open, in the fallback order as far as they are in it.
    pub(crate) fn open(&self) -> FallbackOrder {
        match &self.source {
            Source::Built { devices, .. } => devices.iter().cloned().collect(),
            Source::Process(registry) => registry.open(),
        }
    }

    /// Those that stand in for each other, the CPU last: of the process's, those that are open.
    pub(crate) fn open_order(&self) -> FallbackOrder {
        match &self.source {
            Source::Built { order, .. } => Arc::clone(order),
            Source::Process(registry) => registry.open(),
        }
    }

    /// The whole fallback order. The process's devices are looked for now, if they were not before.
    ///
    /// # Errors
    /// If the environment asks for a fallback order that makes no sense or names devices that are not here.
    pub(crate) fn order(&self) -> Result<FallbackOrder> {
        match &self.source {
            Source::Built { order, .. } => Ok(Arc::clone(order)),
            Source::Process(registry) => registry.order(),
        }
    }

    /// Whether the CPU is known to be the only one.
    pub(crate) fn is_cpu_alone(&self) -> bool {
        match &self.source {
            Source::Built { order, .. } => order.len() == 1,
            Source::Process(_) => false,
        }
    }

    /// Whether a device is one of this set.
    pub(crate) fn has(&self, state: &Arc<DeviceState>) -> bool {
        match &self.source {
            Source::Built { devices, .. } => devices.iter().any(|own| Arc::ptr_eq(own, state)),
            Source::Process(registry) => registry.open().iter().any(|own| Arc::ptr_eq(own, state)),
        }
    }

    /// The device of this set that works with the same memory as another one.
    pub(crate) fn own(&self, other: &Arc<DeviceState>) -> Option<Arc<DeviceState>> {
        if other.device.is_cpu() {
            return Some(Arc::clone(&self.cpu));
        }
        match &self.source {
            Source::Built { devices, .. } => {
                devices.iter().find(|state| state.has_backend_of(other)).cloned()
            }
            Source::Process(registry) => {
                registry.open().iter().find(|state| state.has_backend_of(other)).cloned()
            }
        }
    }
}

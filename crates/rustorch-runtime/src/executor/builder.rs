//! Putting an executor together.

use super::{Handle, HybridExecutor, Shared, Slot};
use crate::env::Environment;
use crate::memory::{MemoryManager, Pool};
use crate::transfers::Transfers;
use rustorch_core::{Backend, Device, Error, Result};
use rustorch_cpu::CpuBackend;
use std::sync::Arc;

/// What an executor does when a device fails while running an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFault {
    /// The next device runs it.
    #[default]
    FallBack,
    /// The failure is returned.
    Error,
}

/// Collects what an executor is made of.
#[derive(Default)]
pub struct Builder {
    backends: Vec<Arc<dyn Backend>>,
    chain: Option<Vec<Device>>,
    on_fault: OnFault,
    threads: Option<usize>,
    cpu_only: bool,
}

impl Builder {
    /// Adds a device. The order does not matter. Without a backend for the processor, `rustorch-cpu`'s is added.
    pub fn backend(mut self, backend: Arc<dyn Backend>) -> Builder {
        self.backends.push(backend);
        self
    }

    /// Sets the order in which devices are tried. The processor is added at the end where it is missing.
    pub fn chain(mut self, chain: impl Into<Vec<Device>>) -> Builder {
        self.chain = Some(chain.into());
        self
    }

    /// Sets what happens when a device fails.
    pub fn on_fault(mut self, on_fault: OnFault) -> Builder {
        self.on_fault = on_fault;
        self
    }

    /// Sets how many threads the processor's engine uses; all of the machine's by default.
    pub fn threads(mut self, threads: usize) -> Builder {
        self.threads = Some(threads);
        self
    }

    /// Follows the wishes of the environment.
    pub fn environment(mut self, environment: &Environment) -> Builder {
        self.threads = environment.threads.or(self.threads);
        self.chain = environment.devices.clone().or(self.chain);
        self.cpu_only = environment.disable_gpu;
        self
    }

    /// The executor.
    ///
    /// # Errors
    /// If two backends are for one device, or the chain names a device that has none.
    pub fn build(self) -> Result<HybridExecutor> {
        let mut backends = self.backends;
        if self.cpu_only {
            backends.retain(|b| b.device().is_cpu());
        }
        if !backends.iter().any(|b| b.device().is_cpu()) {
            let threads = self
                .threads
                .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
                .unwrap_or(1);
            backends.push(Arc::new(CpuBackend::new(threads)));
        }
        let slots: Box<[Slot]> = backends
            .into_iter()
            .map(|backend| Slot { device: backend.device(), pool: Pool::new(Arc::clone(&backend)), backend })
            .collect();
        for (i, slot) in slots.iter().enumerate() {
            if slots[..i].iter().any(|other| other.device == slot.device) {
                return Err(Error::argument("executor", format!("two backends are for {}", slot.device)));
            }
        }
        let position = |device: Device| slots.iter().position(|slot| slot.device == device);
        let cpu = position(Device::Cpu).expect("a backend for the processor was added above");
        let mut chain = Vec::new();
        for device in self.chain.filter(|_| !self.cpu_only).unwrap_or_default() {
            let slot = position(device).ok_or_else(|| {
                let present: Vec<String> = slots.iter().map(|s| s.device.to_string()).collect();
                Error::argument(
                    "executor",
                    format!("the chain names {device}, which is not here; there is {}", present.join(", ")),
                )
            })?;
            if slot != cpu && !chain.contains(&slot) {
                chain.push(slot);
            }
        }
        chain.push(cpu);
        let memory = MemoryManager::new(slots.iter().map(|slot| Arc::clone(&slot.pool)).collect());
        let shared = Shared { slots, chain: chain.into(), cpu, memory, transfers: Transfers::default() };
        let fast_bytes = if shared.chain.len() == 1 { usize::MAX } else { 0 };
        Ok(HybridExecutor(Arc::new(Handle { shared: Arc::new(shared), on_fault: self.on_fault, fast_bytes })))
    }
}

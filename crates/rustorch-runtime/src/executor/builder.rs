//! Putting an executor together.

use super::{HybridExecutor, Shared, Slot};
use crate::chain::Probe;
use crate::cost::CostCache;
use crate::env::{DeviceChoice, Environment};
use crate::health::Health;
use crate::memory::{MemoryManager, Pool};
use crate::placement::Placement;
use crate::profile::SpanHub;
use crate::record::Recorder;
use rustorch_core::{Backend, CostModel, DType, Device, Error, Result};
use rustorch_cpu::CpuBackend;
use std::sync::{Arc, OnceLock};

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
    chain: Option<Vec<DeviceChoice>>,
    placement: Option<Placement>,
    on_fault: OnFault,
    check_numbers: bool,
    threads: Option<usize>,
    cpu_only: bool,
    costs: Vec<(Device, CostModel)>,
    cost_cache: Option<CostCache>,
    compute: Option<DType>,
}

impl Builder {
    /// Adds a device. The order does not matter. Without a backend for the processor, `rustorch-cpu`'s is added.
    pub fn backend(mut self, backend: Arc<dyn Backend>) -> Builder {
        self.backends.push(backend);
        self
    }

    /// Sets the order in which devices are tried; by default [`Probe::chain`]'s for those that were added. The processor is added at the end where it is missing.
    pub fn chain(mut self, chain: impl Into<Vec<Device>>) -> Builder {
        self.chain = Some(chain.into().into_iter().map(DeviceChoice::One).collect());
        self
    }

    /// Gives the cost model of a device, which is then neither asked nor measured.
    pub fn cost(mut self, device: Device, model: CostModel) -> Builder {
        self.costs.push((device, model));
        self
    }

    /// Sets where measurements of devices are kept from one program to the next; nowhere by default.
    pub fn cost_cache(mut self, cache: CostCache) -> Builder {
        self.cost_cache = Some(cache);
        self
    }

    /// Sets the dtype to compute in; see [`with_compute`](HybridExecutor::with_compute).
    pub fn compute(mut self, dtype: Option<DType>) -> Builder {
        self.compute = dtype;
        self
    }

    /// Sets the placement policy; [`Placement::Auto`] by default.
    pub fn placement(mut self, placement: Placement) -> Builder {
        self.placement = Some(placement);
        self
    }

    /// Sets whether results of devices other than the processor are searched for NaN; see
    /// [`with_number_check`](HybridExecutor::with_number_check).
    pub fn check_numbers(mut self, check: bool) -> Builder {
        self.check_numbers = check;
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
        self.cost_cache = environment.cache_dir.clone().map(CostCache::new).or(self.cost_cache);
        self
    }

    /// The executor.
    ///
    /// # Errors
    /// If two backends are for one device; if the chain, the policy or a cost model names a device that has none; or if
    /// the dtype to compute in is none that [`with_compute`](HybridExecutor::with_compute) takes.
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
        // The last one given counts.
        let given =
            |device: Device| self.costs.iter().rev().find(|(d, _)| *d == device).map(|(_, m)| m.clone());
        let slots: Box<[Slot]> = backends
            .into_iter()
            .map(|backend| Slot {
                device: backend.device(),
                pool: Pool::new(Arc::clone(&backend)),
                cost: given(backend.device()).map(OnceLock::from).unwrap_or_default(),
                backend,
            })
            .collect();
        for (i, slot) in slots.iter().enumerate() {
            if slots[..i].iter().any(|other| other.device == slot.device) {
                return Err(Error::argument("executor", format!("two backends are for {}", slot.device)));
            }
        }
        let position = |device: Device| slots.iter().position(|slot| slot.device == device);
        let cpu = position(Device::Cpu).expect("a backend for the processor was added above");
        let wanted = match self.chain {
            Some(chain) if !self.cpu_only => chain,
            _ => {
                let present: Vec<Device> = slots.iter().map(|s| s.device).collect();
                Probe::here(present).chain().into_iter().map(DeviceChoice::One).collect()
            }
        };
        let missing = |what: &str, name: &dyn std::fmt::Display| {
            let present: Vec<String> = slots.iter().map(|s| s.device.to_string()).collect();
            let message = format!("{what} names {name}, which is not here; there is {}", present.join(", "));
            Error::argument("executor", message)
        };
        let mut chain = Vec::new();
        for choice in wanted {
            let mut admitted: Vec<usize> =
                (0..slots.len()).filter(|&i| choice.admits(slots[i].device)).collect();
            if admitted.is_empty() {
                return Err(missing("the chain", &choice));
            }
            admitted.sort_by_key(|&i| slots[i].device);
            admitted.retain(|&i| i != cpu && !chain.contains(&i));
            chain.extend(admitted);
        }
        chain.push(cpu);
        // Devices that the environment turned off need no model.
        if let Some((device, _)) = self.costs.iter().find(|(d, _)| position(*d).is_none() && !self.cpu_only) {
            return Err(missing("a cost model", device));
        }
        let memory = MemoryManager::new(slots.iter().map(|slot| Arc::clone(&slot.pool)).collect());
        let shared = Shared {
            recorder: Recorder::new(slots.len()),
            slots,
            chain: chain.into(),
            cpu,
            memory,
            cost_cache: self.cost_cache,
            health: Health::default(),
            spans: SpanHub::default(),
        };
        let executor = HybridExecutor::assemble(
            Arc::new(shared),
            Placement::default(),
            self.on_fault,
            self.check_numbers,
            None,
        );
        let executor = executor.with_compute(self.compute)?;
        match self.placement {
            None => Ok(executor),
            Some(placement) => executor.with_policy(placement),
        }
    }
}

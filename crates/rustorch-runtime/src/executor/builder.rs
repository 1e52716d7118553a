//! `Builder` of an executor.

use super::{Handle, HybridExecutor, Shared};
use crate::cost::CostCache;
use crate::device_set::{DeviceSet, FallbackOrder};
use crate::device_state::DeviceState;
use crate::env::{DeviceChoice, Environment};
use crate::fallback::fallback_order;
use crate::placement::Placement;
use crate::registry::Registry;
use rustorch_core::{Backend, CostModel, Device, Error, Result};
use rustorch_cpu::CpuBackend;
use std::sync::Arc;
use std::time::Duration;

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
    fallback_order: Option<Vec<DeviceChoice>>,
    placement: Option<Placement>,
    on_fault: OnFault,
    check_numbers: bool,
    threads: Option<usize>,
    cpu_only: bool,
    costs: Vec<(Device, CostModel)>,
    cost_cache: Option<CostCache>,
    quarantine: Option<Duration>,
}

impl Builder {
    /// Adds a device. The order does not matter. Without a backend for the CPU, the process's is added.
    pub fn backend(mut self, backend: Arc<dyn Backend>) -> Builder {
        self.backends.push(backend);
        self
    }

    /// Sets the order in which devices are tried; by default [`fallback_order`]'s for those that were
    /// added. The CPU is added at the end where it is missing.
    pub fn fallback_order(mut self, fallback_order: impl Into<Vec<Device>>) -> Builder {
        self.fallback_order = Some(fallback_order.into().into_iter().map(DeviceChoice::One).collect());
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

    /// Sets the placement policy; [`Placement::Resident`] by default.
    pub fn placement(mut self, placement: Placement) -> Builder {
        self.placement = Some(placement);
        self
    }

    /// Sets whether results of devices other than the CPU are searched for NaN; see
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

    /// Has the CPU compute on so many threads of the executor's own; by default it shares those of the process.
    pub fn threads(mut self, threads: usize) -> Builder {
        self.threads = Some(threads);
        self
    }

    /// Sets for how long an operation at which a device failed is kept away from it; five minutes by default.
    pub fn quarantine(mut self, time: Duration) -> Builder {
        self.quarantine = Some(time);
        self
    }

    /// Follows the environment.
    ///
    /// # Errors
    /// If a variable makes no sense.
    pub fn environment(mut self, environment: &Environment) -> Result<Builder> {
        self.threads = environment.threads()?.or(self.threads);
        self.fallback_order = environment.devices()?.or(self.fallback_order);
        self.cpu_only = environment.disable_gpu()?;
        self.placement = environment.placement()?.or(self.placement);
        self.cost_cache = environment.cache_dir().map(CostCache::new).or(self.cost_cache);
        Ok(self)
    }

    /// The executor.
    ///
    /// # Errors
    /// If two backends are for one device; or if the fallback order, the policy or a cost model names a device that has none.
    pub fn build(self) -> Result<HybridExecutor> {
        let mut backends = self.backends;
        if self.cpu_only {
            backends.retain(|b| b.device().is_cpu());
        }
        if !backends.iter().any(|b| b.device().is_cpu()) {
            backends.push(match self.threads {
                Some(threads) => Arc::new(CpuBackend::new(threads)),
                None => Arc::clone(&Registry::get().cpu().backend),
            });
        }
        // The last one given counts.
        let given =
            |device: Device| self.costs.iter().rev().find(|(d, _)| *d == device).map(|(_, m)| m.clone());
        let slots: Box<[Arc<DeviceState>]> = backends
            .into_iter()
            .map(|backend| {
                let cost = given(backend.device());
                DeviceState::new(backend, cost)
            })
            .collect();
        for (i, slot) in slots.iter().enumerate() {
            if slots[..i].iter().any(|other| other.device == slot.device) {
                return Err(Error::argument("executor", format!("two backends are for {}", slot.device)));
            }
        }
        let position = |device: Device| slots.iter().position(|slot| slot.device == device);
        let cpu = position(Device::CPU).expect("a backend for the CPU was added above");
        let wanted = match self.fallback_order {
            Some(fallback_order) if !self.cpu_only => fallback_order,
            _ => {
                let present: Vec<Device> = slots.iter().map(|s| s.device).collect();
                fallback_order(&present).into_iter().map(DeviceChoice::One).collect()
            }
        };
        let missing = |what: &str, name: &dyn std::fmt::Display| {
            let present: Vec<String> = slots.iter().map(|s| s.device.to_string()).collect();
            let message = format!("{what} names {name}, which is not here; there is {}", present.join(", "));
            Error::argument("executor", message)
        };
        let mut fallback_order = Vec::new();
        for choice in wanted {
            let mut admitted: Vec<usize> =
                (0..slots.len()).filter(|&i| choice.admits(slots[i].device)).collect();
            if admitted.is_empty() {
                return Err(missing("the fallback order", &choice));
            }
            admitted.sort_by_key(|&i| slots[i].device);
            admitted.retain(|&i| i != cpu && !fallback_order.contains(&i));
            fallback_order.extend(admitted);
        }
        fallback_order.push(cpu);
        // Devices that the environment turned off need no model.
        if let Some((device, _)) = self.costs.iter().find(|(d, _)| position(*d).is_none() && !self.cpu_only) {
            return Err(missing("a cost model", device));
        }
        let order: FallbackOrder = fallback_order.into_iter().map(|i| Arc::clone(&slots[i])).collect();
        let mut shared = Shared::new(DeviceSet::built(slots, order), self.cost_cache);
        if let Some(time) = self.quarantine {
            shared.quarantine = time;
        }
        let executor = HybridExecutor::assemble(Handle {
            on_fault: self.on_fault,
            check_numbers: self.check_numbers,
            ..Handle::new(Arc::new(shared))
        });
        match self.placement {
            None => Ok(executor),
            Some(placement) => executor.with_policy(placement),
        }
    }
}

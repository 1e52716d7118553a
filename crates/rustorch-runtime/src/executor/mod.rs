//! The executor: one backend per device, and a decision for every operation.

mod arrange;
mod builder;
mod current;
mod dispatch;
mod into;
mod operand;
mod plan;
mod profiling;
mod run;
mod tiny;
mod transfer;

pub use builder::{Builder, OnFault};
pub use operand::{Operand, Output, OutputVec, Receive};
pub use plan::Estimate;

use crate::cost::{self, CostCache};
use crate::explain::Explanation;
use crate::health::Health;
use crate::memory::{MemoryManager, Pool};
use crate::placement::Placement;
use crate::profile::SpanHub;
use crate::record::{DeviceCounts, Record, Recorder, Scope};
use crate::transfers::Transfers;
use rustorch_core::{Backend, CostModel, DType, Device, DeviceType, Error, Result};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Runs operations on whichever of its devices suits each best. Cloning is cheap and shares everything.
///
/// Devices, memory and health are shared by all executors that were derived from one (by
/// [`with_policy`](HybridExecutor::with_policy), say).
#[derive(Clone)]
pub struct HybridExecutor(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    placement: Placement,
    on_fault: OnFault,
    /// Whether the results of devices other than the processor are searched for NaN.
    check_numbers: bool,
    /// Operations on data of at most so many bytes, all on the processor, run there without planning.
    fast_bytes: usize,
    /// The dtype to compute in, if not the data's own.
    compute: Option<DType>,
}

/// What executors derived from each other have in common.
struct Shared {
    slots: Box<[Slot]>,
    /// Indices into `slots`, first choice first; the processor is last.
    chain: Box<[usize]>,
    /// The processor's index in `slots`.
    cpu: usize,
    memory: MemoryManager,
    /// Where measurements are kept.
    cost_cache: Option<CostCache>,
    health: Health,
    recorder: Recorder,
    /// What devices measure of themselves while somebody profiles.
    spans: SpanHub,
}

/// What a [`DeviceType`] means on this machine.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where new tensors go.
    pub device: Device,
    /// The executor that follows the wish.
    pub executor: HybridExecutor,
    /// The dtype to compute in, if not the data's own: the executor's [`compute`](HybridExecutor::compute).
    pub compute: Option<DType>,
}

/// A device and what belongs to it.
struct Slot {
    device: Device,
    backend: Arc<dyn Backend>,
    pool: Arc<Pool>,
    /// What it costs, once somebody needs to know.
    cost: OnceLock<CostModel>,
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
        self.0.shared.memory.transfers()
    }

    /// How long a device takes. If that is not known yet, the device is measured now, or an earlier measurement read.
    ///
    /// # Errors
    /// If the executor does not have the device.
    pub fn cost_model(&self, device: Device) -> Result<&CostModel> {
        self.slot(device).map(|slot| self.cost_of(slot))
    }

    fn cost_of<'a>(&self, slot: &'a Slot) -> &'a CostModel {
        slot.cost.get_or_init(|| cost::cost_of(&slot.backend, self.0.shared.cost_cache.as_ref()))
    }

    /// The placement policy.
    pub fn placement(&self) -> &Placement {
        &self.0.placement
    }

    /// An executor with the same devices, memory and health, and another policy.
    ///
    /// # Errors
    /// If the policy names a device that is not here; the error lists those that are.
    pub fn with_policy(&self, placement: Placement) -> Result<HybridExecutor> {
        for device in placement.named() {
            self.index(device)?;
        }
        Ok(self.derive(placement, self.0.on_fault, self.0.check_numbers, self.0.compute))
    }

    /// An executor with the same devices, memory and health, that falls back or returns the first failure.
    pub fn with_on_fault(&self, on_fault: OnFault) -> HybridExecutor {
        self.derive(self.0.placement.clone(), on_fault, self.0.check_numbers, self.0.compute)
    }

    /// An executor with the same devices, memory and health, that searches the results of devices other than the
    /// processor for NaN (slow: all results are fetched). A NaN that the processor confirms is the computation's own;
    /// another one is the device's failure.
    pub fn with_number_check(&self, check: bool) -> HybridExecutor {
        self.derive(self.0.placement.clone(), self.0.on_fault, check, self.0.compute)
    }

    /// The dtype to compute in, if not the data's own.
    #[inline]
    pub fn compute(&self) -> Option<DType> {
        self.0.compute
    }

    /// An executor with the same devices, memory and health, under which everything is computed in one dtype. `F32`:
    /// activations meet weights of 16 bits and of block types as they are
    /// ([`MatMul::exact`](rustorch_core::MatMul::exact)), and language models keep keys and values in `f32`. `None`:
    /// everything in the data's own precision, as ggml does it.
    ///
    /// The executor runs every operation as it is given; those who make operations follow this wish: the products of
    /// tensors, and the models of `rustorch-llm`.
    ///
    /// # Errors
    /// If the dtype is another one than `F32`.
    pub fn with_compute(&self, dtype: Option<DType>) -> Result<HybridExecutor> {
        match dtype {
            None | Some(DType::F32) => {
                let Handle { placement, on_fault, check_numbers, .. } = &*self.0;
                Ok(self.derive(placement.clone(), *on_fault, *check_numbers, dtype))
            }
            Some(other) => {
                let message = format!("everything can be computed in f32, not in {other}");
                Err(Error::argument("compute", message))
            }
        }
    }

    fn derive(
        &self,
        placement: Placement,
        on_fault: OnFault,
        check_numbers: bool,
        compute: Option<DType>,
    ) -> HybridExecutor {
        HybridExecutor::assemble(Arc::clone(&self.0.shared), placement, on_fault, check_numbers, compute)
    }

    fn assemble(
        shared: Arc<Shared>,
        placement: Placement,
        on_fault: OnFault,
        check_numbers: bool,
        compute: Option<DType>,
    ) -> HybridExecutor {
        let fast_bytes = placement.small(shared.chain.len() == 1);
        HybridExecutor(Arc::new(Handle { shared, placement, on_fault, check_numbers, fast_bytes, compute }))
    }

    /// The device and the executor that a person means by `wanted`.
    ///
    /// One device: that one first, the chain where it declines. `Auto`: the cheapest for each operation. The hybrids:
    /// the first of the chain that can; `HybridF32` also [computes](Self::with_compute) everything in `f32`.
    ///
    /// # Errors
    /// If the device is not here; the error lists those that are.
    pub fn resolve(&self, wanted: DeviceType) -> Result<Target> {
        let first = self.chain().next().unwrap_or(Device::Cpu);
        let (device, placement, compute) = match wanted {
            DeviceType::Only(device) => (device, Placement::Prefer(device), None),
            DeviceType::Auto => (Device::Cpu, Placement::Auto, None),
            DeviceType::Hybrid => (first, Placement::Chain, None),
            DeviceType::HybridF32 => (first, Placement::Chain, Some(DType::F32)),
        };
        self.index(device)?;
        Ok(Target { device, executor: self.with_policy(placement)?.with_compute(compute)?, compute })
    }

    /// The health of the devices.
    pub fn health(&self) -> &Health {
        &self.0.shared.health
    }

    /// How often a device ran, declined and failed; `None` if the executor does not have it.
    pub fn counts(&self, device: Device) -> Option<DeviceCounts> {
        self.index(device).ok().map(|slot| self.0.shared.recorder.counts(slot))
    }

    /// Starts or stops keeping records of all threads' operations, for [`take_records`](Self::take_records). While
    /// records are kept, every operation takes the way through the planner.
    pub fn set_recording(&self, on: bool) {
        self.0.shared.recorder.set_recording(on);
    }

    /// The records kept since the last call, the newest 4096 at most.
    pub fn take_records(&self) -> Vec<Record> {
        self.0.shared.recorder.take()
    }

    /// Runs `f` with this as the current executor, and explains every operation that this thread dispatched meanwhile.
    pub fn explain<R>(&self, f: impl FnOnce() -> R) -> (R, Explanation) {
        let scope = Scope::of_this_thread(&self.0.shared.recorder);
        let result = self.scope(f);
        (result, Explanation::new(scope.finish().records))
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

//! The executor: one backend per device, and a decision for every operation.

mod arrange;
mod builder;
mod capture;
mod dispatch;
mod fast_path;
mod foresee;
mod into;
mod operand;
mod plan;
mod prepared;
#[cfg(feature = "profile")]
mod profiling;
mod recording;
mod region;
mod run;
mod transfer;

pub use builder::{Builder, OnFault};
pub(crate) use fast_path::MOST as FAST_PATH_ELEMENTS;
pub(crate) use foresee::{ForeseenArg, Foresight};
pub use operand::{FromOutput, Operand, Output, OutputVec, TargetDevice};
pub use plan::Estimate;
pub(crate) use prepared::{ReadyOp, may_overwrite};
pub(crate) use region::{Compiled, RegionCall, RegionFailure};
pub(crate) use run::total_bytes;

use crate::cost::CostCache;
use crate::device_set::DeviceSet;
use crate::device_state::DeviceState;
use crate::explain::Explanation;
use crate::graph::Capture;
use crate::health::{Health, Warnings};
use crate::memory::MemoryManager;
use crate::placement::{OpTable, Placement};
#[cfg(feature = "profile")]
use crate::profile::SpanHub;
use crate::record::{DeviceCounts, Record, Recorder, Scope};
use crate::registry::Registry;
use crate::transfers::Transfers;
use rustorch_core::{Backend, CostModel, Device, DeviceType, Error, OpType, Result};
use smallvec::SmallVec;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Runs operations on whichever of its devices suits each best. Cloning is cheap and shares everything.
///
/// Devices, memory and health are shared by all executors that were derived from one (by
/// [`with_policy`](HybridExecutor::with_policy), say).
#[derive(Clone)]
pub struct HybridExecutor(Arc<Handle>);

#[derive(Clone)]
struct Handle {
    shared: Arc<Shared>,
    placement: Placement,
    /// The devices that the policy names.
    named: SmallVec<[Arc<DeviceState>; 2]>,
    on_fault: OnFault,
    /// Whether the results of devices other than the CPU are searched for NaN.
    check_numbers: bool,
    /// Operations on data of at most so many bytes, all on the CPU, run there without planning.
    fast_bytes: usize,
    /// What every operation is answered with, where the environment asks for a policy that makes no sense.
    refusal: Option<Error>,
    /// Where operations are recorded instead of run.
    capture: Option<Arc<Capture>>,
    /// Whether operations are those between a graph's regions, whose results stay where they are computed.
    is_partitioned: bool,
    /// The device for which others stand in, since it failed at what it had compiled of these operations.
    avoided: Option<Arc<DeviceState>>,
}

impl Handle {
    fn new(shared: Arc<Shared>) -> Handle {
        Handle {
            shared,
            placement: Placement::default(),
            named: SmallVec::new(),
            on_fault: OnFault::default(),
            check_numbers: false,
            fast_bytes: 0,
            refusal: None,
            capture: None,
            is_partitioned: false,
            avoided: None,
        }
    }
}

/// What executors derived from each other have in common.
struct Shared {
    devices: Arc<DeviceSet>,
    memory: MemoryManager,
    /// Where measurements are kept.
    cost_cache: Option<CostCache>,
    /// For how long an operation at which a device failed is kept away from it.
    quarantine: Duration,
    warnings: Warnings,
    recorder: Recorder,
    /// What devices measure of themselves while somebody profiles.
    #[cfg(feature = "profile")]
    spans: SpanHub,
}

impl Shared {
    fn new(devices: DeviceSet, cost_cache: Option<CostCache>) -> Shared {
        let devices = Arc::new(devices);
        Shared {
            memory: MemoryManager::new(Arc::clone(&devices)),
            devices,
            cost_cache,
            quarantine: QUARANTINE,
            warnings: Warnings::default(),
            recorder: Recorder::default(),
            #[cfg(feature = "profile")]
            spans: SpanHub::default(),
        }
    }
}

/// For how long an operation at which a device failed is kept away from it.
const QUARANTINE: Duration = Duration::from_secs(300);

/// What a [`DeviceType`] means on this machine.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where new tensors go.
    pub device: Device,
    /// The executor that follows the wish.
    pub executor: HybridExecutor,
}

impl HybridExecutor {
    /// Starts building an executor.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// An executor over a set of devices, by the default policy.
    pub(crate) fn over(devices: DeviceSet, cost_cache: Option<PathBuf>) -> HybridExecutor {
        let shared = Shared::new(devices, cost_cache.map(CostCache::new));
        HybridExecutor::assemble(Handle::new(Arc::new(shared)))
    }

    /// An executor over the devices of the process that answers every operation with an error.
    pub(crate) fn refusing(error: Error) -> HybridExecutor {
        let base = HybridExecutor::of_registry(Registry::get());
        HybridExecutor::assemble(Handle { refusal: Some(error), ..(*base.0).clone() })
    }

    /// The devices in the order in which they are tried; the CPU is last. The process's devices are looked for now if they were
    /// not before.
    ///
    /// # Errors
    /// If the environment asks for an order that makes no sense or names devices that are not here.
    pub fn fallback_order(&self) -> Result<Vec<Device>> {
        Ok(self.0.shared.devices.order()?.iter().map(|state| state.device).collect())
    }

    /// The backend of a device.
    ///
    /// # Errors
    /// If the executor does not have the device; the error lists those that it has.
    pub fn backend(&self, device: Device) -> Result<Arc<dyn Backend>> {
        Ok(Arc::clone(&self.state(device)?.backend))
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
    pub fn cost_model(&self, device: Device) -> Result<CostModel> {
        Ok(self.cost_of(&*self.state(device)?).clone())
    }

    pub(crate) fn cost_of<'a>(&self, state: &'a DeviceState) -> &'a CostModel {
        state.cost(self.0.shared.cost_cache.as_ref())
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
        let named = placement.named().into_iter().map(|device| self.state(device)).collect::<Result<_>>()?;
        Ok(HybridExecutor::assemble(Handle { placement, named, refusal: None, ..(*self.0).clone() }))
    }

    /// An executor with the same devices, memory and health, that falls back or returns the first failure.
    pub fn with_on_fault(&self, on_fault: OnFault) -> HybridExecutor {
        HybridExecutor::assemble(Handle { on_fault, ..(*self.0).clone() })
    }

    /// An executor with the same devices, memory and health, that searches the results of devices other than the
    /// CPU for NaN (slow: all results are fetched). A NaN that the CPU confirms is the computation's own;
    /// another one is the device's failure.
    pub fn with_number_check(&self, check: bool) -> HybridExecutor {
        HybridExecutor::assemble(Handle { check_numbers: check, ..(*self.0).clone() })
    }

    /// An executor that leaves results where they are computed, also where the device that holds the arguments cannot compute them: a device
    /// that only compiles regions is not to get back what others made of its results.
    pub(crate) fn partitioned(&self) -> HybridExecutor {
        HybridExecutor::assemble(Handle { is_partitioned: true, ..(*self.0).clone() })
    }

    /// An executor that gives nothing to a device; itself, if the policy allows no other, or behind the device there is none.
    pub(crate) fn avoiding(&self, state: &Arc<DeviceState>) -> HybridExecutor {
        match state.device.is_cpu() || self.0.placement == Placement::Require(state.device) {
            true => self.clone(),
            false => {
                HybridExecutor::assemble(Handle { avoided: Some(Arc::clone(state)), ..(*self.0).clone() })
            }
        }
    }

    /// Whether a device gets no operations.
    fn avoids(&self, state: &Arc<DeviceState>) -> bool {
        self.0.avoided.as_ref().is_some_and(|avoided| Arc::ptr_eq(avoided, state))
    }

    /// Whether the first failure of a device is returned.
    pub(crate) fn returns_faults(&self) -> bool {
        self.0.on_fault == OnFault::Error
    }

    fn assemble(mut handle: Handle) -> HybridExecutor {
        handle.fast_bytes = match handle.refusal.is_some() || handle.capture.is_some() {
            true => 0,
            false => handle.placement.small(handle.shared.devices.is_cpu_alone()),
        };
        HybridExecutor(Arc::new(handle))
    }

    /// The device and the executor that a person means by `wanted`.
    ///
    /// One device: that one first, the fallback order where it declines. `Auto`: operations run where their operands are, so that
    /// whoever puts weights onto devices decides. `Hybrid`: each operation on the cheapest device by measured cost. Core ML runs no operations, and
    /// tensors stay on the CPU: it gets regions of programs, as far as the policy would give it their operations.
    ///
    /// # Errors
    /// If a device is not here; the error lists those that are.
    pub fn resolve(&self, wanted: DeviceType) -> Result<Target> {
        for device in wanted.needs() {
            self.state(device)?;
        }
        let order = |devices: &[Device]| Placement::Order(SmallVec::from_slice(devices));
        let (device, placement) = match wanted {
            DeviceType::Only(Device::COREML) => (Device::CPU, order(&[Device::COREML])),
            DeviceType::Only(device) => (device, Placement::Prefer(device)),
            DeviceType::Auto => (Device::CPU, Placement::Resident),
            DeviceType::Hybrid | DeviceType::CoreMlHybrid(None) => (Device::CPU, Placement::Auto),
            DeviceType::CoreMlHybrid(Some(next)) => (Device::CPU, order(&[Device::COREML, next])),
            DeviceType::MacHybrid => {
                let metal = Device::metal(0);
                let table = OpTable::new()
                    .class(OpType::LinearAlgebra, metal)
                    .class(OpType::Normalization, metal)
                    .class(OpType::Convolution, Device::COREML);
                (Device::CPU, Placement::ByOp(table))
            }
        };
        if placement.asks_for_all() || wanted == DeviceType::Auto {
            // What is wrong with the order shows now.
            self.fallback_order()?;
        }
        Ok(Target { device, executor: self.with_policy(placement)? })
    }

    /// The health of the devices.
    pub fn health(&self) -> Health<'_> {
        Health(&self.0.shared.devices)
    }

    /// How often a device ran, declined and failed; `None` if the executor does not have it.
    pub fn counts(&self, device: Device) -> Option<DeviceCounts> {
        self.state(device).ok().map(|state| state.counts())
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
        let state = self.state(device)?;
        Ok(state.noted(state.backend.synchronize())?)
    }

    /// The device of this name, opened if it is one of the process and was not before.
    pub(crate) fn state(&self, device: Device) -> Result<Arc<DeviceState>> {
        self.0.shared.devices.find(device)
    }

    pub(crate) fn cpu(&self) -> &Arc<DeviceState> {
        self.0.shared.devices.cpu()
    }

    /// Whether operations on data that is all on the CPU run there, whatever their size.
    pub(crate) fn runs_all_on_cpu(&self) -> bool {
        self.0.fast_bytes == usize::MAX
    }

    /// Whether operations on data that is all on this device run there, as far as it can, and nobody watches them.
    pub fn runs_plainly(&self, device: Device) -> bool {
        match device.is_cpu() {
            true => self.runs_plainly_on_cpu(),
            false => self.state(device).is_ok_and(|state| self.runs_plainly_on(&state)),
        }
    }

    /// Whether operations on data that is all on the CPU run there, whatever their size, and nobody watches them.
    pub fn runs_plainly_on_cpu(&self) -> bool {
        self.runs_all_on_cpu() && !self.0.shared.recorder.is_watched()
    }
}

impl fmt::Debug for HybridExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HybridExecutor")
            .field(&self.0.shared.devices.open().iter().map(|state| state.device).collect::<Vec<_>>())
            .finish()
    }
}

//! `DeviceManager`: lists devices, sets the current one, and reports memory use.

use crate::device_state::DeviceState;
use crate::memory::MemoryStats;
use crate::{HybridExecutor, Target};
use rustorch_core::{Device, DeviceType, Error, Result, StreamScope};
use std::sync::{Arc, PoisonError, RwLock};

/// Lists the devices of an executor and chooses among them.
///
/// ```
/// use rustorch_core::{Device, DeviceType};
/// use rustorch_runtime::{DeviceManager, HybridExecutor};
///
/// let manager = DeviceManager::new(HybridExecutor::builder().build()?);
/// assert!(!manager.is_gpu_available());
/// manager.set_device(DeviceType::Only(Device::CPU))?;
/// assert_eq!(manager.current_device(), Device::CPU);
/// manager.scope(|| { /* operations here run on the CPU */ });
/// # Ok::<(), rustorch_core::Error>(())
/// ```
pub struct DeviceManager {
    base: HybridExecutor,
    current: RwLock<Target>,
}

/// What is known of a device without using it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// Which one.
    pub device: Device,
    /// Its name.
    pub name: String,
    /// Its driver's version; empty where there is none.
    pub driver: String,
    /// Its memory in bytes, if known.
    pub memory: Option<u64>,
    /// Whether it failed for good, so that nothing runs there any more.
    pub lost: bool,
}

/// How a [context](DeviceManager::context) may use its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextOptions {
    /// The most bytes that may be taken from the device at once; see
    /// [`MemoryManager::set_limit`](crate::MemoryManager::set_limit). Unlimited if not given.
    pub pool_size: Option<usize>,
    /// How many streams of overlapping work are wanted; as many as there are if not given. A device that cannot have so many
    /// has fewer, which [`DeviceContext::streams`] tells.
    pub streams: Option<usize>,
}

/// A device with a limit on its memory and with streams; while it lives, both hold for all executors of these devices. Of several
/// that overlap the newest counts; they may be dropped in any order. Where
/// the device cannot run an operation, or memory does not suffice, the fallback order does.
///
/// Each thread works on one stream: threads take them in turn, or go to one by [`on_stream`](Self::on_stream). The work of a
/// stream is done in order, that of several may overlap. No thread need care which stream has written what it reads: where data
/// goes from one stream to another, the device waits as long as it must. Vulkan and Metal have one stream each; OpenCL and CUDA
/// have up to 16.
///
/// ```
/// use rustorch_core::Device;
/// use rustorch_runtime::{ContextOptions, DeviceManager, HybridExecutor};
///
/// let manager = DeviceManager::new(HybridExecutor::builder().build()?);
/// # let device = Device::CPU;
/// let options = ContextOptions { streams: Some(4), ..ContextOptions::default() };
/// let context = manager.context(device, options)?;
/// println!("{} has {} streams", context.device(), context.streams());
/// std::thread::scope(|scope| {
///     for stream in 0..context.streams() {
///         let context = &context;
///         scope.spawn(move || context.on_stream(stream, || { /* operations here overlap with others */ }));
///     }
/// });
/// context.synchronize()?;
/// # Ok::<(), rustorch_core::Error>(())
/// ```
pub struct DeviceContext {
    executor: HybridExecutor,
    state: Arc<DeviceState>,
    /// Its number among the device's.
    id: u64,
    streams: usize,
}

impl DeviceManager {
    /// The devices of an executor; the current one is where its policy would begin: the CPU under
    /// [`Placement::Auto`](crate::Placement::Auto), else the first of the fallback order or the one that the policy names.
    pub fn new(executor: HybridExecutor) -> DeviceManager {
        // Tensors are not made for Core ML, which has no operations.
        let named = executor.placement().named().into_iter().find(|device| *device != Device::COREML);
        let device = match executor.placement() {
            crate::Placement::Auto | crate::Placement::Resident | crate::Placement::CpuOnly => Device::CPU,
            _ => named.or_else(|| executor.fallback_order().ok()?.first().copied()).unwrap_or(Device::CPU),
        };
        let target = Target { device, executor: executor.clone() };
        DeviceManager { base: executor, current: RwLock::new(target) }
    }

    /// Every device that there is, the CPU included, in fallback order; then those outside it.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        let mut order = self.base.fallback_order().unwrap_or_default();
        let others = self.base.memory().devices();
        order.extend(others.into_iter().filter(|device| !order.contains(device)).collect::<Vec<_>>());
        let lost = self.base.health().lost();
        let info = |device: Device| {
            let backend = self.base.backend(device).ok()?;
            let capability = backend.capability();
            Some(DeviceInfo {
                device,
                name: capability.name.clone(),
                driver: capability.driver.clone(),
                memory: capability.memory,
                lost: lost.contains(&device),
            })
        };
        order.into_iter().filter_map(info).collect()
    }

    /// Whether there is a device beside the CPU that has not failed for good; Core ML is none, since it runs no operations.
    pub fn is_gpu_available(&self) -> bool {
        let is_gpu = |device: Device| !device.is_cpu() && device != Device::COREML;
        self.devices().iter().any(|info| is_gpu(info.device) && !info.lost)
    }

    /// Makes a device the current one, or a way of choosing: see [`HybridExecutor::resolve`].
    ///
    /// # Errors
    /// If the device is not here (the error lists those that are), or has failed for good.
    pub fn set_device(&self, wanted: DeviceType) -> Result<()> {
        let target = self.base.resolve(wanted)?;
        self.check(target.device)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = target;
        Ok(())
    }

    /// The device where new tensors go.
    pub fn current_device(&self) -> Device {
        self.target().device
    }

    /// The executor that follows the current choice.
    pub fn executor(&self) -> HybridExecutor {
        self.target().executor
    }

    /// Runs `f` with that executor as the thread's current one.
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        self.executor().scope(f)
    }

    /// A context for work on a device, with a limit on its memory and with streams. Where the number of streams changes, this
    /// waits until the device has finished everything.
    ///
    /// # Errors
    /// If the device is not here or has failed for good, or no stream at all is asked for.
    pub fn context(&self, device: Device, options: ContextOptions) -> Result<DeviceContext> {
        let target = self.base.resolve(DeviceType::Only(device))?;
        self.check(device)?;
        if options.streams == Some(0) {
            return Err(Error::argument("context", "a device works on one stream at least"));
        }
        let state = self.base.state(device)?;
        let (id, streams) = state.enter_context(options.pool_size, options.streams);
        Ok(DeviceContext { executor: target.executor, state, id, streams })
    }

    fn target(&self) -> Target {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn check(&self, device: Device) -> Result<()> {
        if self.base.health().lost().contains(&device) {
            return Err(Error::argument("device", format!("{device} failed earlier in this process")));
        }
        Ok(())
    }
}

impl DeviceContext {
    /// The device.
    pub fn device(&self) -> Device {
        self.state.device
    }

    /// How many streams the device has; where fewer than asked for, it cannot have more.
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// The limit on the device's memory.
    pub fn pool_size(&self) -> Option<usize> {
        self.executor.memory().limit(self.state.device)
    }

    /// What the device's allocator has done.
    pub fn memory(&self) -> MemoryStats {
        self.executor.memory().stats(self.state.device).unwrap_or_default()
    }

    /// The executor that prefers the device.
    pub fn executor(&self) -> &HybridExecutor {
        &self.executor
    }

    /// Runs `f` with that executor as the thread's current one.
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        self.executor.scope(f)
    }

    /// Runs `f` as [`scope`](Self::scope) does, with this thread on a stream of its choice: that of this index, or of the
    /// remainder by their number.
    pub fn on_stream<R>(&self, stream: usize, f: impl FnOnce() -> R) -> R {
        let _stream = StreamScope::enter(stream);
        self.scope(f)
    }

    /// Waits until the device has finished everything.
    ///
    /// # Errors
    /// If the device fails.
    pub fn synchronize(&self) -> Result<()> {
        self.executor.synchronize(self.state.device)
    }
}

impl Drop for DeviceContext {
    fn drop(&mut self) {
        self.state.leave_context(self.id);
    }
}

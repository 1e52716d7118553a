//! The devices of the process, by name.
//!
//! The registry answers names: which kinds of devices there are, which devices of a kind, and the one backend that each has
//! in this process. It looks for the devices of a kind when one of them is named or the whole fallback order is asked for,
//! never before, and opens each when it is used first. Tensors carry their backend, so that nothing else needs the
//! registry; executors that are [built](crate::HybridExecutor::builder) leave it alone.
//!
//! The devices of this workspace are here where the Cargo features `cuda`, `wgpu` and `opencl` are on. A crate of its own
//! adds another kind:
//!
//! ```
//! use rustorch_core::{Backend, Device, DeviceKind, KindInfo};
//! use rustorch_cpu::CpuBackend;
//! use rustorch_runtime::registry::{self, DeviceCandidate, Discovery, Provider};
//!
//! # use std::sync::Arc;
//! # fn open() -> Result<Arc<dyn Backend>, String> { Err("there is none in the drawer".into()) }
//! let kind = DeviceKind::register(KindInfo::new("toaster"))?;
//! registry::register(Provider {
//!     kind,
//!     discover: || Discovery { devices: vec![DeviceCandidate::hardware(open)], ..Discovery::default() },
//! })?;
//! let error = registry::backend("toaster:0".parse()?).err().map(|error| error.to_string());
//! assert!(error.is_some_and(|text| text.contains("there is none in the drawer")));
//! # Ok::<(), rustorch_core::Error>(())
//! ```

mod known;
mod provider;
mod resolve;

pub use provider::{DeviceCandidate, DiscoveredDevice, Discovery, Provider};
pub use resolve::{executor, target};

use crate::device_set::FallbackOrder;
use crate::device_state::DeviceState;
use crate::env::{DeviceChoice, Environment};
use crate::fallback::supersedes;
use known::KnownKind;
use rustorch_core::{Backend, Device, DeviceKind, Error, Result};
use rustorch_cpu::CpuBackend;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// The one registry of the process.
static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry {
    environment: Environment::read(),
    kinds: RwLock::new(provider::built_in().into_iter().map(KnownKind::new).map(Arc::new).collect()),
    threads: Mutex::default(),
    cpu: OnceLock::new(),
    state: Mutex::default(),
});

/// Adds a kind of devices to those of the process.
///
/// # Errors
/// If the kind has a provider already.
pub fn register(provider: Provider) -> Result<()> {
    Registry::get().register(provider)
}

/// The backend of a device of the process, which is opened now if it was not before.
///
/// # Errors
/// If it is not here; the error says why and lists those that are.
pub fn backend(device: Device) -> Result<Arc<dyn Backend>> {
    Ok(Arc::clone(&Registry::get().find(device)?.backend))
}

/// Looks for every device of every kind and opens them all, also those that the environment leaves out. The CPU is first;
/// of each kind without a device the reason is told.
pub fn discover() -> Vec<DiscoveredDevice> {
    let registry = Registry::get();
    let mut found = vec![DiscoveredDevice::Present(Arc::clone(&registry.cpu().backend))];
    for kind in DeviceKind::all().filter(|kind| !kind.is_cpu()) {
        let (states, reasons) = registry.open_all(kind, true);
        if states.is_empty() {
            found.push(DiscoveredDevice::Absent { kind, reason: reasons });
        }
        found.extend(states.iter().map(|state| DiscoveredDevice::Present(Arc::clone(&state.backend))));
    }
    found
}

/// Sets on how many threads the CPU computes in this process, at most as many as the system runs at once: more would wait for each other. By
/// default `RUSTORCH_THREADS` says, else there is one for each physical core.
///
/// # Errors
/// If the CPU computes on another number of threads already, or for no thread at all.
pub fn set_cpu_threads(threads: usize) -> Result<()> {
    Registry::get().set_threads(threads)
}

pub(crate) struct Registry {
    pub(crate) environment: Environment,
    /// Those that have a provider.
    kinds: RwLock<Vec<Arc<KnownKind>>>,
    /// On how many threads the CPU is to compute, and does from when it is there.
    threads: Mutex<Option<usize>>,
    cpu: OnceLock<Arc<DeviceState>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is open beside the CPU, in the order of ranks, with the CPU; none if nothing was opened yet.
    open: Option<FallbackOrder>,
    /// The whole fallback order, once it was asked for.
    order: Option<FallbackOrder>,
}

impl Registry {
    pub(crate) fn get() -> &'static Registry {
        &REGISTRY
    }

    pub(crate) fn cpu(&self) -> &Arc<DeviceState> {
        self.cpu.get_or_init(|| {
            let mut threads = lock(&self.threads);
            let count = threads.or_else(|| match self.environment.threads() {
                Ok(threads) => threads,
                Err(error) => {
                    tracing::warn!("{error}; the CPU computes on all cores");
                    None
                }
            });
            let backend = CpuBackend::new(count.map_or_else(physical_cores, |count| count.min(at_once())));
            *threads = Some(backend.threads());
            DeviceState::new(Arc::new(backend), None)
        })
    }

    fn set_threads(&self, wanted: usize) -> Result<()> {
        let mut threads = lock(&self.threads);
        let asked = wanted;
        let wanted = wanted.min(at_once());
        let refuse = |why: String| Err(Error::argument("threads", why));
        match (self.cpu.get(), *threads) {
            _ if asked == 0 => refuse("the CPU computes on one thread at least".to_owned()),
            (Some(_), Some(running)) if running != wanted => refuse(format!(
                "the CPU computes on {running} threads already; set {asked} before the first operation"
            )),
            _ => {
                *threads = Some(wanted);
                Ok(())
            }
        }
    }

    fn register(&self, provider: Provider) -> Result<()> {
        let kind = provider.kind;
        let mut kinds = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        if kind.is_cpu() || kinds.iter().any(|known| known.kind() == kind) {
            return Err(Error::argument("register", format!("{kind} has a provider already")));
        }
        kinds.push(Arc::new(KnownKind::new(provider)));
        drop(kinds);
        // It may have a place in the fallback order.
        lock(&self.state).order = None;
        Ok(())
    }

    /// The device of this name, opened if it was not before.
    pub(crate) fn find(&self, device: Device) -> Result<Arc<DeviceState>> {
        self.look_for(device)?.map_err(|why| {
            let present = self.names().join(", ");
            Error::argument("device", format!("{device} is not here ({why}); there is {present}"))
        })
    }

    /// The device of this name, or why it is not here.
    ///
    /// # Errors
    /// If the environment makes no sense.
    fn look_for(&self, device: Device) -> Result<std::result::Result<Arc<DeviceState>, String>> {
        if device.is_cpu() {
            return Ok(Ok(Arc::clone(self.cpu())));
        }
        if self.environment.disable_gpu()? {
            return Ok(Err("RUSTORCH_DISABLE_GPU keeps to the CPU".to_owned()));
        }
        if let Some(choices) = self.environment.devices()?
            && !choices.iter().any(|choice| choice.admits(device))
        {
            return Ok(Err("RUSTORCH_DEVICES leaves it out".to_owned()));
        }
        Ok(match self.known(device.kind()) {
            Some(known) => known.open(device.index(), self),
            None => Err(no_provider()),
        })
    }

    /// Every device that was found, whether it is open or not.
    fn names(&self) -> Vec<String> {
        let all = self.kinds.read().unwrap_or_else(PoisonError::into_inner).clone();
        let others = all.iter().flat_map(|known| known.devices());
        [Device::CPU].into_iter().chain(others).map(|device| device.to_string()).collect()
    }

    /// Opens every device of a kind, software devices only where asked for, and says what kept others away.
    fn open_all(&self, kind: DeviceKind, software: bool) -> (Vec<Arc<DeviceState>>, String) {
        match self.known(kind) {
            Some(known) => known.open_all(software, self),
            None => (Vec::new(), no_provider()),
        }
    }

    fn known(&self, kind: DeviceKind) -> Option<Arc<KnownKind>> {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        kinds.iter().find(|known| known.kind() == kind).cloned()
    }

    /// Adds to those that are open.
    fn opened(&self, opened: Arc<DeviceState>) {
        let cpu = self.cpu();
        let mut state = lock(&self.state);
        let before = state.open.take().unwrap_or_else(|| Arc::new([Arc::clone(cpu)]));
        let mut open: Vec<Arc<DeviceState>> = before.iter().cloned().chain([opened]).collect();
        open.sort_by_key(|state| (state.device.kind().info().fallback_rank, state.device));
        state.open = Some(open.into());
    }

    /// The devices that are open, by the rank of their kinds, the CPU last.
    pub(crate) fn open(&self) -> FallbackOrder {
        let cpu = self.cpu();
        Arc::clone(lock(&self.state).open.get_or_insert_with(|| Arc::new([Arc::clone(cpu)])))
    }

    /// The whole fallback order: what `RUSTORCH_DEVICES` says, else the hardware that is here, by the rank of its kinds.
    pub(crate) fn order(&self) -> Result<FallbackOrder> {
        if let Some(order) = &lock(&self.state).order {
            return Ok(Arc::clone(order));
        }
        // Without the lock: opening devices takes it. Two threads that look at once find the same.
        let mut order: Vec<Arc<DeviceState>> =
            match (self.environment.disable_gpu()?, self.environment.devices()?) {
                (true, _) => Vec::new(),
                (false, Some(choices)) => self.chosen(&choices)?,
                (false, None) => self.hardware(),
            };
        order.push(Arc::clone(self.cpu()));
        let order: FallbackOrder = order.into();
        lock(&self.state).order = Some(Arc::clone(&order));
        Ok(order)
    }

    /// The devices that `RUSTORCH_DEVICES` names, without the CPU.
    fn chosen(&self, choices: &[DeviceChoice]) -> Result<Vec<Arc<DeviceState>>> {
        let mut order: Vec<Arc<DeviceState>> = Vec::new();
        for choice in choices {
            let (found, why) = match *choice {
                DeviceChoice::One(device) => match self.look_for(device)? {
                    Ok(state) => (vec![state], String::new()),
                    Err(why) => (Vec::new(), why),
                },
                DeviceChoice::Kind(kind) => self.open_all(kind, true),
            };
            if found.is_empty() {
                let present = self.names().join(", ");
                let message =
                    format!("RUSTORCH_DEVICES names {choice}, which is not here ({why}); there is {present}");
                return Err(Error::argument("environment", message));
            }
            for state in found {
                if !state.device.is_cpu() && !order.iter().any(|other| Arc::ptr_eq(other, &state)) {
                    order.push(state);
                }
            }
        }
        Ok(order)
    }

    /// The hardware devices: of the kinds that reach the same hardware, those of one.
    fn hardware(&self) -> Vec<Arc<DeviceState>> {
        let mut kinds: Vec<DeviceKind> = {
            let known = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
            known.iter().map(|known| known.kind()).collect()
        };
        kinds.sort_by_key(|kind| (kind.info().fallback_rank, *kind));
        let mut order: Vec<Arc<DeviceState>> = Vec::new();
        for kind in kinds {
            // Opening a GPU takes a while, and these would be the same ones.
            if !order.iter().any(|state| supersedes(state.device.kind(), kind)) {
                order.extend(self.open_all(kind, false).0);
            }
        }
        order
    }
}

fn no_provider() -> String {
    "this program was built without it".to_owned()
}

/// As many threads as the system runs at once, by the cores and what this process may use of them.
fn at_once() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// One thread for each core, though it may run two at once: these share what multiplies.
fn physical_cores() -> usize {
    num_cpus::get_physical().clamp(1, at_once())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these locks protect is valid whatever happened under them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Scopes of the current device, dtype, placement and executor: for a thread, or for the process.
//!
//! Scopes come as functions that take a closure and as guards. A guard belongs to its thread and restores what was before when
//! it is dropped, also by a panic; guards may be dropped in any order.

use crate::device_set::DeviceSet;
use crate::device_state::DeviceState;
use crate::executor::HybridExecutor;
use crate::placement::Placement;
use crate::registry::Registry;
use crate::storage::Storage;
use rustorch_core::{DType, Device, Error, IntoDevice, Result};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::thread::LocalKey;

/// What the scopes of a thread chose, each with its number, the innermost last.
type Stack<T> = RefCell<Vec<(u64, T)>>;

thread_local! {
    static EXECUTORS: Stack<Rc<HybridExecutor>> = const { RefCell::new(Vec::new()) };
    static DEVICES: Stack<Arc<DeviceState>> = const { RefCell::new(Vec::new()) };
    static DTYPES: Stack<DType> = const { RefCell::new(Vec::new()) };
    /// How many executors this thread has in scope: what every operation looks at.
    static EXECUTOR_SCOPES: Cell<usize> = const { Cell::new(0) };
    /// The number of the last scope.
    static LAST: Cell<u64> = const { Cell::new(0) };
}

/// Takes its entry off a stack of its thread when it is dropped.
struct Entry<T: 'static> {
    stack: &'static LocalKey<Stack<T>>,
    id: u64,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl<T> Entry<T> {
    fn push(stack: &'static LocalKey<Stack<T>>, value: T) -> Entry<T> {
        let id = LAST.get() + 1;
        LAST.set(id);
        stack.with_borrow_mut(|stack| stack.push((id, value)));
        Entry { stack, id, _thread: PhantomData }
    }
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        let taken = self.stack.try_with(|stack| {
            let mut stack = stack.borrow_mut();
            let at = stack.iter().rposition(|(id, _)| *id == self.id)?;
            Some(stack.remove(at))
        });
        // What it held may have a drop of its own that looks at the stack.
        drop(taken);
    }
}

/// While it lives, an executor is the current one of this thread.
#[must_use = "the scope ends when the guard is dropped"]
pub struct ExecutorGuard {
    _entry: Entry<Rc<HybridExecutor>>,
}

impl Drop for ExecutorGuard {
    fn drop(&mut self) {
        EXECUTOR_SCOPES.set(EXECUTOR_SCOPES.get() - 1);
    }
}

/// While it lives, operations of this thread are placed by a policy; [`with_placement`] as a guard.
///
/// ```
/// use rustorch_runtime::{HybridExecutor, Placement, PlacementGuard};
///
/// let guard = PlacementGuard::new(Placement::CpuOnly)?;
/// assert_eq!(HybridExecutor::current().placement(), &Placement::CpuOnly);
/// drop(guard);
/// assert_eq!(HybridExecutor::current().placement(), &Placement::Resident);
/// # Ok::<(), rustorch_core::Error>(())
/// ```
#[must_use = "the scope ends when the guard is dropped"]
pub struct PlacementGuard {
    _guard: ExecutorGuard,
}

/// While it lives, this thread makes new tensors on a device; [`with_device`] as a guard.
#[must_use = "the scope ends when the guard is dropped"]
pub struct DeviceGuard {
    _entry: Entry<Arc<DeviceState>>,
}

/// While it lives, this thread makes new layers of a dtype; [`with_default_dtype`] as a guard.
#[must_use = "the scope ends when the guard is dropped"]
pub struct DefaultDTypeGuard {
    _entry: Entry<DType>,
}

impl PlacementGuard {
    /// Places operations by a policy, over the devices of the current executor.
    ///
    /// # Errors
    /// If the policy names a device that is not here.
    pub fn new(placement: Placement) -> Result<PlacementGuard> {
        let executor = HybridExecutor::with_current(|current| current.with_policy(placement))?;
        Ok(PlacementGuard { _guard: executor.enter() })
    }
}

impl DeviceGuard {
    /// Makes new tensors on a device of the current executor.
    ///
    /// # Errors
    /// If the text names no device, or the device is not here.
    pub fn new(device: impl IntoDevice) -> Result<DeviceGuard> {
        Ok(DeviceGuard { _entry: Entry::push(&DEVICES, open(device)?) })
    }

    /// Makes new tensors on the device that holds a storage, whether the current executor has it or not.
    pub fn beside(storage: &Storage) -> DeviceGuard {
        let state = HybridExecutor::with_current(|current| current.home(storage));
        DeviceGuard { _entry: Entry::push(&DEVICES, state) }
    }
}

impl DefaultDTypeGuard {
    /// Makes new layers of this dtype.
    ///
    /// # Errors
    /// If the dtype is none of floats.
    pub fn new(dtype: DType) -> Result<DefaultDTypeGuard> {
        if !dtype.is_float() {
            return Err(Error::dtype("default_dtype", "must be a dtype of floats", [dtype]));
        }
        Ok(DefaultDTypeGuard { _entry: Entry::push(&DTYPES, dtype) })
    }
}

fn open(device: impl IntoDevice) -> Result<Arc<DeviceState>> {
    let device = device.into_device()?;
    HybridExecutor::with_current(|current| current.state(device))
}

/// Runs `f` with operations of this thread placed by a policy, over the devices of the current executor.
///
/// # Errors
/// If the policy names a device that is not here; `f` does not run then.
pub fn with_placement<R>(placement: Placement, f: impl FnOnce() -> R) -> Result<R> {
    let _guard = PlacementGuard::new(placement)?;
    Ok(f())
}

/// Runs `f` with new tensors of this thread made on a device of the current executor.
///
/// # Errors
/// If the text names no device, or the device is not here; `f` does not run then.
pub fn with_device<R>(device: impl IntoDevice, f: impl FnOnce() -> R) -> Result<R> {
    let _guard = DeviceGuard::new(device)?;
    Ok(f())
}

/// Runs `f` with new layers of this thread of a dtype, where they are not told another. Tensors always are.
///
/// ```
/// use rustorch_core::DType;
/// use rustorch_runtime::{default_dtype, with_default_dtype};
/// assert_eq!(with_default_dtype(DType::F64, default_dtype)?, DType::F64);
/// assert_eq!(default_dtype(), DType::F32);
/// # Ok::<(), rustorch_core::Error>(())
/// ```
///
/// # Errors
/// If the dtype is none of floats; `f` does not run then.
pub fn with_default_dtype<R>(dtype: DType, f: impl FnOnce() -> R) -> Result<R> {
    let _guard = DefaultDTypeGuard::new(dtype)?;
    Ok(f())
}

/// Of which dtype this thread makes new layers: `F32` outside any [`with_default_dtype`].
pub fn default_dtype() -> DType {
    let scoped = DTYPES.try_with(|stack| stack.borrow().last().map(|(_, dtype)| *dtype));
    scoped.ok().flatten().unwrap_or(DType::F32)
}

/// Where threads outside any [`with_device`] make new tensors, if not on the CPU.
static DEVICE: RwLock<Option<Arc<DeviceState>>> = RwLock::new(None);
/// Whether there is one, so that who makes tensors on the CPU takes no lock.
static HAS_DEVICE: AtomicBool = AtomicBool::new(false);

/// Makes a device the one on which every thread outside [`with_device`] makes new tensors; the CPU if never called.
///
/// # Errors
/// If the text names no device, or the device is not here.
pub fn set_device(device: impl IntoDevice) -> Result<()> {
    let state = open(device)?;
    let mut place = DEVICE.write().unwrap_or_else(PoisonError::into_inner);
    let is_cpu = state.device.is_cpu();
    *place = Some(state).filter(|_| !is_cpu);
    HAS_DEVICE.store(!is_cpu, Ordering::Release);
    Ok(())
}

/// Where this thread makes new tensors.
pub fn default_device() -> Device {
    default_state().map_or(Device::CPU, |state| state.device)
}

/// The same as a device; none for the CPU of the current executor.
pub(crate) fn default_state() -> Option<Arc<DeviceState>> {
    let scoped = DEVICES.try_with(|stack| stack.borrow().last().map(|(_, state)| Arc::clone(state)));
    if let Ok(Some(state)) = scoped {
        return Some(state);
    }
    match HAS_DEVICE.load(Ordering::Acquire) {
        true => DEVICE.read().unwrap_or_else(PoisonError::into_inner).clone(),
        false => None,
    }
}

/// The executor of threads outside any scope; null before it is first asked for.
static PROCESS: AtomicPtr<HybridExecutor> = AtomicPtr::new(ptr::null_mut());
/// Every executor that was it. They stay, since borrows of them may.
static FORMER: Mutex<Vec<&'static HybridExecutor>> = Mutex::new(Vec::new());

/// Makes a policy the one by which operations of threads outside any scope are placed. Without this it is what
/// `RUSTORCH_PLACEMENT` says, else [`Placement::Resident`]: operations run where their operands are.
///
/// ```
/// use rustorch_runtime::{Placement, set_placement};
/// set_placement(Placement::Auto)?;
/// # Ok::<(), rustorch_core::Error>(())
/// ```
///
/// # Errors
/// If the policy names a device that is not here.
pub fn set_placement(placement: Placement) -> Result<()> {
    let executor = HybridExecutor::of_registry(Registry::get()).with_policy(placement)?;
    let mut former = FORMER.lock().unwrap_or_else(PoisonError::into_inner);
    let known = former.iter().copied().find(|known| known.placement() == executor.placement());
    let executor: &'static HybridExecutor = known.unwrap_or_else(|| {
        let executor: &'static HybridExecutor = Box::leak(Box::new(executor));
        former.push(executor);
        executor
    });
    PROCESS.store(ptr::from_ref(executor).cast_mut(), Ordering::Release);
    Ok(())
}

/// The policy that features choose, where such a device is here.
fn default_policy(is_here: impl Fn(Device) -> bool) -> Placement {
    if cfg!(feature = "coreml-fallback") && is_here(Device::COREML) {
        Placement::Order(SmallVec::from_slice(&[Device::COREML]))
    } else if cfg!(feature = "gpu-priority") {
        Placement::FirstSupported
    } else {
        Placement::default()
    }
}

impl HybridExecutor {
    /// Runs `f` with this as the current executor of the thread.
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        let _guard = self.enter();
        f()
    }

    /// Makes this the current executor of the thread until the guard is dropped.
    pub fn enter(&self) -> ExecutorGuard {
        let _entry = Entry::push(&EXECUTORS, Rc::new(self.clone()));
        EXECUTOR_SCOPES.set(EXECUTOR_SCOPES.get() + 1);
        ExecutorGuard { _entry }
    }

    /// The current executor: the innermost [`scope`](Self::scope)'s on this thread, else the process's.
    pub fn current() -> HybridExecutor {
        HybridExecutor::with_current(HybridExecutor::clone)
    }

    /// Runs `f` with the current executor: cheaper than [`current`](Self::current) by the two counts of a clone.
    #[inline]
    pub fn with_current<R>(f: impl FnOnce(&HybridExecutor) -> R) -> R {
        if EXECUTOR_SCOPES.get() == 0 {
            return f(HybridExecutor::process_default());
        }
        HybridExecutor::with_innermost(f)
    }

    #[inline(never)]
    fn with_innermost<R>(f: impl FnOnce(&HybridExecutor) -> R) -> R {
        // A thread that ends has no scopes any more.
        match EXECUTORS.try_with(|stack| stack.borrow().last().map(|(_, executor)| Rc::clone(executor))) {
            Ok(Some(executor)) => f(&executor),
            _ => f(HybridExecutor::process_default()),
        }
    }

    /// The executor of threads outside any scope: over the devices of the process, by the policy of
    /// [`set_placement`] or `RUSTORCH_PLACEMENT`.
    #[inline]
    pub fn process_default() -> &'static HybridExecutor {
        let current = PROCESS.load(Ordering::Acquire);
        // SAFETY: null, or a leaked executor, which lives for ever and is only shared.
        match unsafe { current.as_ref() } {
            Some(executor) => executor,
            None => HybridExecutor::first_of_process(),
        }
    }

    #[cold]
    fn first_of_process() -> &'static HybridExecutor {
        static FIRST: OnceLock<HybridExecutor> = OnceLock::new();
        let first =
            FIRST.get_or_init(|| HybridExecutor::of_process().unwrap_or_else(HybridExecutor::refusing));
        let null = ptr::null_mut();
        let place = ptr::from_ref(first).cast_mut();
        match PROCESS.compare_exchange(null, place, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => first,
            // Somebody set a policy meanwhile.
            Err(_) => HybridExecutor::process_default(),
        }
    }

    /// An executor over the devices of the process, by the policy that the environment asks for, else the features `coreml-fallback` and
    /// `gpu-priority`.
    ///
    /// # Errors
    /// If `RUSTORCH_PLACEMENT` makes no sense or names a device that is not here.
    pub(crate) fn of_process() -> Result<HybridExecutor> {
        let registry = Registry::get();
        match registry.environment.placement()? {
            Some(placement) => HybridExecutor::of_registry(registry).with_policy(placement),
            None => {
                let base = HybridExecutor::of_registry(registry);
                match default_policy(|device| registry.find(device).is_ok()) {
                    policy if policy == *base.placement() => Ok(base.clone()),
                    policy => base.with_policy(policy),
                }
            }
        }
    }

    /// The one executor over the devices of the process, from which others are derived.
    pub(crate) fn of_registry(registry: &'static Registry) -> &'static HybridExecutor {
        static BASE: OnceLock<HybridExecutor> = OnceLock::new();
        BASE.get_or_init(|| {
            HybridExecutor::over(DeviceSet::process(registry), registry.environment.cache_dir())
        })
    }
}

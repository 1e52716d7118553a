//! What captured functions read and change in Rust in each run: counts of steps, learning rates.

use super::guard::guard;
use super::is_capturing;
use crate::{Tensor, TensorOptions};
use rustorch_core::{Error, Result, Shape};
use rustorch_runtime::{FromOutput, HybridExecutor};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Numbers in Rust that a function reads and changes beside tensors, such as how many steps there were: what a captured function does to them, each
/// run of its program does. Clones are handles to the same numbers.
///
/// ```
/// use rustorch_tensor::{DType, HostState, Tensor, TensorSpec, capture};
/// let count = HostState::new(0u32);
/// let program = capture(&[TensorSpec::new([2], DType::F32)?], |x| {
///     let factor = count.operand(DType::F32, |count| f64::from(*count))?;
///     count.update(|count| *count += 1)?;
///     Ok(vec![x[0].mul(&factor)?])
/// })?;
/// let x = Tensor::ones([2], DType::F32)?;
/// program.run(&[&x])?;
/// assert_eq!(program.run(&[&x])?[0].to_vec::<f32>()?, [1.0, 1.0]);
/// assert_eq!(*count.lock(), 2);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub struct HostState<T> {
    state: Arc<Mutex<T>>,
    /// Held by a run that reads or changes it.
    run: Arc<Mutex<()>>,
}

impl<T> Clone for HostState<T> {
    fn clone(&self) -> HostState<T> {
        HostState { state: Arc::clone(&self.state), run: Arc::clone(&self.run) }
    }
}

impl<T: Default> Default for HostState<T> {
    fn default() -> HostState<T> {
        HostState { state: Arc::default(), run: Arc::default() }
    }
}

impl<T: Send + 'static> HostState<T> {
    /// New numbers.
    pub fn new(state: T) -> HostState<T> {
        HostState { state: Arc::new(Mutex::new(state)), run: Arc::default() }
    }

    /// The numbers. What a captured function reads and changes by this, it does at capture only. A run that reads or changes them waits until the
    /// guard is dropped: run no program while you hold it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        // Numbers are changed whole, or the change panicked halfway, which is its own affair.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number as a tensor of no dimensions; in a captured function, one that each run reads anew before it begins.
    ///
    /// # Errors
    /// If memory does not suffice, or the captured function has [changed](Self::update) the numbers before: a run reads before it changes anything.
    pub fn operand(
        &self,
        options: impl Into<TensorOptions>,
        read: impl Fn(&T) -> f64 + Send + Sync + 'static,
    ) -> Result<Tensor> {
        let options = options.into();
        if !is_capturing() {
            let number = read(&self.lock());
            return Tensor::full((), number, options);
        }
        let state = self.clone();
        let read = Box::new(move || read(&state.lock()));
        LOG.with_borrow_mut(|log| {
            let log = log.as_mut().ok_or_else(elsewhere)?;
            if log.changed.contains(&self.identity()) {
                let message = "is read in a captured function after it was changed there, as by a second step: a run reads what it finds when it \
                               begins; read it first";
                return Err(Error::argument("HostState", message));
            }
            let output = HybridExecutor::with_current(|executor| {
                let device = options.device.unwrap_or_else(rustorch_runtime::default_device);
                executor.record_input(options.dtype, &Shape::scalar(), device)
            })?;
            let tensor = Tensor::output(output);
            log.note(self.identity(), &self.run);
            log.operands.push(HostOperand { options: (options.dtype, tensor.device()).into(), read });
            Ok(tensor)
        })
    }

    /// Changes the numbers: now, or in a captured function when a run has ended well.
    ///
    /// # Errors
    /// If a function is captured by another executor on this thread.
    pub fn update(&self, change: impl Fn(&mut T) + Send + Sync + 'static) -> Result<()> {
        self.update_to(|| (), move |state, ()| change(state))
    }

    /// As [`update`](Self::update), by a value that is computed before: it may look at these numbers, too.
    ///
    /// # Errors
    /// As there.
    pub fn update_to<V>(
        &self,
        value: impl Fn() -> V + Send + Sync + 'static,
        change: impl Fn(&mut T, V) + Send + Sync + 'static,
    ) -> Result<()> {
        if !is_capturing() {
            let value = value();
            change(&mut self.lock(), value);
            return Ok(());
        }
        let state = self.clone();
        LOG.with_borrow_mut(|log| {
            let log = log.as_mut().ok_or_else(elsewhere)?;
            log.changed.push(self.identity());
            log.note(self.identity(), &self.run);
            log.updates.push(Box::new(move || {
                let value = value();
                change(&mut state.lock(), value);
            }));
            Ok(())
        })
    }

    /// Tells the capture that runs on this thread, if one does, that its graph is right for as long as `holds` says so: see [`guard`](super::guard()).
    pub fn guard(&self, what: &'static str, holds: impl Fn(&T) -> bool + Send + Sync + 'static) {
        let state = self.clone();
        guard(what, move || holds(&state.lock()));
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.state).addr()
    }
}

fn elsewhere() -> Error {
    Error::argument("HostState", "is used in a capture that runs without one of a function")
}

/// A number that each run reads before it begins.
struct HostOperand {
    options: TensorOptions,
    read: Box<dyn Fn() -> f64 + Send + Sync>,
}

/// What runs of a captured function read and change in Rust.
#[derive(Default)]
pub(super) struct HostEffects {
    operands: Vec<HostOperand>,
    updates: Vec<Box<dyn Fn() + Send + Sync>>,
    /// The locks of what it reads and changes, in the order of their addresses: one run at a time, so that none reads what another is going to
    /// change.
    runs: Vec<Arc<Mutex<()>>>,
}

impl HostEffects {
    pub(super) fn is_empty(&self) -> bool {
        self.operands.is_empty() && self.updates.is_empty()
    }

    /// Keeps other runs out, where they would read or change the same.
    pub(super) fn begin(&self) -> SmallVec<[MutexGuard<'_, ()>; 4]> {
        self.runs.iter().map(|run| run.lock().unwrap_or_else(PoisonError::into_inner)).collect()
    }

    /// The numbers that a run is given behind its inputs.
    pub(super) fn read(&self) -> Result<SmallVec<[Tensor; 4]>> {
        self.operands.iter().map(|operand| Tensor::full((), (operand.read)(), operand.options)).collect()
    }

    /// Changes what a run changes.
    pub(super) fn apply(&self) {
        self.updates.iter().for_each(|update| update());
    }

    /// How many numbers a run is given.
    pub(super) fn operands(&self) -> usize {
        self.operands.len()
    }
}

#[derive(Default)]
struct Log {
    operands: Vec<HostOperand>,
    updates: Vec<Box<dyn Fn() + Send + Sync>>,
    /// What was changed so far.
    changed: Vec<usize>,
    /// What was read or changed, with its lock.
    runs: BTreeMap<usize, Arc<Mutex<()>>>,
}

impl Log {
    fn note(&mut self, identity: usize, run: &Arc<Mutex<()>>) {
        self.runs.entry(identity).or_insert_with(|| Arc::clone(run));
    }
}

thread_local! {
    static LOG: RefCell<Option<Log>> = const { RefCell::new(None) };
}

/// While it lives, what the function of this thread reads and changes in Rust is noted.
pub(super) struct HostLog(());

impl HostLog {
    pub(super) fn begin() -> HostLog {
        LOG.set(Some(Log::default()));
        HostLog(())
    }

    pub(super) fn finish(self) -> HostEffects {
        let Log { operands, updates, changed: _, runs } = LOG.take().unwrap_or_default();
        HostEffects { operands, updates, runs: runs.into_values().collect() }
    }
}

impl Drop for HostLog {
    fn drop(&mut self) {
        drop(LOG.take());
    }
}

//! The executor that code without one in hand uses.

use super::{Builder, HybridExecutor};
use crate::env::Environment;
use crate::placement::Placement;
use rustorch_core::{Backend, Result};
use std::cell::Cell;
use std::ptr;
use std::sync::{Arc, OnceLock};

thread_local! {
    /// The executor of the innermost scope on this thread, or null.
    static CURRENT: Cell<*const HybridExecutor> = const { Cell::new(ptr::null()) };
}

static DEFAULT: OnceLock<HybridExecutor> = OnceLock::new();

/// Restores the outer scope's executor, also when unwinding.
struct Restore(*const HybridExecutor);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl HybridExecutor {
    /// Runs `f` with this as the current executor of the thread.
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        let _restore = Restore(CURRENT.replace(self));
        f()
    }

    /// The current executor: the innermost [`scope`](Self::scope)'s on this thread, else the process's default.
    pub fn current() -> HybridExecutor {
        HybridExecutor::with_current(HybridExecutor::clone)
    }

    /// Runs `f` with the current executor: cheaper than [`current`](Self::current) by the two counts of a clone.
    #[inline]
    pub fn with_current<R>(f: impl FnOnce(&HybridExecutor) -> R) -> R {
        let current = CURRENT.get();
        if current.is_null() {
            return f(HybridExecutor::process_default());
        }
        // SAFETY: set by a `scope` further up this thread's stack, which borrows the executor and takes the pointer
        // back before it returns.
        f(unsafe { &*current })
    }

    /// Runs `f` with the current executor's devices under another policy.
    ///
    /// # Errors
    /// If the policy names a device that is not here; `f` does not run then.
    pub fn with_placement<R>(placement: Placement, f: impl FnOnce() -> R) -> Result<R> {
        let executor = HybridExecutor::with_current(|current| current.with_policy(placement))?;
        Ok(executor.scope(f))
    }

    /// The executor of threads outside any scope: the one that was [set](Self::set_process_default), else one of the
    /// processor alone, made at first use from the environment. If the environment asks for the impossible, that is
    /// logged as a warning; programs that want the error build an executor by
    /// [`from_environment`](Self::from_environment) and set it.
    pub fn process_default() -> &'static HybridExecutor {
        DEFAULT.get_or_init(|| {
            HybridExecutor::from_environment([]).unwrap_or_else(|error| {
                tracing::warn!("{error}; the processor runs everything");
                HybridExecutor::builder().build().expect("the processor is always here")
            })
        })
    }

    /// An executor of these devices and the processor, following `RUSTORCH_DEVICES`, `RUSTORCH_DISABLE_GPU` and
    /// `RUSTORCH_THREADS` (see [`Environment`]), which are read now.
    ///
    /// # Errors
    /// If a variable makes no sense or names a device that is not here.
    pub fn from_environment(backends: impl IntoIterator<Item = Arc<dyn Backend>>) -> Result<HybridExecutor> {
        let environment = Environment::read()?;
        backends
            .into_iter()
            .fold(HybridExecutor::builder(), Builder::backend)
            .environment(&environment)
            .build()
    }

    /// Makes this the executor of threads outside any scope.
    ///
    /// # Errors
    /// Gives the executor back if the process has a default already.
    pub fn set_process_default(self) -> Result<(), HybridExecutor> {
        DEFAULT.set(self)
    }
}

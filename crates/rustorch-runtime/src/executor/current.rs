//! The executor that code without one in hand uses.

use super::HybridExecutor;
use crate::env::Environment;
use std::cell::Cell;
use std::ptr;
use std::sync::OnceLock;

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

    /// The executor of threads outside any scope: made at first use, from the environment, with every device that the
    /// program was built with.
    pub fn process_default() -> &'static HybridExecutor {
        DEFAULT.get_or_init(|| {
            let (environment, complaints) = Environment::read();
            for complaint in complaints {
                tracing::warn!("{complaint}");
            }
            HybridExecutor::builder()
                .environment(&environment)
                .build()
                .expect("an executor of the processor alone cannot lack a device")
        })
    }

    /// Makes this the executor of threads outside any scope.
    ///
    /// # Errors
    /// Gives the executor back if the process has a default already.
    pub fn set_process_default(self) -> Result<(), HybridExecutor> {
        DEFAULT.set(self)
    }
}

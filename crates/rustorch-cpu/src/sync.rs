//! Synchronization primitives of the thread pool: the standard library's, or loom's in the models of `loom/`.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Condvar, Mutex};
pub(crate) use std::thread::{Builder, JoinHandle, yield_now};

/// Turns of the spin loop before an idle worker sleeps: 60 µs where a turn takes 10 ns. To wake it takes about as long, and within that time
/// many a caller comes with the next operation.
pub(crate) const SPINS: u32 = 6_000;

/// A cell that is reached by pointers, for whose use its owner answers.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

//! loom's primitives under the names that the modules expect. With the argument `planted`, every ordering is relaxed: a fault
//! that the models must find.

use std::ops::Deref;
use std::sync::OnceLock;

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::{Condvar, Mutex};
pub(crate) use loom::thread::{Builder, JoinHandle, yield_now};
pub(crate) use std::sync::atomic::Ordering;

/// Few, since each is another branch of what is tried.
pub(crate) const SPINS: u32 = 1;

pub(crate) static PLANTED: OnceLock<bool> = OnceLock::new();

fn planted(order: Ordering) -> Ordering {
    if PLANTED.get() == Some(&true) { Ordering::Relaxed } else { order }
}

macro_rules! atomics {
    ($($name:ident: $value:ty),*) => {$(
        pub(crate) struct $name(loom::sync::atomic::$name);

        #[allow(dead_code, reason = "each type has what some module uses")]
        impl $name {
            pub(crate) fn new(value: $value) -> $name {
                $name(loom::sync::atomic::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.0.load(planted(order))
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, planted(order));
            }

            pub(crate) fn compare_exchange(&self, from: $value, to: $value, ok: Ordering, other: Ordering) -> Result<$value, $value> {
                self.0.compare_exchange(from, to, planted(ok), planted(other))
            }

            pub(crate) fn compare_exchange_weak(&self, from: $value, to: $value, ok: Ordering, other: Ordering) -> Result<$value, $value> {
                self.0.compare_exchange_weak(from, to, planted(ok), planted(other))
            }

            pub(crate) fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_or(value, planted(order))
            }

            pub(crate) fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_and(value, planted(order))
            }
        }
    )*};
}

macro_rules! counters {
    ($($name:ident: $value:ty),*) => {$(
        impl $name {
            #[allow(dead_code, reason = "each type has what some module uses")]
            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_add(value, planted(order))
            }

            #[allow(dead_code, reason = "each type has what some module uses")]
            pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_sub(value, planted(order))
            }
        }
    )*};
}

atomics!(AtomicBool: bool, AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize);
counters!(AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize);

/// An acquire fence.
pub(crate) fn fence(order: Ordering) {
    if PLANTED.get() != Some(&true) {
        loom::sync::atomic::fence(order);
    }
}

/// The standard library's `Arc`, with its orderings, of loom's atomics: loom's own hides the loads of `strong_count` from the model.
pub(crate) struct Arc<T>(*mut Counted<T>);

struct Counted<T> {
    handles: AtomicUsize,
    value: T,
}

// SAFETY: as the standard library's.
unsafe impl<T: Send + Sync> Send for Arc<T> {}
// SAFETY: as the standard library's.
unsafe impl<T: Send + Sync> Sync for Arc<T> {}

impl<T> Arc<T> {
    pub(crate) fn new(value: T) -> Arc<T> {
        Arc(Box::into_raw(Box::new(Counted { handles: AtomicUsize::new(1), value })))
    }

    pub(crate) fn strong_count(handle: &Arc<T>) -> usize {
        handle.counted().handles.load(Ordering::Relaxed)
    }

    fn counted(&self) -> &Counted<T> {
        // SAFETY: it lives as long as there are handles.
        unsafe { &*self.0 }
    }
}

impl<T> Clone for Arc<T> {
    fn clone(&self) -> Arc<T> {
        self.counted().handles.fetch_add(1, Ordering::Relaxed);
        Arc(self.0)
    }
}

impl<T> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T> Drop for Arc<T> {
    fn drop(&mut self) {
        if self.counted().handles.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: this was the last handle.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

/// Lets others go on.
#[derive(Default)]
pub(crate) struct Backoff;

impl Backoff {
    pub(crate) fn pause(&mut self) {
        yield_now();
    }
}

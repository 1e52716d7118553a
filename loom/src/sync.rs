//! loom's primitives under the names that the modules expect. With the argument `planted`, every ordering is relaxed: a fault
//! that the models must find.

use std::sync::OnceLock;

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::{Arc, Condvar, Mutex};
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

/// Lets others go on.
#[derive(Default)]
pub(crate) struct Backoff;

impl Backoff {
    pub(crate) fn pause(&mut self) {
        yield_now();
    }
}

//! Synchronization primitives of storages: the standard library's, or loom's in the models of `loom/`.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};

use std::hint;
use std::time::Duration;

/// Waits longer each time: first spinning, then yielding, then sleeping.
#[derive(Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) fn pause(&mut self) {
        match self.0 {
            0..=6 => (0..1 << self.0).for_each(|_| hint::spin_loop()),
            7..=20 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
        self.0 = self.0.saturating_add(1);
    }
}

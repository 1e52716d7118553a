//! wgpu's three ways of failing (error scopes, uncaptured errors, device loss) as [`Fault`]s.
//!
//! wgpu reports most errors late and apart from the call that made them, and then carries on with invalid objects. Here every
//! call that may fail on its own (allocation, compilation, upload) is made in error scopes, so that its own caller learns of
//! it. An error outside of scopes means that work already accepted was dropped: memory no longer holds what it should,
//! and the device counts as lost from then on.

use rustorch_core::{Device, Fault};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Locks, also when a thread has panicked meanwhile: what the locks of this crate guard is whole between statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of a device: well, or lost with a reason.
#[derive(Clone)]
pub(crate) struct Faults {
    device: Device,
    lost: Arc<Lost>,
}

#[derive(Default)]
struct Lost {
    is: AtomicBool,
    why: Mutex<String>,
}

impl Faults {
    /// Listens to all errors of `wgpu` from now on.
    pub(crate) fn listen(device: Device, wgpu: &wgpu::Device) -> Faults {
        let faults = Faults { device, lost: Arc::default() };
        let uncaptured = faults.clone();
        wgpu.on_uncaptured_error(Arc::new(move |error| {
            uncaptured.lose(&format!("work was dropped: {}", describe(&error)));
        }));
        let lost = faults.clone();
        wgpu.set_device_lost_callback(move |reason, message| lost.lose(&format!("{message} ({reason:?})")));
        faults
    }

    /// Marks the device as lost. The first reason stays.
    pub(crate) fn lose(&self, why: &str) {
        let mut message = lock(&self.lost.why);
        if !self.lost.is.load(Ordering::Relaxed) {
            tracing::error!(device = %self.device, why, "device lost");
            why.clone_into(&mut message);
            self.lost.is.store(true, Ordering::Release);
        }
    }

    /// An error if the device is lost.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.lost.is.load(Ordering::Acquire) {
            return Err(Fault::DeviceLost { device: self.device, message: lock(&self.lost.why).clone() });
        }
        Ok(())
    }

    /// A refusal by this crate or by wgpu.
    pub(crate) fn refuse(&self, message: impl Into<String>) -> Fault {
        Fault::Backend { device: self.device, message: message.into() }
    }

    /// There is no memory for so many bytes.
    pub(crate) fn out_of_memory(&self, requested: usize) -> Fault {
        Fault::OutOfMemory { device: self.device, requested }
    }

    /// The device did not finish in time.
    pub(crate) fn timeout(&self, limit: std::time::Duration) -> Fault {
        Fault::Timeout { device: self.device, millis: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) }
    }

    /// Calls `act`, whose errors of wgpu become a fault of this call. `requested` is the number of bytes of memory that it
    /// asks for.
    pub(crate) fn scoped<T>(
        &self,
        wgpu: &wgpu::Device,
        requested: usize,
        act: impl FnOnce() -> T,
    ) -> Result<T, Fault> {
        self.check()?;
        let memory = wgpu.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let internal = wgpu.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = wgpu.push_error_scope(wgpu::ErrorFilter::Validation);
        let value = act();
        // Scopes end in the reverse of the order in which they began.
        let errors = [validation.pop(), internal.pop(), memory.pop()].map(pollster::block_on);
        self.check()?;
        match errors.into_iter().flatten().next() {
            None => Ok(value),
            Some(wgpu::Error::OutOfMemory { .. }) => Err(self.out_of_memory(requested)),
            Some(error) => Err(self.refuse(describe(&error))),
        }
    }
}

/// The error's text without wgpu's heading.
pub(crate) fn describe(error: &wgpu::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("Validation Error\n\nCaused by:\n").unwrap_or(&text).trim_end().to_owned()
}

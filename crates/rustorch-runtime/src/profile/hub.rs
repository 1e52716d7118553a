//! Device profilers, shared by the profiles that run at one time.

use crate::device_state::DeviceState;
use rustorch_core::Device;
use rustorch_core::profile::DeviceSpan;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Starts devices' measuring with the first profile of an executor and stops it with the last. A backend that several
/// executors share is measured for one of them at a time.
#[derive(Default)]
pub(crate) struct SpanHub(Mutex<Hub>);

#[derive(Default)]
struct Hub {
    profiles: usize,
    started: Vec<Device>,
    /// Everything since the first of the profiles began: each picks its own.
    spans: Vec<(Device, DeviceSpan)>,
    notes: Vec<String>,
}

impl SpanHub {
    /// A profile begins.
    pub(crate) fn enter(&self, devices: &[Arc<DeviceState>]) {
        let mut hub = self.lock();
        hub.profiles += 1;
        if hub.profiles > 1 {
            return;
        }
        for DeviceState { device, backend, .. } in devices.iter().map(|state| &**state) {
            match backend.extensions().profiler.map(|profiler| profiler.start()) {
                None => {}
                Some(Ok(())) => hub.started.push(*device),
                Some(Err(fault)) => hub.notes.push(format!("{device} does not measure its time: {fault}")),
            }
        }
    }

    /// A profile ends: what devices measured so far, and what they could not.
    pub(crate) fn leave(&self, devices: &[Arc<DeviceState>]) -> (Vec<(Device, DeviceSpan)>, Vec<String>) {
        let mut hub = self.lock();
        hub.profiles -= 1;
        let last = hub.profiles == 0;
        for DeviceState { device, backend, .. } in devices.iter().map(|state| &**state) {
            let Some(profiler) = backend.extensions().profiler.filter(|_| hub.started.contains(device))
            else {
                continue;
            };
            match profiler.take_spans() {
                Ok(spans) => hub.spans.extend(spans.into_iter().map(|span| (*device, span))),
                Err(fault) => hub.notes.push(format!("{device} lost what it measured: {fault}")),
            }
            if last {
                profiler.stop();
            }
        }
        if last {
            let hub = std::mem::take(&mut *hub);
            return (hub.spans, hub.notes);
        }
        (hub.spans.clone(), hub.notes.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Hub> {
        // The lists are valid whatever happened under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

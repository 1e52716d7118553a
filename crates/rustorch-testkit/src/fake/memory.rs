//! The memory of a fake device: host memory at an address that it does not tell.

use rustorch_core::{Buffer, Device, Fault, View, ViewMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory behind a fake device's buffer.
pub(super) struct FakeMemory {
    pub(super) buffer: Buffer,
    pub(super) used: Arc<AtomicUsize>,
}

impl Drop for FakeMemory {
    fn drop(&mut self) {
        self.used.fetch_sub(self.buffer.bytes(), Ordering::Relaxed);
    }
}

/// What memory a fake device works with.
#[derive(Clone)]
pub(super) struct Reach {
    pub(super) device: Device,
    pub(super) used: Arc<AtomicUsize>,
    /// Devices whose memory it reads.
    pub(super) others: Vec<Device>,
}

impl Reach {
    /// The memory that a backend on the CPU can work with: the device's, or that of one that it reaches.
    pub(super) fn host<'a>(&self, buffer: &'a Buffer) -> Result<&'a Buffer, Fault> {
        let at = buffer.location();
        if at != self.device && !self.others.contains(&at) {
            let message = format!("it was given memory of {at}, which it does not reach");
            return Err(Fault::Backend { device: self.device, message });
        }
        match buffer.memory::<FakeMemory>() {
            Some(memory) if at == self.device && !Arc::ptr_eq(&memory.used, &self.used) => {
                let message = format!("it was given memory of another device that is called {at}");
                Err(Fault::Backend { device: self.device, message })
            }
            Some(memory) => Ok(&memory.buffer),
            None => Ok(buffer),
        }
    }

    pub(super) fn view<'a>(&self, view: &View<'a>) -> Result<View<'a>, Fault> {
        let window = if view.is_aliased() { View::aliased } else { View::new };
        // SAFETY: the same window onto the same bytes; the inner buffer is as large as the outer one.
        Ok(unsafe { window(self.host(view.buffer())?, view.dtype(), view.layout()) })
    }

    pub(super) fn place<'a>(&self, place: &ViewMut<'a>) -> Result<ViewMut<'a>, Fault> {
        // SAFETY: as above; the outer window is exclusive and not used while this one lives.
        Ok(unsafe { ViewMut::from_shared(self.host(place.buffer())?, place.dtype(), place.layout()) })
    }
}

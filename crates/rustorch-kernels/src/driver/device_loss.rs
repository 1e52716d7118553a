//! Device loss.

use rustorch_core::{Device, Fault};
use std::sync::OnceLock;

/// Set once a device is lost, with the reason; never cleared.
#[derive(Debug)]
pub struct DeviceLossFlag {
    device: Device,
    why: OnceLock<String>,
}

impl DeviceLossFlag {
    /// A flag that is not set.
    pub fn new(device: Device) -> DeviceLossFlag {
        DeviceLossFlag { device, why: OnceLock::new() }
    }

    /// Fails if the device is lost.
    ///
    /// # Errors
    /// [`Fault::DeviceLost`].
    pub fn check(&self) -> Result<(), Fault> {
        match self.why.get() {
            None => Ok(()),
            Some(message) => Err(Fault::DeviceLost { device: self.device, message: message.clone() }),
        }
    }

    /// Sets the flag. The first reason is kept.
    pub fn lose(&self, why: impl Into<String>) -> Fault {
        let message = self.why.get_or_init(|| why.into()).clone();
        Fault::DeviceLost { device: self.device, message }
    }
}

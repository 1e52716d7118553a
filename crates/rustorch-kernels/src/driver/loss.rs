//! The end of a device.

use rustorch_core::{Device, Fault};
use std::sync::OnceLock;

/// Whether a device is lost, and why. What is lost stays so.
#[derive(Debug)]
pub struct Loss {
    device: Device,
    why: OnceLock<String>,
}

impl Loss {
    /// A device that is well.
    pub fn new(device: Device) -> Loss {
        Loss { device, why: OnceLock::new() }
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

    /// Takes the device for lost from now on. The first reason stays.
    pub fn lose(&self, why: impl Into<String>) -> Fault {
        let message = self.why.get_or_init(|| why.into()).clone();
        Fault::DeviceLost { device: self.device, message }
    }
}

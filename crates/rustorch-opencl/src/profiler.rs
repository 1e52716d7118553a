//! The device's own measuring, on the host's clock.

use crate::driver::OpenCl;
use rustorch_core::Fault;
use rustorch_core::profile::{DeviceProfiler, DeviceSpan};

/// Every kernel and every copy of a queue that measures has an event with its times. Measuring costs time and memory.
impl DeviceProfiler for OpenCl {
    fn start(&self) -> Result<(), Fault> {
        self.open_device.profile(true)
    }

    fn take_spans(&self) -> Result<Vec<DeviceSpan>, Fault> {
        self.open_device.finish()?;
        Ok(self.open_device.spans.take(self.open_device.api))
    }

    fn stop(&self) {
        if let Err(fault) = self.open_device.profile(false) {
            tracing::debug!(%fault, "measuring does not end");
        }
        self.open_device.spans.clear();
    }
}

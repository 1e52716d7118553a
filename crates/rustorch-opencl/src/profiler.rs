//! The device's own measuring, on the host's clock.

use crate::driver::OpenCl;
use rustorch_core::Fault;
use rustorch_core::profile::{DeviceProfiler, DeviceSpan};

/// Every kernel and every copy of a queue that measures has an event with its times. Measuring costs time and memory.
impl DeviceProfiler for OpenCl {
    fn start(&self) -> Result<(), Fault> {
        self.session.profile(true)
    }

    fn take_spans(&self) -> Result<Vec<DeviceSpan>, Fault> {
        self.session.finish()?;
        Ok(self.session.spans.take(self.session.api))
    }

    fn stop(&self) {
        if let Err(fault) = self.session.profile(false) {
            tracing::debug!(%fault, "measuring does not end");
        }
        self.session.spans.clear();
    }
}

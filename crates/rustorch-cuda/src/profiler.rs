//! The device's own measuring, on the host's clock.

use crate::driver::Cuda;
use rustorch_core::Fault;
use rustorch_core::profile::{DeviceProfiler, DeviceSpan};
use rustorch_kernels::Driver;

/// Every kernel and every copy is put between two events. Measuring costs time and memory. Times are exact to about half a
/// microsecond, and those on the host's clock are as late as the host learns of the event that they are counted from.
impl DeviceProfiler for Cuda {
    fn start(&self) -> Result<(), Fault> {
        self.finish()?;
        self.context.spans.start(&self.context)
    }

    fn take_spans(&self) -> Result<Vec<DeviceSpan>, Fault> {
        self.finish()?;
        Ok(self.context.spans.take())
    }

    fn stop(&self) {
        // Events are destroyed in their context. Where that is gone, so are they, and destroying does nothing.
        if let Err(fault) = self.context.enter() {
            tracing::debug!(%fault, "measuring ends with the device");
        }
        self.context.spans.clear();
    }
}

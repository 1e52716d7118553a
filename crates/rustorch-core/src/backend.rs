//! The contract between the executor and a device.

use crate::profile::{DeviceProfiler, GpuBenchmarkMetrics};
use crate::{
    Buffer, CostModel, DType, Decline, Device, DeviceCapability, Error, Fault, Op, TensorMeta, View, ViewMut,
};

/// A device as a plug-in. Everything above the executor is the same whatever implements this.
///
/// Planning (`supports`, `cost`) is separate from running: what a device declines in planning is no failure, and what it
/// accepts it must run, or report a [`Fault`].
pub trait Backend: Send + Sync {
    /// Which device this is.
    fn device(&self) -> Device;

    /// What it can do.
    fn capability(&self) -> &DeviceCapability;

    /// How long it takes, where that is given; `None`, the default, has the executor measure it through this interface
    /// when the first choice depends on it.
    fn cost(&self) -> Option<&CostModel> {
        None
    }

    /// Whether it runs this operation on these arguments, which [`Op::infer`] has accepted.
    ///
    /// Cheap and total: runs nothing, allocates nothing on the device. By default the capability table decides.
    fn supports(&self, op: &Op, args: &[TensorMeta<'_>]) -> Result<(), Decline> {
        self.capability().check(op, args)
    }

    /// New memory, contents unspecified.
    fn alloc(&self, bytes: usize) -> Result<Buffer, Fault>;

    /// Runs the operation. Arguments are on this device or one that it reaches; outputs have the dtypes and shapes
    /// that [`Op::infer`] gave, contiguous unless the caller asked for a place in an existing buffer, and overlap no
    /// argument. On success every output element is written.
    fn run(&self, op: &Op, args: &[View<'_>], outs: &mut [ViewMut<'_>]) -> Result<(), Fault>;

    /// Runs a function of each element or pair ([`Op::elementwise_output`]) on a few elements that lie side by side in host
    /// memory, without the views that [`run`](Self::run) takes: those cost more than a few elements do. Returns whether that
    /// is done; if not, [`run`](Self::run) does it or says what is wrong.
    ///
    /// # Safety
    /// The operation has a result for arguments of `dtype`. Each of `args` points to `n` of them, `out` to room for `n`
    /// results, which overlaps no argument; all are aligned, and nobody else writes the arguments or uses the room meanwhile.
    unsafe fn run_packed(
        &self,
        _op: &Op,
        _dtype: DType,
        _args: &[*const u8],
        _out: *mut u8,
        _n: usize,
    ) -> bool {
        false
    }

    /// Copies from host memory to a contiguous view on this device of the same size.
    fn copy_in(&self, src: &[u8], dst: &mut ViewMut<'_>) -> Result<(), Fault>;

    /// Copies a contiguous view on this device to host memory of the same size.
    fn copy_out(&self, src: &View<'_>, dst: &mut [u8]) -> Result<(), Fault>;

    /// Copies a contiguous view on another device directly to one on this device; `None` where there is no direct way
    /// and the executor goes through host memory. The other device has finished what makes the data
    /// ([`synchronize`](Self::synchronize)); the copy is done when this returns, so that the other device may write there again.
    fn copy_from_peer(&self, _src: &View<'_>, _dst: &mut ViewMut<'_>) -> Option<Result<(), Fault>> {
        None
    }

    /// Waits until everything submitted has finished.
    fn synchronize(&self) -> Result<(), Fault>;

    /// Its own measuring of when it ran what; `None` where it cannot. The processor needs none: its
    /// [`run`](Self::run) returns when the work is done, so that the caller's clock serves.
    fn profiler(&self) -> Option<&dyn DeviceProfiler> {
        None
    }

    /// How busy the device is at this moment, as far as its driver tells.
    fn metrics(&self) -> GpuBenchmarkMetrics {
        GpuBenchmarkMetrics::default()
    }

    /// Where the device is plugged in, as `domain:bus:device.function` in hexadecimal (`0000:01:00.0`): what tells that
    /// devices of two drivers are one, and lets the system's own monitors be asked.
    fn pci_address(&self) -> Option<&str> {
        None
    }

    /// What people should know of the device beside its name: libraries that it uses, and those that would help but are
    /// missing, with a word on how to get them. May take a moment, since what was not used yet is tried.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether matrix products whose [order is free](crate::MatMul::order_is_free) may go to a library of the device's vendor, at
    /// a speed of their own. May take a moment, since the library is opened.
    fn has_product_library(&self) -> bool {
        false
    }

    /// How many streams there are: queues of work, each in order, that may overlap. Each thread works on one of them, by
    /// [`current_stream`](crate::current_stream); what one stream has left in memory, another finds there.
    fn streams(&self) -> usize {
        1
    }

    /// Asks for so many streams, and returns how many there are from now on: one, unless the device can have more. Waits until
    /// everything submitted has finished.
    fn set_streams(&self, _wanted: usize) -> usize {
        1
    }
}

/// A [`Fault::Invalid`] for a copy whose sides differ in size or are not contiguous: what `copy_in` and `copy_out`
/// implementations return.
pub fn copy_mismatch() -> Fault {
    Error::argument("copy", "source and destination of a copy must be contiguous and of one size").into()
}

//! Optional traits of a backend: streams, BLAS library, metrics, profiler, remarks.

use crate::profile::{DeviceProfiler, GpuBenchmarkMetrics};

/// The optional parts of a device's interface, each a trait of its own; what a device does not have is `None`.
///
/// Given by [`Backend::extensions`](crate::Backend::extensions). The methods answer for devices that lack a part, too.
#[derive(Clone, Copy, Default)]
pub struct Extensions<'a> {
    /// Queues of work that may overlap.
    pub streams: Option<&'a dyn Streams>,
    /// The BLAS library of the device's vendor.
    pub blas: Option<&'a dyn VendorBlas>,
    /// Its own measuring of when it ran what. The CPU needs none: its [`run`](crate::Backend::run) returns when the work is
    /// done, so that the caller's clock serves.
    pub profiler: Option<&'a dyn DeviceProfiler>,
    /// How busy it is.
    pub metrics: Option<&'a dyn DeviceMetrics>,
    /// What people should know of it.
    pub remarks: Option<&'a dyn Remarks>,
}

/// Queues of work, each in order, that may overlap. Each thread works on one of them, by
/// [`current_stream`](crate::current_stream); what one stream has left in memory, another finds there.
pub trait Streams: Send + Sync {
    /// How many there are.
    fn streams(&self) -> usize;

    /// Asks for so many streams, and returns how many there are from now on: one, unless the device can have more. Waits until
    /// everything submitted has finished.
    fn set_streams(&self, wanted: usize) -> usize;
}

/// The BLAS library of the device's vendor.
pub trait VendorBlas: Send + Sync {
    /// Whether matmuls whose [order is free](crate::MatMul::allows_reassociation) may go to the library, at a speed of their
    /// own. May take a moment, since the library is opened.
    fn has_blas_library(&self) -> bool;
}

/// How busy a device is, by its driver's word.
pub trait DeviceMetrics: Send + Sync {
    /// How busy the device is at this moment, as far as its driver tells.
    fn metrics(&self) -> GpuBenchmarkMetrics {
        GpuBenchmarkMetrics::default()
    }

    /// Where the device is plugged in, as `domain:bus:device.function` in hexadecimal (`0000:01:00.0`): what tells that
    /// devices of two drivers are one, and lets the system's own monitors be asked.
    fn pci_address(&self) -> Option<&str> {
        None
    }
}

/// What people should know of a device beside its name.
pub trait Remarks: Send + Sync {
    /// Libraries that it uses, and those that would help but are missing, with a word on how to get them. May take a moment,
    /// since what was not used yet is tried.
    fn remarks(&self) -> Vec<String>;
}

impl<'a> Extensions<'a> {
    /// How many [streams](Streams) there are; one where the device has no others.
    pub fn stream_count(&self) -> usize {
        self.streams.map_or(1, Streams::streams)
    }

    /// [`VendorBlas::has_blas_library`]; no where there is none.
    pub fn has_blas_library(&self) -> bool {
        self.blas.is_some_and(VendorBlas::has_blas_library)
    }

    /// [`DeviceMetrics::metrics`]; empty where the device tells nothing.
    pub fn metrics(&self) -> GpuBenchmarkMetrics {
        self.metrics.map(DeviceMetrics::metrics).unwrap_or_default()
    }

    /// [`DeviceMetrics::pci_address`].
    pub fn pci_address(&self) -> Option<&'a str> {
        self.metrics.and_then(DeviceMetrics::pci_address)
    }

    /// [`Remarks::remarks`]; empty where there are none.
    pub fn remarks(&self) -> Vec<String> {
        self.remarks.map(Remarks::remarks).unwrap_or_default()
    }
}

//! The interface between the engine and a driver: memory, kernels, launches; implemented once per API.
//!
//! Beside the trait: the [`KernelSignature`] that launches are checked against, the [`DeviceLossFlag`] of a device, and
//! [`DriverLayer`], a wrapper that overrides part of another driver.

mod blas;
mod device_loss;
mod layer;
mod signature;

pub use blas::{BatchedGemm, BlasLibrary, GemmOutcome, MatrixBatch};
pub use device_loss::DeviceLossFlag;
pub use layer::DriverLayer;
pub use signature::{KernelSignature, check_range, check_size, invalid, shortened};

use crate::Hardware;
use rustorch_core::Fault;
use rustorch_core::profile::DeviceProfiler;
use std::any::Any;
use std::sync::OnceLock;

/// The maximum number of streams of a device.
pub const STREAMS: usize = 16;

/// A device as one API exposes it. Everything that kernels have in common is in the [`Engine`](crate::Engine).
///
/// Commands execute in submission order: a launch sees the results of earlier writes, copies and launches. Execution may be
/// asynchronous; [`read`](Self::read) and [`finish`](Self::finish) wait. All methods may be called from several threads.
///
/// With several streams this holds per stream, and only [`wait`](Self::wait) orders work between streams; the engine calls it
/// where memory is shared. Commands of a thread, freeing memory included, go to the stream that
/// [`current_stream`](rustorch_core::current_stream) returns.
pub trait Driver: Send + Sync + 'static {
    /// Memory of the device, freed when dropped; not before launches that use it are done.
    type Memory: Send + Sync + 'static;
    /// A kernel ready to run.
    type Kernel: Send + Sync + 'static;

    /// What the device is able to do.
    fn hardware(&self) -> &Hardware;

    /// New memory, contents unspecified. `bytes` is a positive multiple of 16.
    fn allocate(&self, bytes: usize) -> Result<Self::Memory, Fault>;

    /// Compiles a kernel from source in the driver's [`Language`](crate::Language).
    ///
    /// # Safety
    /// The source has the entry point, workgroup size, buffers and parameter block that [`KernelSource`] states. Drivers hand it to
    /// the device's compiler as it is.
    unsafe fn compile(&self, kernel: &KernelSource<'_>) -> Result<Self::Kernel, Fault>;

    /// Launches a kernel.
    ///
    /// # Safety
    /// With these parameters and workgroups, the kernel accesses only its buffer bindings, writes only those marked as written,
    /// and terminates.
    unsafe fn launch(&self, launch: &Launch<'_, Self>) -> Result<(), Fault>;

    /// Copies from the host. `offset` and the length are multiples of 4. `src` may be reused at once.
    fn write(&self, dst: &Self::Memory, offset: usize, src: &[u8]) -> Result<(), Fault>;

    /// Copies to the host, when all earlier work is done. `offset` and the length are multiples of 4.
    fn read(&self, src: &Self::Memory, offset: usize, dst: &mut [u8]) -> Result<(), Fault>;

    /// Copies within the device, between distinct memories. All numbers are multiples of 4.
    fn copy(
        &self,
        src: &Self::Memory,
        src_offset: usize,
        dst: &Self::Memory,
        dst_offset: usize,
        bytes: usize,
    ) -> Result<(), Fault>;

    /// Waits until all work of all streams is done.
    fn finish(&self) -> Result<(), Fault>;

    /// Sets the number of streams, at most [`STREAMS`], and returns how many there are now. No work is in flight, and none is
    /// submitted meanwhile.
    fn set_streams(&self, _wanted: usize) -> Result<usize, Fault> {
        Ok(1)
    }

    /// Has what `stream` is given from now on wait for what `other` was given so far. Does not wait itself.
    fn wait(&self, _stream: usize, _other: usize) -> Result<(), Fault> {
        Ok(())
    }

    /// Copies from the memory of another device of this API, which is idle, as [`copy`](Self::copy) does, and waits for it.
    /// `None` if there is no peer access.
    fn copy_from_peer(
        &self,
        _src: (&Self::Memory, usize),
        _dst: (&Self::Memory, usize),
        _bytes: usize,
    ) -> Option<Result<(), Fault>> {
        None
    }

    /// The vendor's BLAS library; the reason, as a sentence, if it could exist but does not; `None` if the API has none.
    fn blas(&self) -> Option<Result<&dyn BlasLibrary<Self::Memory>, &str>> {
        None
    }

    /// The device's profiler, if it has timestamps.
    fn profiler(&self) -> Option<&dyn DeviceProfiler> {
        None
    }

    /// The PCI address, see [`rustorch_core::DeviceMetrics::pci_address`].
    fn pci_address(&self) -> Option<&str> {
        None
    }
}

/// The source of a kernel, and what a launch has to match.
#[derive(Clone, Copy, Debug)]
pub struct KernelSource<'a> {
    /// A label for messages; not unique.
    pub label: &'a str,
    /// The source in the driver's language.
    pub source: &'a str,
    /// The name of the entry point in the source.
    pub entry: &'a str,
    /// Invocations of a workgroup.
    pub workgroup: [u32; 3],
    /// How many buffers it takes: parameters 0 to n − 1 (WGSL: bindings of group 0).
    pub buffers: usize,
    /// The bytes of its parameter block, a multiple of 16: the last parameter, a uniform buffer in WGSL and a structure by
    /// value in C.
    pub parameters: usize,
    /// Whether it is a user's, so that the driver must not trust it. WGSL is compiled with bounds checks; C, which has its own, takes
    /// the size in bytes of each buffer as further parameters, `u32`, after its parameter block.
    pub checked: bool,
}

/// A kernel launch.
pub struct Launch<'a, D: Driver + ?Sized> {
    /// Kernel key: everything its source depends on.
    pub kernel: &'a D::Kernel,
    /// Its buffers, in order.
    pub buffers: &'a [BufferBinding<'a, D::Memory>],
    /// Its parameter block, of the size that its [`KernelSource`] states.
    pub parameters: &'a [u32],
    /// Workgroups by dimension; none is 0.
    pub groups: [u32; 3],
    /// The operation it belongs to, for profilers.
    pub label: &'a str,
    /// For what the driver makes of all this but the parameters' values, which are the same whenever the cache is.
    pub cache: Option<&'a LaunchCache>,
}

/// What a driver keeps of a launch for later ones of the same kernel with the same buffers and workgroups, such as a bind group: set by
/// the first.
#[derive(Debug, Default)]
pub struct LaunchCache(OnceLock<Box<dyn Any + Send + Sync>>);

impl LaunchCache {
    /// What is kept, if it is of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.get()?.downcast_ref()
    }

    /// Keeps something, unless something is kept already.
    pub fn set(&self, kept: impl Any + Send + Sync) {
        // Whoever was first made the same.
        let _ = self.0.set(Box::new(kept));
    }
}

/// A range of a buffer bound to a kernel.
pub struct BufferBinding<'a, M> {
    /// The memory.
    pub memory: &'a M,
    /// The offset in bytes: a multiple of [`Hardware::window`], or 0 where there is none.
    pub start: u64,
    /// How many bytes, a multiple of 4.
    pub bytes: u64,
    /// Whether the kernel writes it.
    pub writes: bool,
}

//! Drivers that wrap other drivers.

use super::{BlasLibrary, Driver, KernelSource, Launch};
use crate::Hardware;
use rustorch_core::Fault;
use rustorch_core::profile::DeviceProfiler;

/// A driver on top of another one, to which it hands on whatever it does not do itself: one that counts, traces, fails on
/// demand, or tells less of its device than there is. Memory and kernels are the other one's.
///
/// ```
/// use rustorch_core::Fault;
/// use rustorch_kernels::driver::DriverLayer;
/// use rustorch_kernels::{Driver, Launch};
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// /// Counts launches.
/// struct Counting<D> {
///     driver: D,
///     launches: AtomicUsize,
/// }
///
/// impl<D: Driver> DriverLayer for Counting<D> {
///     type Inner = D;
///
///     fn inner(&self) -> &D {
///         &self.driver
///     }
///
///     unsafe fn launch(&self, launch: &Launch<'_, D>) -> Result<(), Fault> {
///         self.launches.fetch_add(1, Ordering::Relaxed);
///         // SAFETY: the caller's promise is the same.
///         unsafe { self.driver.launch(launch) }
///     }
/// }
/// ```
pub trait DriverLayer: Send + Sync + 'static {
    /// The driver below.
    type Inner: Driver;

    /// The driver below.
    fn inner(&self) -> &Self::Inner;

    /// Stands for [`Driver::hardware`].
    fn hardware(&self) -> &Hardware {
        self.inner().hardware()
    }

    /// Stands for [`Driver::allocate`].
    fn allocate(&self, bytes: usize) -> Result<<Self::Inner as Driver>::Memory, Fault> {
        self.inner().allocate(bytes)
    }

    /// Stands for [`Driver::compile`].
    ///
    /// # Safety
    /// As there.
    unsafe fn compile(&self, kernel: &KernelSource<'_>) -> Result<<Self::Inner as Driver>::Kernel, Fault> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.inner().compile(kernel) }
    }

    /// Stands for [`Driver::launch`].
    ///
    /// # Safety
    /// As there.
    unsafe fn launch(&self, launch: &Launch<'_, Self::Inner>) -> Result<(), Fault> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.inner().launch(launch) }
    }

    /// Stands for [`Driver::write`].
    fn write(&self, dst: &<Self::Inner as Driver>::Memory, offset: usize, src: &[u8]) -> Result<(), Fault> {
        self.inner().write(dst, offset, src)
    }

    /// Stands for [`Driver::read`].
    fn read(
        &self,
        src: &<Self::Inner as Driver>::Memory,
        offset: usize,
        dst: &mut [u8],
    ) -> Result<(), Fault> {
        self.inner().read(src, offset, dst)
    }

    /// Stands for [`Driver::wait`].
    fn wait(&self, stream: usize, other: usize) -> Result<(), Fault> {
        self.inner().wait(stream, other)
    }

    /// Stands for [`Driver::blas`].
    fn blas(&self) -> Option<Result<&dyn BlasLibrary<<Self::Inner as Driver>::Memory>, &str>> {
        self.inner().blas()
    }
}

impl<L: DriverLayer> Driver for L {
    type Memory = <L::Inner as Driver>::Memory;
    type Kernel = <L::Inner as Driver>::Kernel;

    fn hardware(&self) -> &Hardware {
        DriverLayer::hardware(self)
    }

    fn allocate(&self, bytes: usize) -> Result<Self::Memory, Fault> {
        DriverLayer::allocate(self, bytes)
    }

    unsafe fn compile(&self, kernel: &KernelSource<'_>) -> Result<Self::Kernel, Fault> {
        // SAFETY: the caller's promise is the same.
        unsafe { DriverLayer::compile(self, kernel) }
    }

    unsafe fn launch(&self, launch: &Launch<'_, L>) -> Result<(), Fault> {
        let &Launch { kernel, buffers, parameters, groups, label, cache } = launch;
        // SAFETY: the caller's promise is the same.
        unsafe { DriverLayer::launch(self, &Launch { kernel, buffers, parameters, groups, label, cache }) }
    }

    fn write(&self, dst: &Self::Memory, offset: usize, src: &[u8]) -> Result<(), Fault> {
        DriverLayer::write(self, dst, offset, src)
    }

    fn read(&self, src: &Self::Memory, offset: usize, dst: &mut [u8]) -> Result<(), Fault> {
        DriverLayer::read(self, src, offset, dst)
    }

    fn copy(
        &self,
        src: &Self::Memory,
        src_offset: usize,
        dst: &Self::Memory,
        dst_offset: usize,
        bytes: usize,
    ) -> Result<(), Fault> {
        self.inner().copy(src, src_offset, dst, dst_offset, bytes)
    }

    fn finish(&self) -> Result<(), Fault> {
        self.inner().finish()
    }

    fn set_streams(&self, wanted: usize) -> Result<usize, Fault> {
        self.inner().set_streams(wanted)
    }

    fn wait(&self, stream: usize, other: usize) -> Result<(), Fault> {
        DriverLayer::wait(self, stream, other)
    }

    fn copy_from_peer(
        &self,
        src: (&Self::Memory, usize),
        dst: (&Self::Memory, usize),
        bytes: usize,
    ) -> Option<Result<(), Fault>> {
        self.inner().copy_from_peer(src, dst, bytes)
    }

    fn blas(&self) -> Option<Result<&dyn BlasLibrary<Self::Memory>, &str>> {
        DriverLayer::blas(self)
    }

    fn profiler(&self) -> Option<&dyn DeviceProfiler> {
        self.inner().profiler()
    }

    fn pci_address(&self) -> Option<&str> {
        self.inner().pci_address()
    }
}

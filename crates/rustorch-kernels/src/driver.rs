//! The contract between the engine and a driver: memory, kernels, launches. One screen, implemented once for each API.
//!
//! Beside it, what drivers have in common: the [`Form`] of kernels and of what they are given, the [`Loss`] of a device, and
//! the [`Layer`] that changes some of what another driver does.

mod form;
mod layer;
mod loss;
mod product;

pub use form::{Form, check_range, check_size, invalid, shortened};
pub use layer::Layer;
pub use loss::Loss;
pub use product::{Matrices, Multiplied, Product, Products};

use crate::Hardware;
use rustorch_core::Fault;
use rustorch_core::profile::DeviceProfiler;

/// The most streams of a device: more than overlap anywhere.
pub const STREAMS: usize = 16;

/// A driver's part of a device. Everything that kernels have in common is the [`Engine`](crate::Engine)'s.
///
/// Work is done in the order in which it is given: a launch sees what earlier writes, copies and launches have left.
/// It may be done later; [`read`](Self::read) and [`finish`](Self::finish) wait. All methods may be called from several
/// threads.
///
/// If there are several streams, this holds for each of them, and only [`wait`](Self::wait) orders work of one after work of
/// another: the engine calls it where memory demands it. What a thread gives, memory to free among it, goes to the stream that
/// [`current_stream`](rustorch_core::current_stream) tells.
pub trait Driver: Send + Sync + 'static {
    /// Memory of the device, freed when dropped; not before launches that use it are done.
    type Memory: Send + Sync + 'static;
    /// A kernel ready to run.
    type Kernel: Send + Sync + 'static;

    /// What the device is able to do.
    fn hardware(&self) -> &Hardware;

    /// New memory, contents unspecified. `bytes` is a positive multiple of 16.
    fn allocate(&self, bytes: usize) -> Result<Self::Memory, Fault>;

    /// Makes a kernel of its text in the driver's [`Language`](crate::Language).
    fn compile(&self, kernel: &Text<'_>) -> Result<Self::Kernel, Fault>;

    /// Runs a kernel.
    fn launch(&self, launch: &Launch<'_, Self>) -> Result<(), Fault>;

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

    /// Has as many streams as are wanted, at most [`STREAMS`], from now on, if that is possible, and returns how many there are. No work is on its
    /// way, and none is given meanwhile.
    fn set_streams(&self, _wanted: usize) -> Result<usize, Fault> {
        Ok(1)
    }

    /// Has what `stream` is given from now on wait for what `other` was given so far. Does not wait itself.
    fn wait(&self, _stream: usize, _other: usize) -> Result<(), Fault> {
        Ok(())
    }

    /// Copies from the memory of another device of this API, which has finished with it, as [`copy`](Self::copy) does, and
    /// waits until it is done. `None` where there is no direct way.
    fn copy_from_peer(
        &self,
        _src: (&Self::Memory, usize),
        _dst: (&Self::Memory, usize),
        _bytes: usize,
    ) -> Option<Result<(), Fault>> {
        None
    }

    /// The vendor's library of dense products; why there is none, in a sentence for people, where there could be one; `None`
    /// where none is known.
    fn products(&self) -> Option<Result<&dyn Products<Self::Memory>, &str>> {
        None
    }

    /// The device's own measuring of when it ran what, if it can.
    fn profiler(&self) -> Option<&dyn DeviceProfiler> {
        None
    }

    /// Where the device is plugged in, as [`rustorch_core::Backend::pci_address`] tells it.
    fn pci_address(&self) -> Option<&str> {
        None
    }
}

/// A kernel as text.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// A name for people; different kernels may share it.
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
}

/// A kernel on its way.
pub struct Launch<'a, D: Driver + ?Sized> {
    /// The kernel.
    pub kernel: &'a D::Kernel,
    /// Its buffers, in order.
    pub buffers: &'a [Window<'a, D::Memory>],
    /// Its parameter block, of the length that its [`Text`] states in bytes.
    pub parameters: &'a [u32],
    /// How many workgroups run, by dimension; none is 0.
    pub groups: [u32; 3],
    /// The operation that it is part of, for profilers.
    pub label: &'a str,
}

/// Part of a memory that a kernel sees.
pub struct Window<'a, M> {
    /// The memory.
    pub memory: &'a M,
    /// The first byte: a multiple of [`Hardware::window`], or 0 where there is none.
    pub start: u64,
    /// How many bytes, a multiple of 4.
    pub bytes: u64,
    /// Whether the kernel writes it.
    pub writes: bool,
}

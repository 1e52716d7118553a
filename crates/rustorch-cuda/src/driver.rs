//! The driver: memory, launches and copies.

use crate::context::Context;
use crate::describe::pci_address;
use crate::discover::Candidate;
use crate::memory::Memory;
use crate::program::{Compiler, Kernel};
use cudarc::driver::sys;
use rustorch_core::Fault;
use rustorch_core::profile::{DeviceProfiler, SpanKind};
use rustorch_kernels::driver::{BlasLibrary, check_range, invalid};
use rustorch_kernels::{Driver, Hardware, KernelCache, KernelSource, Launch};
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

/// An open NVIDIA GPU.
pub struct Cuda {
    pub(crate) context: Arc<Context>,
    hardware: Hardware,
    compiler: Compiler,
    pci_address: Option<String>,
}

impl Candidate {
    /// Opens the GPU. Kernels are cached in [`cache_dir`](rustorch_core::cache_dir).
    ///
    /// # Errors
    /// [`Fault::Backend`] if the driver refuses.
    pub fn open(&self) -> Result<Cuda, Fault> {
        self.open_with(KernelCache::in_cache_dir("cuda"))
    }

    /// [`open`](Self::open) with a cache of the caller's choice, or none.
    pub fn open_with(&self, cache: Option<KernelCache>) -> Result<Cuda, Fault> {
        let context = Arc::new(Context::open(self.id, self.hardware.device)?);
        let compiler = Compiler { nvrtc: self.nvrtc.clone(), target: self.target, cache };
        tracing::info!(hardware = ?self.hardware, target = %self.target, "opened");
        let pci_address = pci_address(self.id);
        Ok(Cuda { context, hardware: self.hardware.clone(), compiler, pci_address })
    }
}

impl Cuda {
    /// Makes the device lost, as if its driver had said so: whatever is asked of it later fails. For tests of what is to
    /// happen then.
    pub fn lose(&self, message: &str) {
        self.context.loss.lose(message);
    }

    /// Fails if a launch is not of its kernel's form: what the driver would take and do wrong.
    fn check(&self, launch: &Launch<'_, Cuda>) -> Result<(), Fault> {
        let kernel = launch.kernel;
        if !Arc::ptr_eq(&kernel.context, &self.context) {
            let message = format!("kernel `{}` was compiled by another driver", kernel.form.label);
            return Err(invalid("launch", message));
        }
        kernel.form.check(launch, &self.hardware)?;
        for window in launch.buffers {
            let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
            window.memory.check(&self.context, number(window.start), number(window.bytes))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cuda({}, {})", self.hardware.device, self.hardware.name)
    }
}

impl Driver for Cuda {
    type Memory = Memory;
    type Kernel = Kernel;

    fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, Fault> {
        Memory::new(&self.context, bytes)
    }

    unsafe fn compile(&self, kernel: &KernelSource<'_>) -> Result<Kernel, Fault> {
        self.compiler.kernel(&self.context, kernel)
    }

    unsafe fn launch(&self, launch: &Launch<'_, Cuda>) -> Result<(), Fault> {
        let (context, kernel) = (&self.context, launch.kernel);
        self.check(launch)?;
        context.enter()?;
        let addresses: Vec<u64> =
            launch.buffers.iter().map(|window| window.memory.address + window.start).collect();
        // The driver copies each parameter from its place, by the size that the compiled kernel states.
        let mut places: Vec<*mut c_void> =
            addresses.iter().map(|address| std::ptr::from_ref(address).cast_mut().cast()).collect();
        if kernel.form.parameters > 0 {
            places.push(launch.parameters.as_ptr().cast_mut().cast());
        }
        let sizes = kernel.form.sizes(launch);
        places.extend(sizes.iter().map(|size| std::ptr::from_ref(size).cast_mut().cast::<c_void>()));
        let bytes = launch.buffers.iter().map(|window| window.bytes as usize).sum();
        context.spans.measure(context, SpanKind::Compute, &kernel.form.label, || {
            let ([gx, gy, gz], [x, y, z]) = (launch.groups, kernel.form.workgroup);
            // SAFETY: the function is of a module that lives; there is a place for each of its parameters, of the size that the
            // source states; the memories have the bytes that the kernel is told of (the caller's word).
            let result = unsafe {
                sys::cuLaunchKernel(
                    kernel.function,
                    gx,
                    gy,
                    gz,
                    x,
                    y,
                    z,
                    0,
                    context.stream().handle,
                    places.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            };
            context.check("cuLaunchKernel", result, bytes)
        })
    }

    fn write(&self, dst: &Memory, offset: usize, src: &[u8]) -> Result<(), Fault> {
        let context = &self.context;
        dst.check(context, offset, src.len())?;
        context.enter()?;
        if src.is_empty() {
            return Ok(());
        }
        let stream = context.stream();
        context.spans.measure(context, SpanKind::Copy, "write", || {
            stream.up().write(context, stream, dst.address + offset as u64, src)
        })
    }

    fn read(&self, src: &Memory, offset: usize, dst: &mut [u8]) -> Result<(), Fault> {
        let context = &self.context;
        src.check(context, offset, dst.len())?;
        context.enter()?;
        if dst.is_empty() {
            return Ok(());
        }
        let stream = context.stream();
        context.spans.measure(context, SpanKind::Copy, "read", || {
            stream.down().read(context, stream, src.address + offset as u64, dst)
        })
    }

    fn copy(
        &self,
        src: &Memory,
        src_offset: usize,
        dst: &Memory,
        dst_offset: usize,
        bytes: usize,
    ) -> Result<(), Fault> {
        let context = &self.context;
        src.check(context, src_offset, bytes)?;
        dst.check(context, dst_offset, bytes)?;
        context.enter()?;
        if bytes == 0 {
            return Ok(());
        }
        let (to, from) = (dst.address + dst_offset as u64, src.address + src_offset as u64);
        context.spans.measure(context, SpanKind::Copy, "copy", || {
            // SAFETY: both memories have the bytes, as was checked.
            let result = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, context.stream().handle) };
            context.check("cuMemcpyDtoDAsync", result, bytes)
        })
    }

    fn finish(&self) -> Result<(), Fault> {
        self.context.enter()?;
        self.context.finish()
    }

    fn set_streams(&self, wanted: usize) -> Result<usize, Fault> {
        self.context.enter()?;
        self.context.set_streams(wanted)
    }

    fn wait(&self, stream: usize, other: usize) -> Result<(), Fault> {
        let context = &self.context;
        context.enter()?;
        context.stream_of(stream).wait(context, context.stream_of(other))
    }

    fn copy_from_peer(
        &self,
        src: (&Memory, usize),
        dst: (&Memory, usize),
        bytes: usize,
    ) -> Option<Result<(), Fault>> {
        let context = &self.context;
        let copy = || {
            check_range(src.0.bytes, src.1, bytes)?;
            dst.0.check(context, dst.1, bytes)?;
            src.0.context.loss.check()?;
            context.enter()?;
            if bytes == 0 { Ok(()) } else { context.copy_from_peer(src, dst, bytes) }
        };
        Some(copy())
    }

    fn blas(&self) -> Option<Result<&dyn BlasLibrary<Memory>, &str>> {
        Some(self.context.blas.library(&self.context).map(|_| -> &dyn BlasLibrary<Memory> { self }))
    }

    fn profiler(&self) -> Option<&dyn DeviceProfiler> {
        Some(self)
    }

    fn pci_address(&self) -> Option<&str> {
        self.pci_address.as_deref()
    }
}

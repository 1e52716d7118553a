//! The driver: memory, launches and copies.

use crate::describe::pci_address;
use crate::discover::Candidate;
use crate::memory::Memory;
use crate::open_device::{Command, OpenDevice};
use crate::program::{Builder, Kernel};
use crate::status::describe;
use crate::sys::{self, Api};
use rustorch_core::Fault;
use rustorch_core::profile::{DeviceProfiler, SpanKind};
use rustorch_kernels::driver::{check_range, invalid};
use rustorch_kernels::{Driver, Hardware, KernelCache, KernelSource, Launch};
use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, PoisonError};

/// An open OpenCL device.
pub struct OpenCl {
    pub(crate) open_device: Arc<OpenDevice>,
    hardware: Hardware,
    builder: Builder,
    pci_address: Option<String>,
}

impl Candidate {
    /// Opens the device. Kernels are cached in [`cache_dir`](rustorch_core::cache_dir).
    ///
    /// # Errors
    /// [`Fault::Backend`] if the driver refuses.
    pub fn open(&self) -> Result<OpenCl, Fault> {
        self.open_with(KernelCache::in_cache_dir("opencl"))
    }

    /// [`open`](Self::open) with a cache of the caller's choice, or none.
    pub fn open_with(&self, cache: Option<KernelCache>) -> Result<OpenCl, Fault> {
        let device = self.hardware.device;
        let api = Api::get().map_err(|missing| Fault::Backend { device, message: missing.0 })?;
        let open_device = Arc::new(OpenDevice::open(api, self)?);
        let builder = Builder::new(api, self.id, &self.hardware, cache);
        tracing::info!(hardware = ?self.hardware, "opened");
        let pci_address = pci_address(api, self.id);
        Ok(OpenCl { open_device, hardware: self.hardware.clone(), builder, pci_address })
    }
}

impl OpenCl {
    /// Makes the device lost, as if its driver had said so: whatever is asked of it later fails. For tests of what is to
    /// happen then.
    pub fn lose(&self, message: &str) {
        self.open_device.loss.lose(message);
    }
}

impl fmt::Debug for OpenCl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenCl({}, {})", self.hardware.device, self.hardware.name)
    }
}

impl Driver for OpenCl {
    type Memory = Memory;
    type Kernel = Kernel;

    fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, Fault> {
        Memory::new(&self.open_device, bytes)
    }

    unsafe fn compile(&self, kernel: &KernelSource<'_>) -> Result<Kernel, Fault> {
        self.builder.kernel(&self.open_device, kernel)
    }

    unsafe fn launch(&self, launch: &Launch<'_, OpenCl>) -> Result<(), Fault> {
        let open_device = &self.open_device;
        let kernel = launch.kernel;
        self.check(launch)?;
        let sizes: [usize; 3] = std::array::from_fn(|i| kernel.form.workgroup[i] as usize);
        let items: [usize; 3] = std::array::from_fn(|i| launch.groups[i] as usize * sizes[i]);
        let bytes = launch.buffers.iter().map(|window| window.bytes as usize).sum();
        let command = Command {
            call: "clEnqueueNDRangeKernel",
            kind: SpanKind::Compute,
            label: &kernel.form.label,
            bytes,
        };

        let handle = kernel.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let set = |index: usize, bytes: usize, value: *const c_void| {
            // SAFETY: the kernel is locked, and the value has as many bytes as stated.
            match unsafe { (open_device.api.set_kernel_arg)(*handle, index as u32, bytes, value) } {
                sys::SUCCESS => Ok(()),
                status => Err(Fault::Backend {
                    device: open_device.device,
                    message: format!(
                        "kernel `{}` does not take its parameter {index} of {bytes} bytes: clSetKernelArg says {}",
                        kernel.form.label,
                        describe(status)
                    ),
                }),
            }
        };
        open_device.loss.check()?;
        for (i, window) in launch.buffers.iter().enumerate() {
            set(i, size_of_val(&window.memory.handle), (&raw const window.memory.handle).cast())?;
        }
        if kernel.form.parameters > 0 {
            set(launch.buffers.len(), kernel.form.parameters, launch.parameters.as_ptr().cast())?;
        }
        let first = launch.buffers.len() + usize::from(kernel.form.parameters > 0);
        for (i, size) in kernel.form.sizes(launch).iter().enumerate() {
            set(first + i, size_of_val(size), std::ptr::from_ref(size).cast())?;
        }
        open_device.enqueue(&command, false, |queue, event| {
            // SAFETY: every parameter is set, the memories have the bytes that the kernel is told of (the caller's word),
            // and each list has three entries.
            unsafe {
                (open_device.api.enqueue_nd_range_kernel)(
                    queue,
                    *handle,
                    3,
                    std::ptr::null(),
                    items.as_ptr(),
                    sizes.as_ptr(),
                    0,
                    std::ptr::null(),
                    event,
                )
            }
        })?;
        drop(handle);
        open_device.spans.tidy(open_device.api);
        Ok(())
    }

    fn write(&self, dst: &Memory, offset: usize, src: &[u8]) -> Result<(), Fault> {
        let open_device = &self.open_device;
        dst.check(open_device, offset, src.len())?;
        if src.is_empty() {
            return open_device.loss.check();
        }
        let command =
            Command { call: "clEnqueueWriteBuffer", kind: SpanKind::Copy, label: "write", bytes: src.len() };
        let staging = &open_device.command_queue().staging;
        let staged = staging.copy(src);
        let wait = u32::from(staged.is_none());
        let from = staged.as_deref().unwrap_or(src);
        let event = open_device.enqueue(&command, staged.is_some(), |queue, event| {
            // SAFETY: the memory has the bytes, as was checked, and the source lives until the copy is done: the call waits
            // for it, or the source is kept with the event.
            unsafe {
                (open_device.api.enqueue_write_buffer)(
                    queue,
                    dst.handle,
                    wait,
                    offset,
                    from.len(),
                    from.as_ptr().cast(),
                    0,
                    std::ptr::null(),
                    event,
                )
            }
        });
        match (event, staged) {
            (Ok(Some(event)), Some(bytes)) => staging.keep(event, bytes),
            // The write may be in the queue although flushing has failed, so its source must stay.
            (Err(fault), Some(bytes)) => {
                Box::leak(bytes);
                return Err(fault);
            }
            (result, _) => drop(result?),
        }
        Ok(())
    }

    fn read(&self, src: &Memory, offset: usize, dst: &mut [u8]) -> Result<(), Fault> {
        let open_device = &self.open_device;
        src.check(open_device, offset, dst.len())?;
        if dst.is_empty() {
            return open_device.loss.check();
        }
        let command =
            Command { call: "clEnqueueReadBuffer", kind: SpanKind::Copy, label: "read", bytes: dst.len() };
        open_device.enqueue(&command, false, |queue, event| {
            // SAFETY: the memory has the bytes, as was checked, and the call waits until they are copied.
            unsafe {
                (open_device.api.enqueue_read_buffer)(
                    queue,
                    src.handle,
                    1,
                    offset,
                    dst.len(),
                    dst.as_mut_ptr().cast(),
                    0,
                    std::ptr::null(),
                    event,
                )
            }
        })?;
        open_device.command_queue().staging.sweep();
        Ok(())
    }

    fn copy(
        &self,
        src: &Memory,
        src_offset: usize,
        dst: &Memory,
        dst_offset: usize,
        bytes: usize,
    ) -> Result<(), Fault> {
        let open_device = &self.open_device;
        src.check(open_device, src_offset, bytes)?;
        dst.check(open_device, dst_offset, bytes)?;
        self.enqueue_copy("copy", (src, src_offset), (dst, dst_offset), bytes)
    }

    fn finish(&self) -> Result<(), Fault> {
        self.open_device.finish()
    }

    fn set_streams(&self, wanted: usize) -> Result<usize, Fault> {
        self.open_device.set_streams(wanted)
    }

    fn wait(&self, stream: usize, other: usize) -> Result<(), Fault> {
        self.open_device.wait(stream, other)
    }

    fn copy_from_peer(
        &self,
        (src, from): (&Memory, usize),
        (dst, to): (&Memory, usize),
        bytes: usize,
    ) -> Option<Result<(), Fault>> {
        let open_device = &self.open_device;
        if !open_device.reaches(&src.open_device) {
            return None;
        }
        let copy = || {
            check_range(src.bytes, from, bytes)?;
            dst.check(open_device, to, bytes)?;
            src.open_device.loss.check()?;
            self.enqueue_copy("copy from peer", (src, from), (dst, to), bytes)?;
            open_device.finish_queue(open_device.command_queue())
        };
        Some(copy())
    }

    fn profiler(&self) -> Option<&dyn DeviceProfiler> {
        Some(self)
    }

    fn pci_address(&self) -> Option<&str> {
        self.pci_address.as_deref()
    }
}

impl OpenCl {
    /// Copies within a context. Both memories have the bytes.
    fn enqueue_copy(
        &self,
        label: &str,
        (src, from): (&Memory, usize),
        (dst, to): (&Memory, usize),
        bytes: usize,
    ) -> Result<(), Fault> {
        let open_device = &self.open_device;
        if bytes == 0 {
            return open_device.loss.check();
        }
        let command = Command { call: "clEnqueueCopyBuffer", kind: SpanKind::Copy, label, bytes };
        open_device.enqueue(&command, false, |queue, event| {
            // SAFETY: both memories are of the queue's context and have the bytes, by the word of the callers; OpenCL itself
            // refuses to copy onto itself.
            unsafe {
                (open_device.api.enqueue_copy_buffer)(
                    queue,
                    src.handle,
                    dst.handle,
                    from,
                    to,
                    bytes,
                    0,
                    std::ptr::null(),
                    event,
                )
            }
        })?;
        Ok(())
    }

    /// Fails if a launch is not of its kernel's form: what the driver would take and do wrong.
    fn check(&self, launch: &Launch<'_, OpenCl>) -> Result<(), Fault> {
        let kernel = launch.kernel;
        if !Arc::ptr_eq(&kernel.open_device, &self.open_device) {
            let message = format!("kernel `{}` was compiled by another driver", kernel.form.label);
            return Err(invalid("launch", message));
        }
        kernel.form.check(launch, &self.hardware)?;
        for window in launch.buffers {
            window.memory.check(&self.open_device, 0, usize::try_from(window.bytes).unwrap_or(usize::MAX))?;
        }
        Ok(())
    }
}

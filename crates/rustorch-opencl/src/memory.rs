//! Memory of a device.

use crate::open_device::{Command, OpenDevice};
use crate::sys::{self, MemHandle};
use rustorch_core::Fault;
use rustorch_core::profile::SpanKind;
use rustorch_kernels::driver::{check_range, check_size, invalid};
use std::fmt;
use std::sync::Arc;

/// Memory of an OpenCL device. Commands that use it keep it until they are done, whatever is dropped.
pub struct Memory {
    pub(crate) open_device: Arc<OpenDevice>,
    pub(crate) handle: MemHandle,
    pub(crate) bytes: usize,
}

impl Memory {
    /// New memory that is really there.
    pub(crate) fn new(open_device: &Arc<OpenDevice>, bytes: usize) -> Result<Memory, Fault> {
        open_device.loss.check()?;
        check_size(bytes)?;
        open_device.reserve(bytes)?;
        let handle = match create(open_device, bytes) {
            Ok(handle) => handle,
            Err(fault) => {
                open_device.release(bytes);
                return Err(fault);
            }
        };
        let memory = Memory { open_device: Arc::clone(open_device), handle, bytes };
        match memory.touch() {
            Ok(()) => Ok(memory),
            Err(Fault::DeviceLost { device, message }) => Err(Fault::DeviceLost { device, message }),
            Err(fault) => {
                tracing::debug!(%fault, bytes, "new memory cannot be used");
                Err(Fault::OutOfMemory { device: open_device.device, requested: bytes })
            }
        }
    }

    /// Writes the first word: many drivers allocate only when memory is first used, and running out is to be noticed now.
    fn touch(&self) -> Result<(), Fault> {
        let api = self.open_device.api;
        let (call, bytes) = ("clEnqueueFillBuffer", self.bytes);
        let command = Command { call, kind: SpanKind::Copy, label: "allocate", bytes };
        let zero = 0_u32;
        let (pattern, word) = ((&raw const zero).cast(), size_of::<u32>());
        self.open_device.enqueue(&command, false, |queue, event| {
            // SAFETY: the buffer has at least one word, and the pattern is copied before the call returns.
            unsafe {
                (api.enqueue_fill_buffer)(
                    queue,
                    self.handle,
                    pattern,
                    word,
                    0,
                    word,
                    0,
                    std::ptr::null(),
                    event,
                )
            }
        })?;
        Ok(())
    }

    /// Fails unless it is of this open device and has these bytes.
    pub(crate) fn check(
        &self,
        open_device: &Arc<OpenDevice>,
        offset: usize,
        bytes: usize,
    ) -> Result<(), Fault> {
        if !Arc::ptr_eq(&self.open_device, open_device) {
            let (own, other) = (self.open_device.device, open_device.device);
            return Err(invalid("memory", format!("memory of {own} was given to another driver of {other}")));
        }
        check_range(self.bytes, offset, bytes)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes on {})", self.bytes, self.open_device.device)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the handle is this object's alone. OpenCL itself keeps the memory for commands in the queue.
        unsafe { (self.open_device.api.release_mem_object)(self.handle) };
        self.open_device.release(self.bytes);
    }
}

/// A buffer, which may not exist before it is used.
fn create(open_device: &OpenDevice, bytes: usize) -> Result<MemHandle, Fault> {
    let mut status = sys::SUCCESS;
    // SAFETY: the context is alive, and no host memory is given.
    let handle = unsafe {
        (open_device.api.create_buffer)(
            open_device.context(),
            sys::MEM_READ_WRITE,
            bytes,
            std::ptr::null_mut(),
            &mut status,
        )
    };
    match status {
        sys::SUCCESS => Ok(handle),
        sys::MEM_OBJECT_ALLOCATION_FAILURE
        | sys::OUT_OF_RESOURCES
        | sys::OUT_OF_HOST_MEMORY
        | sys::INVALID_BUFFER_SIZE => {
            Err(Fault::OutOfMemory { device: open_device.device, requested: bytes })
        }
        sys::INVALID_CONTEXT | sys::DEVICE_NOT_AVAILABLE => {
            Err(open_device.loss.lose(format!("clCreateBuffer says {}", crate::status::describe(status))))
        }
        status => Err(open_device.refused("clCreateBuffer", status)),
    }
}

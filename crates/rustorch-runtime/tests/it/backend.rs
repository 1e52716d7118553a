//! What `Backend::alloc` gives is checked before anything is computed there.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::{OPENCL, shape};
use rustorch_core::{
    Backend, Buffer, DType, Decline, Device, DeviceCapability, Fault, Op, TensorMeta, View, ViewMut,
};
use rustorch_runtime::HybridExecutor;
use std::ptr::NonNull;
use std::sync::Arc;

/// A device whose memory is not what was asked for.
struct Careless {
    capability: DeviceCapability,
    alloc: fn(usize) -> Buffer,
}

// SAFETY: it breaks the contract in `alloc` only, which the executor refuses; nothing else is ever reached.
unsafe impl Backend for Careless {
    fn device(&self) -> Device {
        OPENCL
    }

    fn capability(&self) -> &DeviceCapability {
        &self.capability
    }

    fn supports(&self, _: &Op, _: &[TensorMeta<'_>]) -> Result<(), Decline> {
        Ok(())
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer, Fault> {
        Ok((self.alloc)(bytes))
    }

    unsafe fn run(&self, _: &Op, _: &[View<'_>], _: &mut [ViewMut<'_>]) -> Result<(), Fault> {
        panic!("there is no memory to work with")
    }

    fn copy_in(&self, _: &[u8], _: &mut ViewMut<'_>) -> Result<(), Fault> {
        panic!("there is no memory to copy to")
    }

    fn copy_out(&self, _: &View<'_>, _: &mut [u8]) -> Result<(), Fault> {
        panic!("there is no memory to copy from")
    }

    fn synchronize(&self) -> Result<(), Fault> {
        Ok(())
    }
}

fn host(bytes: usize) -> Buffer {
    Buffer::host(bytes).unwrap()
}

/// Memory of the device that begins `skipped` bytes after what keeps it alive.
fn device(device: Device, bytes: usize, skipped: usize) -> Buffer {
    let memory = host(bytes + skipped);
    let address = memory.host_address().unwrap().as_ptr();
    // SAFETY: inside the memory.
    let address = unsafe { NonNull::new_unchecked(address.add(skipped)) };
    // SAFETY: the address is valid for so many bytes while the memory lives.
    unsafe { Buffer::device(device, bytes, Some(address), Box::new(memory)) }
}

#[test]
fn memory_that_was_not_asked_for_is_refused() {
    type Alloc = fn(usize) -> Buffer;
    let cases: [(Alloc, &str); 5] = [
        (|bytes| device(OPENCL, bytes - 1, 0), "gave 63 bytes"),
        (|bytes| device(Device::cuda(0), bytes, 0), "gave memory of cuda:0"),
        (host, "gave memory of cpu"),
        (|bytes| device(OPENCL, bytes, 4), "gave memory that is not aligned to 64 bytes"),
        // SAFETY: the vector stays as it is.
        (|bytes| unsafe { Buffer::shared(Arc::new(vec![0u8; bytes])) }, "gave memory of cpu"),
    ];
    for (alloc, words) in cases {
        let capability = DeviceCapability::complete("careless");
        let backend = Arc::new(Careless { capability, alloc });
        let exec = HybridExecutor::builder().threads(1).backend(backend).build().unwrap();
        let error = exec.upload(&[0; 12], DType::F32, &shape(&[3]), OPENCL).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("asked for 64 bytes"), "{error}");
    }
}

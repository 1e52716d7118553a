//! Memory of the device.

use crate::faults::Faults;
use rustorch_core::Fault;

/// A buffer on the device. wgpu keeps it until work that uses it is done, however early it is dropped.
#[derive(Debug)]
pub struct Memory {
    pub(crate) buffer: wgpu::Buffer,
}

impl Memory {
    /// Allocates. `bytes` is a multiple of 4.
    pub(crate) fn new(
        wgpu: &wgpu::Device,
        faults: &Faults,
        limit: u64,
        bytes: usize,
    ) -> Result<Memory, Fault> {
        let size = bytes as u64;
        if size == 0 || !size.is_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT) {
            return Err(faults
                .refuse(format!("a buffer of {bytes} bytes: the size must be a positive multiple of 4")));
        }
        if size > limit {
            return Err(faults.out_of_memory(bytes));
        }
        let buffer = faults.scoped(wgpu, bytes, || {
            wgpu.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size,
                usage: wgpu::BufferUsages::STORAGE
                    | wgpu::BufferUsages::COPY_SRC
                    | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        })?;
        Ok(Memory { buffer })
    }

    /// Checks that `bytes` from `start` are inside and both are multiples of 4.
    pub(crate) fn check(&self, faults: &Faults, what: &str, start: usize, bytes: usize) -> Result<(), Fault> {
        let size = self.buffer.size();
        let inside = (start as u64).checked_add(bytes as u64).is_some_and(|end| end <= size);
        if !inside || !start.is_multiple_of(4) || !bytes.is_multiple_of(4) {
            return Err(faults.refuse(format!(
                "{what} of {bytes} bytes at {start} of a buffer of {size}: it must be inside, in multiples of 4"
            )));
        }
        Ok(())
    }
}

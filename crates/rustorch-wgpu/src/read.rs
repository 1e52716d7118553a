//! Waiting for the device and reading from it.

use crate::faults::{Faults, lock};
use rustorch_core::Fault;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

/// How long the host waits for a batch. Batches are small; a software device may take minutes for one, a hung GPU is reset
/// by its driver within seconds.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long a mapping may take when the work before it is done: only until another thread has run its callback.
const CALLBACK: Duration = Duration::from_secs(10);

/// The most bytes read at once.
pub(crate) const CHUNK: usize = 32 << 20;

/// The least size of a buffer for reading: small ones are used again for all small reads.
const LEAST: u64 = 64 * 1024;

/// The bytes of unused buffers that are kept.
const KEPT: u64 = 2 * CHUNK as u64;

/// Waits for a submission and all before it; for nothing if there was none.
pub(crate) fn wait(
    wgpu: &wgpu::Device,
    faults: &Faults,
    index: Option<wgpu::SubmissionIndex>,
) -> Result<(), Fault> {
    if index.is_none() {
        return faults.check();
    }
    // wgpu panics where the driver reports the loss of the device while it waits.
    let polled = catch_unwind(AssertUnwindSafe(|| {
        wgpu.poll(wgpu::PollType::Wait { submission_index: index, timeout: Some(PATIENCE) })
    }));
    if polled.is_err() {
        faults.lose("its driver failed while work was under way");
    }
    faults.check()?;
    match polled {
        Ok(Err(wgpu::PollError::Timeout)) => Err(faults.timeout(PATIENCE)),
        Ok(Err(error)) => Err(faults.refuse(error.to_string())),
        _ => Ok(()),
    }
}

/// Copies what a mappable buffer holds after the submission of this index to `dst`.
pub(crate) fn mapped(
    wgpu: &wgpu::Device,
    faults: &Faults,
    buffer: &wgpu::Buffer,
    index: Option<wgpu::SubmissionIndex>,
    dst: &mut [u8],
) -> Result<(), Fault> {
    let (send, receive) = mpsc::channel();
    let slice = buffer.slice(..dst.len() as u64);
    faults.scoped(wgpu, 0, || {
        slice.map_async(wgpu::MapMode::Read, move |result| {
            // The receiver is gone if waiting failed; nobody is interested then.
            let _ = send.send(result);
        });
    })?;
    wait(wgpu, faults, index)?;
    match receive.recv_timeout(CALLBACK) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            faults.check()?;
            return Err(faults.refuse(error.to_string()));
        }
        Err(_) => {
            faults.check()?;
            return Err(faults.timeout(CALLBACK));
        }
    }
    let view = slice.get_mapped_range().map_err(|error| faults.refuse(error.to_string()))?;
    dst.copy_from_slice(&view);
    drop(view);
    buffer.unmap();
    faults.check()
}

/// Mappable buffers for reading.
#[derive(Default)]
pub(crate) struct Staging {
    free: Mutex<Vec<wgpu::Buffer>>,
}

impl Staging {
    /// A buffer of at least so many bytes, at most [`CHUNK`].
    pub(crate) fn take(
        &self,
        wgpu: &wgpu::Device,
        faults: &Faults,
        bytes: usize,
    ) -> Result<wgpu::Buffer, Fault> {
        let size = (bytes as u64).next_power_of_two().max(LEAST);
        let mut free = lock(&self.free);
        if let Some(at) = free.iter().position(|buffer| buffer.size() == size) {
            return Ok(free.swap_remove(at));
        }
        drop(free);
        faults.scoped(wgpu, bytes, || {
            wgpu.create_buffer(&wgpu::BufferDescriptor {
                label: Some("reading"),
                size,
                usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        })
    }

    /// Takes back a buffer that is not mapped.
    pub(crate) fn give(&self, buffer: wgpu::Buffer) {
        let mut free = lock(&self.free);
        let kept: u64 = free.iter().map(wgpu::Buffer::size).sum();
        if kept + buffer.size() <= KEPT {
            free.push(buffer);
        }
    }
}

//! The way from the host: buffers that both sides see, used in turn.
//!
//! wgpu has `Queue::write_buffer`, but that overtakes the batch under way, takes new memory at every call, and loses the
//! device when there is none. Here bytes are copied into mapped chunks, from which a copy in the batch brings them to where
//! they belong. A chunk is unmapped when its batch is submitted, and comes back mapped when the batch is done.

use crate::faults::Faults;
use rustorch_core::Fault;
use std::sync::mpsc;

/// The longest piece that is staged at once: the largest chunk.
pub(crate) const PIECE: usize = 8 << 20;

/// The smallest chunk, for the many small writes.
const LEAST: u64 = 256 * 1024;

/// All chunks together.
const MOST: u64 = 8 * PIECE as u64;

/// Where pieces begin, as mapping demands.
const ALIGNMENT: u64 = wgpu::MAP_ALIGNMENT;

/// The chunks.
pub(crate) struct Uploads {
    /// Mapped, with the bytes that are taken. Those that the batch under way reads come first.
    mapped: Vec<(wgpu::Buffer, u64)>,
    /// The bytes of all chunks, wherever they are.
    total: u64,
    back: mpsc::Receiver<Returned>,
    give: mpsc::Sender<Returned>,
}

/// A chunk that the device is done with; its size only if it could not be mapped again.
type Returned = Result<wgpu::Buffer, u64>;

impl Uploads {
    pub(crate) fn new() -> Uploads {
        let (give, back) = mpsc::channel();
        Uploads { mapped: Vec::new(), total: 0, back, give }
    }

    /// Copies at most [`PIECE`] bytes to where the device finds them; `None` if all chunks are under way: submit what is
    /// pending, [wait](crate::read::wait) and try again.
    pub(crate) fn stage(
        &mut self,
        wgpu: &wgpu::Device,
        faults: &Faults,
        bytes: &[u8],
    ) -> Result<Option<(wgpu::Buffer, u64)>, Fault> {
        let Some(at) = self.chunk(wgpu, faults, bytes.len() as u64)? else { return Ok(None) };
        let (buffer, used) = &mut self.mapped[at];
        let (start, end) = (*used, *used + bytes.len() as u64);
        let mut view = buffer
            .get_mapped_range_mut(start..end)
            .map_err(|error| faults.refuse(format!("staging memory: {error}")))?;
        view.copy_from_slice(bytes);
        drop(view);
        *used = end.next_multiple_of(ALIGNMENT);
        Ok(Some((buffer.clone(), start)))
    }

    /// A mapped chunk with room for so many bytes.
    fn chunk(&mut self, wgpu: &wgpu::Device, faults: &Faults, bytes: u64) -> Result<Option<usize>, Fault> {
        let fits = |(buffer, used): &(wgpu::Buffer, u64)| used + bytes <= buffer.size();
        if let Some(at) = self.mapped.iter().position(fits) {
            return Ok(Some(at));
        }
        for returned in self.back.try_iter() {
            match returned {
                Ok(buffer) => self.mapped.push((buffer, 0)),
                Err(size) => self.total -= size,
            }
        }
        if let Some(at) = self.mapped.iter().position(fits) {
            return Ok(Some(at));
        }
        let size = bytes.next_power_of_two().clamp(LEAST, PIECE as u64);
        if self.total + size > MOST {
            // Small chunks that are free make room for a large one.
            let total = &mut self.total;
            self.mapped.retain(|(buffer, used)| {
                let keep = *used > 0;
                *total -= if keep { 0 } else { buffer.size() };
                keep
            });
            if self.total + size > MOST {
                return Ok(None);
            }
        }
        let buffer = faults.scoped(wgpu, bytes as usize, || {
            wgpu.create_buffer(&wgpu::BufferDescriptor {
                label: Some("writing"),
                size,
                usage: wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: true,
            })
        })?;
        self.total += size;
        self.mapped.push((buffer, 0));
        Ok(Some(self.mapped.len() - 1))
    }

    /// Unmaps what the batch reads, before it is submitted. Returns those chunks for [`recall`](Self::recall).
    pub(crate) fn release(&mut self) -> Vec<wgpu::Buffer> {
        let released: Vec<_> =
            self.mapped.extract_if(.., |(_, used)| *used > 0).map(|(buffer, _)| buffer).collect();
        for buffer in &released {
            buffer.unmap();
        }
        released
    }

    /// Asks for chunks to come back when the batch that was just submitted is done.
    pub(crate) fn recall(&self, released: Vec<wgpu::Buffer>) {
        for buffer in released {
            let (give, chunk) = (self.give.clone(), buffer.clone());
            buffer.map_async(wgpu::MapMode::Write, .., move |result| {
                // Nobody receives if the driver was dropped meanwhile.
                let _ = give.send(result.map_err(|_| chunk.size()).map(|()| chunk));
            });
        }
    }
}

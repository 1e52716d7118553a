//! Memory of a driver: in whole words below, in bytes above.

use super::Engine;
use crate::Driver;
use rustorch_core::{DType, Fault, Layout};
use std::ops::Range;
use std::sync::PoisonError;

/// A driver's memory inside a [`Buffer`](rustorch_core::Buffer).
pub(super) struct Memory<D: Driver>(pub(super) D::Memory);

/// What allocations are rounded up to; drivers know no smaller pieces.
const GRANULE: usize = 16;

/// The bytes of a contiguous layout; `None` if it is not contiguous or not of whole blocks.
pub(crate) fn byte_range(dtype: DType, layout: &Layout) -> Option<Range<usize>> {
    if !layout.is_contiguous() {
        return None;
    }
    let len = dtype.bytes_for(layout.elements())?;
    let start = if len == 0 { 0 } else { dtype.bytes_for(layout.offset())? };
    Some(start..start + len)
}

impl<D: Driver> Engine<D> {
    pub(super) fn allocate(&self, bytes: usize) -> Result<D::Memory, Fault> {
        let out_of_memory = || Fault::OutOfMemory { device: self.hardware.device, requested: bytes };
        let rounded = bytes.max(1).checked_next_multiple_of(GRANULE).ok_or_else(out_of_memory)?;
        if rounded as u64 > self.hardware.max_buffer {
            return Err(out_of_memory());
        }
        self.driver.allocate(rounded)
    }

    /// Temporary memory, from what earlier operations left.
    pub(super) fn take_scratch(&self, bytes: usize) -> Result<(usize, D::Memory), Fault> {
        // Few sizes, so that what one operation leaves serves the next.
        let size = bytes.max(1 << 10).next_power_of_two();
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = spare.get_mut(&size).and_then(Vec::pop) {
            return Ok((size, memory));
        }
        match self.allocate(size) {
            Err(Fault::OutOfMemory { .. }) if !spare.is_empty() => {
                spare.clear();
                Ok((size, self.allocate(size)?))
            }
            memory => Ok((size, memory?)),
        }
    }

    /// Gives temporary memory back. Work is done in order, so that the next user cannot disturb the last.
    pub(super) fn give_scratch(&self, pieces: impl IntoIterator<Item = (usize, D::Memory)>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        for (size, memory) in pieces {
            spare.entry(size).or_default().push(memory);
        }
    }

    /// Writes bytes anywhere in a memory of which `bytes` are in use.
    pub(super) fn write_bytes(
        &self,
        memory: &D::Memory,
        bytes: usize,
        at: usize,
        src: &[u8],
    ) -> Result<(), Fault> {
        if src.is_empty() {
            return Ok(());
        }
        let end = at + src.len();
        let (first, last) = (at / 4 * 4, end.next_multiple_of(4));
        if first == at && last == end {
            return self.driver.write(memory, at, src);
        }
        let mut words = vec![0; last - first];
        if first != at {
            self.driver.read(memory, first, &mut words[..4])?;
        }
        // Bytes behind the buffer's end are padding.
        if last != end && end < bytes && (last - 4 != first || first == at) {
            let tail = words.len() - 4;
            self.driver.read(memory, last - 4, &mut words[tail..])?;
        }
        words[at - first..end - first].copy_from_slice(src);
        self.driver.write(memory, first, &words)
    }

    /// Reads bytes from anywhere in a memory.
    pub(super) fn read_bytes(&self, memory: &D::Memory, at: usize, dst: &mut [u8]) -> Result<(), Fault> {
        if dst.is_empty() {
            return Ok(());
        }
        let end = at + dst.len();
        let (first, last) = (at / 4 * 4, end.next_multiple_of(4));
        if first == at && last == end {
            return self.driver.read(memory, at, dst);
        }
        let mut words = vec![0; last - first];
        self.driver.read(memory, first, &mut words)?;
        dst.copy_from_slice(&words[at - first..end - first]);
        Ok(())
    }
}

//! Memory of a driver: in whole words below, in bytes above.

use super::order::{Turn, Uses};
use super::{Engine, Shared};
use crate::Driver;
use rustorch_core::{DType, Fault, Layout};
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// A driver's memory inside a [`Buffer`](rustorch_core::Buffer), and how it was used.
pub(super) struct Memory<D: Driver> {
    memory: ManuallyDrop<D::Memory>,
    pub(super) uses: Uses,
    shared: Arc<Shared<D>>,
}

impl<D: Driver> Memory<D> {
    pub(super) fn new(shared: &Arc<Shared<D>>, memory: D::Memory) -> Memory<D> {
        Memory { memory: ManuallyDrop::new(memory), uses: Uses::default(), shared: Arc::clone(shared) }
    }

    /// The driver's own.
    pub(super) fn raw(&self) -> &D::Memory {
        &self.memory
    }

    /// Writes whole words.
    pub(super) fn write(&self, turn: &Turn<'_>, at: usize, src: &[u8]) -> Result<(), Fault> {
        let driver = &self.shared.driver;
        turn.before([(&self.uses, true)].into_iter(), |a, b| driver.wait(a, b))?;
        let result = driver.write(&self.memory, at, src);
        turn.after([(&self.uses, true)].into_iter());
        result
    }

    /// Reads whole words.
    pub(super) fn read(&self, turn: &Turn<'_>, at: usize, dst: &mut [u8]) -> Result<(), Fault> {
        let driver = &self.shared.driver;
        turn.before([(&self.uses, false)].into_iter(), |a, b| driver.wait(a, b))?;
        let then = turn.now();
        let result = driver.read(&self.memory, at, dst);
        match result {
            Ok(()) => turn.done(then),
            // It may still be on its way.
            Err(_) => drop(turn.after([(&self.uses, false)].into_iter())),
        }
        result
    }
}

impl<D: Driver> Drop for Memory<D> {
    fn drop(&mut self) {
        let Shared { driver, order } = &*self.shared;
        order.last(&self.uses, |a, b| driver.wait(a, b));
        // SAFETY: `self.memory` is not used again.
        unsafe { ManuallyDrop::drop(&mut self.memory) };
    }
}

/// Temporary memory, and its size.
pub(super) type Piece<D> = (usize, Memory<D>);

/// Temporary memory that nobody uses, by size, with the stream that has used it last.
pub(super) struct Spare<D: Driver>(Mutex<HashMap<usize, Used<D>>>);

type Used<D> = Vec<(usize, Memory<D>)>;

impl<D: Driver> Default for Spare<D> {
    fn default() -> Spare<D> {
        Spare(Mutex::default())
    }
}

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
    pub(super) fn allocate(&self, turn: &Turn<'_>, bytes: usize) -> Result<Memory<D>, Fault> {
        let out_of_memory = || Fault::OutOfMemory { device: self.hardware.device, requested: bytes };
        let rounded = bytes.max(1).checked_next_multiple_of(GRANULE).ok_or_else(out_of_memory)?;
        if rounded as u64 > self.hardware.max_buffer {
            return Err(out_of_memory());
        }
        let memory = Memory::new(&self.shared, self.driver().allocate(rounded)?);
        // Drivers may allocate by work in the stream.
        turn.after([(&memory.uses, true)].into_iter());
        Ok(memory)
    }

    /// As [`allocate`](Self::allocate), if need be at the cost of temporary memory that nobody uses.
    pub(super) fn obtain(&self, turn: &Turn<'_>, bytes: usize) -> Result<Memory<D>, Fault> {
        match self.allocate(turn, bytes) {
            Err(Fault::OutOfMemory { .. })
                if bytes as u64 <= self.hardware.max_buffer && self.release_spare() =>
            {
                self.allocate(turn, bytes)
            }
            result => result,
        }
    }

    /// Frees temporary memory that nobody uses; whether there was some.
    pub(super) fn release_spare(&self) -> bool {
        let kept = self.kept.clear();
        let spare = std::mem::take(&mut *self.spare.0.lock().unwrap_or_else(PoisonError::into_inner));
        kept || !spare.is_empty()
    }

    /// Temporary memory, from what earlier operations left: of the same stream, if there is, so that streams need not wait for
    /// each other.
    pub(super) fn take_scratch(&self, turn: &Turn<'_>, bytes: usize) -> Result<Piece<D>, Fault> {
        // Few sizes, so that what one operation leaves serves the next; but none that there cannot be.
        let most = usize::try_from(self.hardware.max_buffer).unwrap_or(usize::MAX) / GRANULE * GRANULE;
        let size = bytes.max(1 << 10).next_power_of_two().min(most).max(bytes);
        let left = {
            let mut spare = self.spare.0.lock().unwrap_or_else(PoisonError::into_inner);
            spare.get_mut(&size).and_then(|pieces| {
                let at = pieces.iter().rposition(|(stream, _)| *stream == turn.stream())?;
                Some(pieces.swap_remove(at).1)
            })
        };
        match left {
            Some(memory) => Ok((size, memory)),
            None => Ok((size, self.obtain(turn, size)?)),
        }
    }

    /// Gives temporary memory back. Work is done in order, so that the next user cannot disturb the last.
    pub(super) fn give_scratch(&self, turn: &Turn<'_>, pieces: impl IntoIterator<Item = Piece<D>>) {
        let mut spare = self.spare.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (size, memory) in pieces {
            spare.entry(size).or_default().push((turn.stream(), memory));
        }
    }

    /// Writes bytes anywhere in a memory of which `bytes` are in use.
    pub(super) fn write_bytes(
        &self,
        turn: &Turn<'_>,
        memory: &Memory<D>,
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
            return memory.write(turn, at, src);
        }
        let mut words = vec![0; last - first];
        if first != at {
            memory.read(turn, first, &mut words[..4])?;
        }
        // Bytes behind the buffer's end are padding.
        if last != end && end < bytes && (last - 4 != first || first == at) {
            let tail = words.len() - 4;
            memory.read(turn, last - 4, &mut words[tail..])?;
        }
        words[at - first..end - first].copy_from_slice(src);
        memory.write(turn, first, &words)
    }

    /// Reads bytes from anywhere in a memory.
    pub(super) fn read_bytes(
        &self,
        turn: &Turn<'_>,
        memory: &Memory<D>,
        at: usize,
        dst: &mut [u8],
    ) -> Result<(), Fault> {
        if dst.is_empty() {
            return Ok(());
        }
        let end = at + dst.len();
        let (first, last) = (at / 4 * 4, end.next_multiple_of(4));
        if first == at && last == end {
            return memory.read(turn, at, dst);
        }
        let mut words = vec![0; last - first];
        memory.read(turn, first, &mut words)?;
        dst.copy_from_slice(&words[at - first..end - first]);
        Ok(())
    }
}

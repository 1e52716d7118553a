//! Device memory: word-aligned access by the driver, byte-aligned access for the engine.

use super::stream_sync::{AccessHistory, Submission};
use super::{Engine, Shared};
use crate::Driver;
use rustorch_core::Fault;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A driver's memory inside a [`Buffer`](rustorch_core::Buffer), with its access history.
pub(super) struct Memory<D: Driver> {
    memory: ManuallyDrop<D::Memory>,
    /// Which memory it is: no other has the number.
    pub(super) number: u64,
    pub(super) history: AccessHistory,
    shared: Arc<Shared<D>>,
}

impl<D: Driver> Memory<D> {
    pub(super) fn new(shared: &Arc<Shared<D>>, memory: D::Memory) -> Memory<D> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Memory {
            memory: ManuallyDrop::new(memory),
            // Nothing but their being different matters, and there is nobody who counts to 2⁶⁴.
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            history: AccessHistory::default(),
            shared: Arc::clone(shared),
        }
    }

    /// The driver's own.
    pub(super) fn raw(&self) -> &D::Memory {
        &self.memory
    }

    /// Writes whole words.
    pub(super) fn write(&self, submission: &Submission<'_>, at: usize, src: &[u8]) -> Result<(), Fault> {
        let driver = &self.shared.driver;
        submission.before([(&self.history, true)].into_iter(), |a, b| driver.wait(a, b))?;
        let result = driver.write(&self.memory, at, src);
        submission.after([(&self.history, true)].into_iter());
        result
    }

    /// Reads whole words.
    pub(super) fn read(&self, submission: &Submission<'_>, at: usize, dst: &mut [u8]) -> Result<(), Fault> {
        let driver = &self.shared.driver;
        submission.before([(&self.history, false)].into_iter(), |a, b| driver.wait(a, b))?;
        let then = submission.now();
        let result = driver.read(&self.memory, at, dst);
        match result {
            Ok(()) => submission.done(then),
            // It may still be on its way.
            Err(_) => drop(submission.after([(&self.history, false)].into_iter())),
        }
        result
    }
}

impl<D: Driver> Drop for Memory<D> {
    fn drop(&mut self) {
        let Shared { driver, sync } = &*self.shared;
        sync.last(&self.history, |a, b| driver.wait(a, b));
        // SAFETY: `self.memory` is not used again.
        unsafe { ManuallyDrop::drop(&mut self.memory) };
    }
}

/// Scratch memory and its size.
pub(super) type SizedMemory<D> = (usize, Memory<D>);

/// Free scratch memory by size, with the stream that used it last.
pub(super) struct Spare<D: Driver>(Mutex<HashMap<usize, Used<D>>>);

type Used<D> = Vec<(usize, Memory<D>)>;

impl<D: Driver> Default for Spare<D> {
    fn default() -> Spare<D> {
        Spare(Mutex::default())
    }
}

/// Allocation sizes are rounded up to this.
const ALIGNMENT: usize = 16;

impl<D: Driver> Engine<D> {
    pub(super) fn allocate(&self, submission: &Submission<'_>, bytes: usize) -> Result<Memory<D>, Fault> {
        let out_of_memory = || Fault::OutOfMemory { device: self.hardware.device, requested: bytes };
        let rounded = bytes.max(1).checked_next_multiple_of(ALIGNMENT).ok_or_else(out_of_memory)?;
        if rounded as u64 > self.hardware.max_buffer {
            return Err(out_of_memory());
        }
        let memory = Memory::new(&self.shared, self.driver().allocate(rounded)?);
        // Drivers may allocate by work in the stream.
        submission.after([(&memory.history, true)].into_iter());
        Ok(memory)
    }

    /// As [`allocate`](Self::allocate), freeing idle scratch memory if need be.
    pub(super) fn obtain(&self, submission: &Submission<'_>, bytes: usize) -> Result<Memory<D>, Fault> {
        match self.allocate(submission, bytes) {
            Err(Fault::OutOfMemory { .. })
                if bytes as u64 <= self.hardware.max_buffer && self.release_spare() =>
            {
                self.allocate(submission, bytes)
            }
            result => result,
        }
    }

    /// Frees idle scratch memory; whether there was any.
    pub(super) fn release_spare(&self) -> bool {
        let kept = self.scratch_cache.clear();
        let spare = std::mem::take(&mut *self.spare.0.lock().unwrap_or_else(PoisonError::into_inner));
        kept || !spare.is_empty()
    }

    /// Scratch memory, reused from earlier operations, preferably of the same stream, so that streams need not wait for each other.
    pub(super) fn take_scratch(
        &self,
        submission: &Submission<'_>,
        bytes: usize,
    ) -> Result<SizedMemory<D>, Fault> {
        // Few sizes, so that what one operation leaves serves the next; but none that there cannot be.
        let most = usize::try_from(self.hardware.max_buffer).unwrap_or(usize::MAX) / ALIGNMENT * ALIGNMENT;
        let size = bytes.max(1 << 10).next_power_of_two().min(most).max(bytes);
        let left = {
            let mut spare = self.spare.0.lock().unwrap_or_else(PoisonError::into_inner);
            spare.get_mut(&size).and_then(|pieces| {
                let at = pieces.iter().rposition(|(stream, _)| *stream == submission.stream())?;
                Some(pieces.swap_remove(at).1)
            })
        };
        match left {
            Some(memory) => Ok((size, memory)),
            None => Ok((size, self.obtain(submission, size)?)),
        }
    }

    /// Returns scratch memory. Commands of a stream run in order, so its next user cannot overwrite data in use.
    pub(super) fn give_scratch(
        &self,
        submission: &Submission<'_>,
        pieces: impl IntoIterator<Item = SizedMemory<D>>,
    ) {
        let mut spare = self.spare.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (size, memory) in pieces {
            spare.entry(size).or_default().push((submission.stream(), memory));
        }
    }

    /// Writes bytes anywhere in a memory of which `bytes` are in use.
    pub(super) fn write_bytes(
        &self,
        submission: &Submission<'_>,
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
            return memory.write(submission, at, src);
        }
        let mut words = vec![0; last - first];
        if first != at {
            memory.read(submission, first, &mut words[..4])?;
        }
        // Bytes behind the buffer's end are padding.
        if last != end && end < bytes && (last - 4 != first || first == at) {
            let tail = words.len() - 4;
            memory.read(submission, last - 4, &mut words[tail..])?;
        }
        words[at - first..end - first].copy_from_slice(src);
        memory.write(submission, first, &words)
    }

    /// Reads bytes from anywhere in a memory.
    pub(super) fn read_bytes(
        &self,
        submission: &Submission<'_>,
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
            return memory.read(submission, at, dst);
        }
        let mut words = vec![0; last - first];
        memory.read(submission, first, &mut words)?;
        dst.copy_from_slice(&words[at - first..end - first]);
        Ok(())
    }
}

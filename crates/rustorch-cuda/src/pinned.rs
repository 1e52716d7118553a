//! Pinned memory of the host, through which copies go: the only memory that the device reads and writes by itself.

use crate::context::Context;
use crate::event::Event;
use crate::stream::Stream;
use cudarc::driver::sys::{self, CUresult};
use rustorch_core::Fault;

/// The bytes of a slot. Larger copies go in chunks, so that copying by the host and by the device overlap.
const SLOT: usize = 1 << 20;

/// Slots that are used in turn.
pub(crate) struct Ring {
    slots: Vec<Slot>,
    most: usize,
    next: usize,
}

/// A chunk of pinned memory.
struct Slot {
    memory: *mut u8,
    /// Reached when the device is done with the slot.
    done: Event,
    /// Whether the event has been put into the stream since it was last waited for.
    busy: bool,
}

// SAFETY: the memory is the slot's alone, and pinned memory belongs to no thread.
unsafe impl Send for Slot {}

impl Ring {
    /// A ring that grows to so many slots.
    pub(crate) fn new(most: usize) -> Ring {
        Ring { slots: Vec::new(), most, next: 0 }
    }

    /// A slot that the device is done with: the one in turn if it is free, else a new one, else the one in turn when it is
    /// free. `None` if there is no pinned memory at all.
    fn take(&mut self, context: &Context) -> Result<Option<usize>, Fault> {
        let turn = if self.slots.is_empty() { None } else { Some(self.next % self.slots.len()) };
        let free = turn.is_some_and(|i| !self.slots[i].busy || self.slots[i].done.is_reached());
        if !free
            && self.slots.len() < self.most
            && let Some(slot) = Slot::new()
        {
            self.slots.push(slot);
            return Ok(Some(self.slots.len() - 1));
        }
        let Some(index) = turn else { return Ok(None) };
        self.next = index + 1;
        self.slots[index].wait(context)?;
        Ok(Some(index))
    }

    /// Copies to the device. The source is read before this returns.
    pub(crate) fn write(
        &mut self,
        context: &Context,
        stream: &Stream,
        to: u64,
        from: &[u8],
    ) -> Result<(), Fault> {
        for (i, piece) in from.chunks(SLOT).enumerate() {
            let to = to + (i * SLOT) as u64;
            let Some(index) = self.take(context)? else {
                // SAFETY: the caller's range of device memory, and bytes of that length; memory that is not pinned is read
                // before the call returns, or at the latest when the stream is empty.
                let result = unsafe {
                    sys::cuMemcpyHtoDAsync_v2(to, piece.as_ptr().cast(), piece.len(), stream.handle)
                };
                context.check("cuMemcpyHtoDAsync", result, piece.len())?;
                stream.finish(context)?;
                continue;
            };
            let slot = &mut self.slots[index];
            // SAFETY: the slot has room for a chunk, and the device is done with it.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), slot.memory, piece.len()) };
            // SAFETY: the caller's range of device memory, and the slot, which stays until its event is reached.
            let result =
                unsafe { sys::cuMemcpyHtoDAsync_v2(to, slot.memory.cast(), piece.len(), stream.handle) };
            context.check("cuMemcpyHtoDAsync", result, piece.len())?;
            slot.mark(context, stream)?;
        }
        Ok(())
    }

    /// Copies to the host, and waits for it.
    pub(crate) fn read(
        &mut self,
        context: &Context,
        stream: &Stream,
        from: u64,
        to: &mut [u8],
    ) -> Result<(), Fault> {
        let pieces = to.len().div_ceil(SLOT);
        while self.slots.len() < self.most.min(pieces) {
            let Some(slot) = Slot::new() else { break };
            self.slots.push(slot);
        }
        if self.slots.is_empty() {
            // SAFETY: the caller's range of device memory, and room for it, which stays until the stream is empty.
            let result =
                unsafe { sys::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from, to.len(), stream.handle) };
            context.check("cuMemcpyDtoHAsync", result, to.len())?;
            return stream.finish(context);
        }
        // Chunk i goes through slot i modulo their number, once the previous chunk there has been consumed.
        let turns = self.slots.len();
        let mut places: Vec<&mut [u8]> = to.chunks_mut(SLOT).collect();
        for i in 0..pieces + turns {
            let slot = &mut self.slots[i % turns];
            if i >= turns && i - turns < pieces {
                slot.wait(context)?;
                let place = &mut places[i - turns];
                // SAFETY: the slot has room for a chunk, and the device is done with it.
                unsafe { std::ptr::copy_nonoverlapping(slot.memory, place.as_mut_ptr(), place.len()) };
            }
            if i < pieces {
                // Of a copy that has failed, the device may still be writing into the slot.
                slot.wait(context)?;
                let (from, bytes) = (from + (i * SLOT) as u64, places[i].len());
                // SAFETY: the caller's range of device memory, and the slot, which stays until its event is reached.
                let result =
                    unsafe { sys::cuMemcpyDtoHAsync_v2(slot.memory.cast(), from, bytes, stream.handle) };
                context.check("cuMemcpyDtoHAsync", result, bytes)?;
                slot.mark(context, stream)?;
            }
        }
        Ok(())
    }

    /// Gives everything back. The device is done with it, and the context is current.
    pub(crate) fn release(&mut self) {
        for slot in self.slots.drain(..) {
            // SAFETY: the memory was allocated by `Slot::new` and is used no more.
            let _ = unsafe { sys::cuMemFreeHost(slot.memory.cast()) };
        }
    }

    /// Gives everything up: no one can say whether the device still uses it.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.slots));
    }
}

impl Slot {
    /// Pinned memory and an event, if there are.
    fn new() -> Option<Slot> {
        let done = Event::new(false).ok()?;
        let mut memory = std::ptr::null_mut();
        // SAFETY: the address goes to a variable. No flag is given: write-combined memory is slow to read.
        match unsafe { sys::cuMemHostAlloc(&mut memory, SLOT, 0) } {
            CUresult::CUDA_SUCCESS => Some(Slot { memory: memory.cast(), done, busy: false }),
            error => {
                tracing::debug!(?error, "there is no pinned memory");
                None
            }
        }
    }

    /// Marks the place in the stream after which the slot is free.
    fn mark(&mut self, context: &Context, stream: &Stream) -> Result<(), Fault> {
        let result = self.done.record(stream.handle);
        if result != CUresult::CUDA_SUCCESS {
            // Without a mark only the end of all work tells.
            stream.finish(context)?;
        }
        context.check("cuEventRecord", result, 0)?;
        self.busy = true;
        Ok(())
    }

    /// Waits until the device is done with the slot.
    fn wait(&mut self, context: &Context) -> Result<(), Fault> {
        if self.busy {
            context.check("cuEventSynchronize", self.done.wait(), 0)?;
            self.busy = false;
        }
        Ok(())
    }
}

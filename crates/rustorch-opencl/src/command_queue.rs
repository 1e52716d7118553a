//! A stream: an in-order queue, and what belongs to it.

use crate::staging::Staging;
use crate::sys::{self, Api, ContextHandle, DeviceId, QueueHandle, Status};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// A driver may keep commands until it is told to begin; after this many it is told.
const FLUSHED: u32 = 16;

/// One of a device's streams.
pub(crate) struct CommandQueue {
    /// Commands take it for reading; replacing the queue takes it for writing.
    queue: RwLock<Queue>,
    waiting: AtomicU32,
    pub(crate) staging: Staging,
}

/// An in-order queue.
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    pub(crate) handle: QueueHandle,
    /// Whether it measures its commands.
    pub(crate) profiling: bool,
}

impl CommandQueue {
    /// A new command queue.
    pub(crate) fn new(
        api: &Api,
        context: ContextHandle,
        id: DeviceId,
        profiling: bool,
    ) -> Result<CommandQueue, Status> {
        let queue = Queue::new(api, context, id, profiling)?;
        Ok(CommandQueue {
            queue: RwLock::new(queue),
            waiting: AtomicU32::new(0),
            staging: Staging::default(),
        })
    }

    /// Its queue, which lives as long as this is held.
    pub(crate) fn queue(&self) -> RwLockReadGuard<'_, Queue> {
        self.queue.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a command, and tells whether the driver is to be told to begin.
    pub(crate) fn is_time_to_flush(&self) -> bool {
        let flush = self.waiting.fetch_add(1, Ordering::Relaxed) >= FLUSHED;
        if flush {
            self.waiting.store(0, Ordering::Relaxed);
        }
        flush
    }

    /// Goes on with a queue that measures commands, or with one that does not.
    pub(crate) fn profile(
        &self,
        api: &Api,
        context: ContextHandle,
        id: DeviceId,
        on: bool,
    ) -> Result<(), (&'static str, Status)> {
        let mut held = self.queue.write().unwrap_or_else(PoisonError::into_inner);
        if held.profiling == on {
            return Ok(());
        }
        let new = Queue::new(api, context, id, on).map_err(|status| ("clCreateCommandQueue", status))?;
        let old = std::mem::replace(&mut *held, new);
        // What is in the old queue comes before what will be in the new one.
        // SAFETY: no other thread uses the old queue: it was replaced under the lock.
        let status = unsafe { (api.finish)(old.handle) };
        // SAFETY: as above; nothing refers to the old queue any more.
        unsafe { (api.release_command_queue)(old.handle) };
        if status == sys::SUCCESS { Ok(()) } else { Err(("clFinish", status)) }
    }

    /// Waits until nothing uses memory of this process any more, and gives the queue up.
    ///
    /// # Safety
    /// No one is left to use the queue.
    pub(crate) unsafe fn close(&self, api: &Api) {
        let handle = self.queue().handle;
        // Copies that have not begun read from memory of this process, which must not go before.
        // SAFETY: the queue is alive.
        if unsafe { (api.finish)(handle) } == sys::SUCCESS {
            self.staging.clear();
        } else {
            self.staging.leak();
        }
        // SAFETY: by the contract of this function.
        unsafe { (api.release_command_queue)(handle) };
    }
}

impl Queue {
    fn new(api: &Api, context: ContextHandle, id: DeviceId, profiling: bool) -> Result<Queue, Status> {
        let mut status = sys::SUCCESS;
        let properties = if profiling { sys::QUEUE_PROFILING_ENABLE } else { 0 };
        // SAFETY: the context is alive and of this device.
        let handle = unsafe { (api.create_command_queue)(context, id, properties, &mut status) };
        if status == sys::SUCCESS { Ok(Queue { handle, profiling }) } else { Err(status) }
    }
}

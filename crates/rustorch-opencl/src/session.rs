//! A context with its queue, and what becomes of errors in it.

use crate::spans::Spans;
use crate::staging::Staging;
use crate::status::describe;
use crate::sys::{self, Api, ContextHandle, DeviceId, EventHandle, PlatformId, QueueHandle, Status};
use rustorch_core::profile::{SpanKind, host_ns};
use rustorch_core::{Device, Fault};
use rustorch_kernels::Hardware;
use rustorch_kernels::driver::Loss;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// A driver may keep commands until it is told to begin; after this many it is told.
const FLUSHED: u32 = 16;

/// What all memories and kernels of an open device share.
pub(crate) struct Session {
    pub(crate) api: &'static Api,
    pub(crate) device: Device,
    pub(crate) id: DeviceId,
    pub(crate) context: ContextHandle,
    /// Commands take it for reading; replacing the queue takes it for writing.
    queue: RwLock<Queue>,
    pub(crate) loss: Loss,
    waiting: AtomicU32,
    /// Bytes of all memories, which never exceed those of the device: drivers that would rather swap than refuse, or that
    /// take the machine's own memory until it kills the process, are not asked for more.
    held: AtomicU64,
    memory: u64,
    pub(crate) staging: Staging,
    pub(crate) spans: Spans,
}

/// An in-order queue.
#[derive(Clone, Copy)]
struct Queue {
    handle: QueueHandle,
    profiling: bool,
}

/// A command, to name it in errors and profiles.
pub(crate) struct Command<'a> {
    /// The function that enqueues it.
    pub(crate) call: &'static str,
    /// What it does.
    pub(crate) kind: SpanKind,
    /// The kernel, or how it copies.
    pub(crate) label: &'a str,
    /// The bytes that it moves, or that a kernel sees.
    pub(crate) bytes: usize,
}

/// An event, released when dropped.
pub(crate) struct Event {
    api: &'static Api,
    handle: EventHandle,
}

impl Event {
    /// Its handle.
    pub(crate) fn handle(&self) -> EventHandle {
        self.handle
    }

    /// Whether its command is done, or has failed.
    pub(crate) fn is_done(&self) -> bool {
        let mut status: Status = 1;
        // SAFETY: the event is alive, and the answer is a `cl_int`.
        let asked = unsafe {
            (self.api.get_event_info)(
                self.handle,
                sys::EVENT_COMMAND_EXECUTION_STATUS,
                size_of::<Status>(),
                (&raw mut status).cast(),
                std::ptr::null_mut(),
            )
        };
        asked == sys::SUCCESS && status <= sys::COMPLETE
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event was given to this object alone.
        unsafe { (self.api.release_event)(self.handle) };
    }
}

impl Session {
    /// Opens a device.
    pub(crate) fn open(
        api: &'static Api,
        platform: PlatformId,
        id: DeviceId,
        hardware: &Hardware,
    ) -> Result<Session, Fault> {
        let device = hardware.device;
        let refused = |call: &str, status: Status| Fault::Backend {
            device,
            message: format!("the device cannot be opened: {call} says {}", describe(status)),
        };
        let _starting = Api::starting();
        // A handle is as wide as a pointer, as is an entry of the list.
        let properties = [sys::CONTEXT_PLATFORM, platform.address(), 0];
        let mut status = sys::SUCCESS;
        // SAFETY: the list of properties ends with 0, and the list of devices has the length stated.
        let context = unsafe {
            (api.create_context)(properties.as_ptr(), 1, &id, None, std::ptr::null_mut(), &mut status)
        };
        if status != sys::SUCCESS {
            return Err(refused("clCreateContext", status));
        }
        let queue = match queue(api, context, id, false) {
            Ok(queue) => queue,
            Err(status) => {
                // SAFETY: the context was made above and is used nowhere else.
                unsafe { (api.release_context)(context) };
                return Err(refused("clCreateCommandQueue", status));
            }
        };
        Ok(Session {
            api,
            device,
            id,
            context,
            queue: RwLock::new(queue),
            loss: Loss::new(device),
            waiting: AtomicU32::new(0),
            held: AtomicU64::new(0),
            memory: hardware.memory.unwrap_or(u64::MAX),
            staging: Staging::default(),
            spans: Spans::default(),
        })
    }

    /// Takes bytes of the device's memory, if there are so many.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), Fault> {
        let most = |held: u64| held.checked_add(bytes as u64).filter(|&sum| sum <= self.memory);
        match self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, most) {
            Ok(_) => Ok(()),
            Err(_) => Err(Fault::OutOfMemory { device: self.device, requested: bytes }),
        }
    }

    /// Gives bytes back.
    pub(crate) fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Puts a command into the queue by a function that takes the queue and where to put its event (null where none is
    /// wanted). Returns the event if `keep` asks for it.
    pub(crate) fn enqueue(
        &self,
        command: &Command<'_>,
        keep: bool,
        put: impl FnOnce(QueueHandle, *mut EventHandle) -> Status,
    ) -> Result<Option<Arc<Event>>, Fault> {
        self.loss.check()?;
        let queue = self.queue.read().unwrap_or_else(PoisonError::into_inner);
        let asked = host_ns();
        let mut handle = EventHandle::default();
        let wanted = keep || queue.profiling;
        let to = if wanted { &raw mut handle } else { std::ptr::null_mut() };
        let status = put(queue.handle, to);
        if status != sys::SUCCESS {
            return Err(self.fault(queue.handle, command.call, status, command.bytes));
        }
        let event = wanted.then(|| Arc::new(Event { api: self.api, handle }));
        if queue.profiling
            && let Some(event) = &event
        {
            self.spans.add(Arc::clone(event), command, asked);
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= FLUSHED {
            self.waiting.store(0, Ordering::Relaxed);
            // SAFETY: the queue is alive as long as the lock is held.
            let status = unsafe { (self.api.flush)(queue.handle) };
            if status != sys::SUCCESS {
                return Err(self.fault(queue.handle, "clFlush", status, 0));
            }
        }
        Ok(event.filter(|_| keep))
    }

    /// Waits until the queue is empty.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        self.loss.check()?;
        let queue = self.queue.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the queue is alive as long as the lock is held.
        let status = unsafe { (self.api.finish)(queue.handle) };
        if status != sys::SUCCESS {
            return Err(self.fault(queue.handle, "clFinish", status, 0));
        }
        self.staging.sweep();
        Ok(())
    }

    /// Goes on with a queue that measures commands, or with one that does not.
    pub(crate) fn profile(&self, on: bool) -> Result<(), Fault> {
        self.loss.check()?;
        let mut held = self.queue.write().unwrap_or_else(PoisonError::into_inner);
        if held.profiling == on {
            return Ok(());
        }
        let new = queue(self.api, self.context, self.id, on)
            .map_err(|status| self.fault(held.handle, "clCreateCommandQueue", status, 0))?;
        let old = std::mem::replace(&mut *held, new);
        // What is in the old queue comes before what will be in the new one.
        // SAFETY: no other thread uses the old queue: it was replaced under the lock.
        let status = unsafe { (self.api.finish)(old.handle) };
        // SAFETY: as above; nothing refers to the old queue any more.
        unsafe { (self.api.release_command_queue)(old.handle) };
        if status != sys::SUCCESS {
            return Err(self.fault(new.handle, "clFinish", status, 0));
        }
        Ok(())
    }

    /// What a status means. `bytes` is what the call would have had memory for.
    fn fault(&self, queue: QueueHandle, call: &str, status: Status, bytes: usize) -> Fault {
        match status {
            sys::MEM_OBJECT_ALLOCATION_FAILURE | sys::OUT_OF_HOST_MEMORY => {
                Fault::OutOfMemory { device: self.device, requested: bytes }
            }
            // The handles are good, so if the driver does not know them any more, it has given the device up.
            sys::DEVICE_NOT_AVAILABLE
            | sys::INVALID_DEVICE
            | sys::INVALID_CONTEXT
            | sys::INVALID_COMMAND_QUEUE => self.loss.lose(format!("{call} says {}", describe(status))),
            // Drivers say so of kernels that are too large, and ever after of a kernel that has crashed.
            // SAFETY: the caller holds the lock of the queue.
            sys::OUT_OF_RESOURCES if unsafe { (self.api.finish)(queue) } != sys::SUCCESS => {
                self.loss.lose(format!("{call} says {} and so does clFinish", describe(status)))
            }
            // NVIDIA's driver, of a kernel that has read or written where it must not.
            -9999 => self.loss.lose(format!("{call} says {}", describe(status))),
            _ => self.refused(call, status),
        }
    }

    /// An error without a class of its own.
    pub(crate) fn refused(&self, call: &str, status: Status) -> Fault {
        Fault::Backend { device: self.device, message: format!("{call} says {}", describe(status)) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let queue = *self.queue.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Copies that have not begun read from memory of this process, which must not go before.
        // SAFETY: the queue is alive, and no one else is left to use it.
        if unsafe { (self.api.finish)(queue.handle) } == sys::SUCCESS {
            self.staging.clear();
        } else {
            self.staging.leak();
        }
        self.spans.clear();
        // SAFETY: nothing is left that refers to the queue or the context: memories and kernels hold the session.
        unsafe {
            (self.api.release_command_queue)(queue.handle);
            (self.api.release_context)(self.context);
        }
    }
}

/// An in-order queue.
fn queue(api: &Api, context: ContextHandle, id: DeviceId, profiling: bool) -> Result<Queue, Status> {
    let mut status = sys::SUCCESS;
    let properties = if profiling { sys::QUEUE_PROFILING_ENABLE } else { 0 };
    // SAFETY: the context is alive and of this device.
    let handle = unsafe { (api.create_command_queue)(context, id, properties, &mut status) };
    if status == sys::SUCCESS { Ok(Queue { handle, profiling }) } else { Err(status) }
}

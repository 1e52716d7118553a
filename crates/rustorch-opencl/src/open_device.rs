//! A context with its streams, and what becomes of errors in it.

use crate::command_queue::CommandQueue;
use crate::context::Context;
use crate::discover::Candidate;
use crate::event::Event;
use crate::spans::Spans;
use crate::status::describe;
use crate::sys::{self, Api, ContextHandle, DeviceId, EventHandle, QueueHandle, Status};
use rustorch_core::profile::{SpanKind, host_ns};
use rustorch_core::{Device, Fault, current_stream};
use rustorch_kernels::driver::{DeviceLossFlag, STREAMS};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// What all memories and kernels of an open device share.
pub(crate) struct OpenDevice {
    pub(crate) api: &'static Api,
    pub(crate) device: Device,
    pub(crate) id: DeviceId,
    context: Arc<Context>,
    /// Those that were ever used; the first always is.
    command_queues: [OnceLock<CommandQueue>; STREAMS],
    /// How many of them are.
    streams: AtomicUsize,
    profiling: AtomicBool,
    pub(crate) loss: DeviceLossFlag,
    /// Bytes of all memories, which never exceed those of the device: drivers that would rather swap than refuse, or that
    /// take the machine's own memory until it kills the process, are not asked for more.
    held: AtomicU64,
    memory: u64,
    pub(crate) spans: Spans,
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

impl OpenDevice {
    /// Opens a device.
    pub(crate) fn open(api: &'static Api, candidate: &Candidate) -> Result<OpenDevice, Fault> {
        let (id, device) = (candidate.id, candidate.hardware.device);
        let refused = |call: &str, status: Status| Fault::Backend {
            device,
            message: format!("the device cannot be opened: {call} says {}", describe(status)),
        };
        let _starting = Api::starting();
        let open = |devices: &[DeviceId]| {
            let context = Context::of(api, candidate.platform, devices)
                .map_err(|status| ("clCreateContext", status))?;
            let command_queue = CommandQueue::new(api, context.handle(), id, false)
                .map_err(|status| ("clCreateCommandQueue", status))?;
            Ok((context, command_queue))
        };
        // Should the context that it would share with others be broken, one of its own may still do.
        let (context, command_queue) = open(&candidate.siblings)
            .or_else(|first| if candidate.siblings.len() > 1 { open(&[id]) } else { Err(first) })
            .map_err(|(call, status)| refused(call, status))?;
        let command_queues: [OnceLock<CommandQueue>; STREAMS] = Default::default();
        let _ = command_queues[0].set(command_queue);
        Ok(OpenDevice {
            api,
            device,
            id,
            context,
            command_queues,
            streams: AtomicUsize::new(1),
            profiling: AtomicBool::new(false),
            loss: DeviceLossFlag::new(device),
            held: AtomicU64::new(0),
            memory: candidate.hardware.memory.unwrap_or(u64::MAX),
            spans: Spans::default(),
        })
    }

    /// The context's handle.
    pub(crate) fn context(&self) -> ContextHandle {
        self.context.handle()
    }

    /// Whether memory of another device can be reached from this one.
    pub(crate) fn reaches(&self, other: &OpenDevice) -> bool {
        Arc::ptr_eq(&self.context, &other.context)
    }

    /// The stream of this thread.
    pub(crate) fn command_queue(&self) -> &CommandQueue {
        self.command_queue_of(current_stream(self.streams.load(Ordering::Relaxed)))
    }

    fn command_queue_of(&self, stream: usize) -> &CommandQueue {
        self.command_queues[stream].get().expect("every stream that is counted was made before")
    }

    /// All streams that there ever were.
    fn command_queues(&self) -> impl Iterator<Item = &CommandQueue> {
        self.command_queues.iter().filter_map(OnceLock::get)
    }

    /// Has so many streams from now on. No work is on its way.
    pub(crate) fn set_streams(&self, streams: usize) -> Result<usize, Fault> {
        self.loss.check()?;
        let streams = streams.clamp(1, STREAMS);
        let profiling = self.profiling.load(Ordering::Relaxed);
        for place in &self.command_queues[..streams] {
            if place.get().is_none() {
                let command_queue = CommandQueue::new(self.api, self.context(), self.id, profiling)
                    .map_err(|status| self.refused("clCreateCommandQueue", status))?;
                let _ = place.set(command_queue);
            }
        }
        self.streams.store(streams, Ordering::Relaxed);
        Ok(streams)
    }

    /// Has a stream wait for what another one was given so far.
    pub(crate) fn wait(&self, stream: usize, other: usize) -> Result<(), Fault> {
        self.loss.check()?;
        let mut handle = EventHandle::default();
        {
            let queue = self.command_queue_of(other).queue();
            // SAFETY: the queue is alive as long as it is held; an empty list stands for everything before.
            let marked = unsafe {
                (self.api.enqueue_marker_with_wait_list)(queue.handle, 0, std::ptr::null(), &mut handle)
            };
            if marked != sys::SUCCESS {
                return Err(self.fault(queue.handle, "clEnqueueMarkerWithWaitList", marked, 0));
            }
            // Nobody may wait for what the driver has not been told to begin (OpenCL 1.2 specification, 5.13).
            // SAFETY: as above.
            let flushed = unsafe { (self.api.flush)(queue.handle) };
            if flushed != sys::SUCCESS {
                return Err(self.fault(queue.handle, "clFlush", flushed, 0));
            }
        }
        let event = Event::new(self.api, handle);
        let queue = self.command_queue_of(stream).queue();
        let list = event.handle();
        // SAFETY: the queue is alive as long as it is held, and the list has one event, which the queue keeps.
        let status = unsafe {
            (self.api.enqueue_barrier_with_wait_list)(queue.handle, 1, &list, std::ptr::null_mut())
        };
        if status != sys::SUCCESS {
            return Err(self.fault(queue.handle, "clEnqueueBarrierWithWaitList", status, 0));
        }
        Ok(())
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

    /// Puts a command into this thread's stream by a function that takes the queue and where to put its event (null where none
    /// is wanted). Returns the event if `keep` asks for it.
    pub(crate) fn enqueue(
        &self,
        command: &Command<'_>,
        keep: bool,
        put: impl FnOnce(QueueHandle, *mut EventHandle) -> Status,
    ) -> Result<Option<Arc<Event>>, Fault> {
        self.loss.check()?;
        let command_queue = self.command_queue();
        let queue = command_queue.queue();
        let asked = host_ns();
        let mut handle = EventHandle::default();
        let wanted = keep || queue.profiling;
        let to = if wanted { &raw mut handle } else { std::ptr::null_mut() };
        let status = put(queue.handle, to);
        if status != sys::SUCCESS {
            return Err(self.fault(queue.handle, command.call, status, command.bytes));
        }
        let event = wanted.then(|| Arc::new(Event::new(self.api, handle)));
        if queue.profiling
            && let Some(event) = &event
        {
            self.spans.add(Arc::clone(event), command, asked);
        }
        if command_queue.is_time_to_flush() {
            // SAFETY: the queue is alive as long as it is held.
            let status = unsafe { (self.api.flush)(queue.handle) };
            if status != sys::SUCCESS {
                return Err(self.fault(queue.handle, "clFlush", status, 0));
            }
        }
        Ok(event.filter(|_| keep))
    }

    /// Waits until a stream is empty.
    pub(crate) fn finish_queue(&self, command_queue: &CommandQueue) -> Result<(), Fault> {
        let queue = command_queue.queue();
        // SAFETY: the queue is alive as long as it is held.
        let status = unsafe { (self.api.finish)(queue.handle) };
        if status != sys::SUCCESS {
            return Err(self.fault(queue.handle, "clFinish", status, 0));
        }
        command_queue.staging.sweep();
        Ok(())
    }

    /// Waits until all streams are empty.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        self.loss.check()?;
        self.command_queues().try_for_each(|command_queue| self.finish_queue(command_queue))
    }

    /// Goes on with queues that measure commands, or with such that do not.
    pub(crate) fn profile(&self, on: bool) -> Result<(), Fault> {
        self.loss.check()?;
        self.profiling.store(on, Ordering::Relaxed);
        for command_queue in self.command_queues() {
            command_queue.profile(self.api, self.context(), self.id, on).map_err(|(call, status)| {
                let handle = command_queue.queue().handle;
                self.fault(handle, call, status, 0)
            })?;
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

impl Drop for OpenDevice {
    fn drop(&mut self) {
        for command_queue in self.command_queues() {
            // SAFETY: nothing is left that refers to the queues: memories and kernels hold this open device.
            unsafe { command_queue.close(self.api) };
        }
        self.spans.clear();
    }
}

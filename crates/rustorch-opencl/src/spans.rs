//! When commands ran, by the device's clock.

use crate::session::{Command, Event};
use crate::sys::{self, Api};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// A kernel.
    Launch,
    /// A copy from the host.
    Write,
    /// A copy to the host.
    Read,
    /// A copy within the device.
    Copy,
}

/// One command's time on the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// What it does.
    pub work: Work,
    /// What it is part of: the label of a [`Launch`](rustorch_kernels::Launch).
    pub label: String,
    /// The label of the kernel; empty where none ran.
    pub kernel: String,
    /// The bytes that were moved, or for a kernel of the windows that it sees.
    pub bytes: usize,
    /// When it began on the device. The device's clock is set by the host's at the first command that is measured, so
    /// that times are as exact to each other as the device's, and to the host's as that one call.
    pub start: Instant,
    /// How long it took on the device.
    pub time: Duration,
}

/// A command whose time is not yet known.
struct Pending {
    event: Arc<Event>,
    asked: Instant,
    work: Work,
    label: String,
    kernel: String,
    bytes: usize,
}

impl Pending {
    /// The time, when the command is done; `None` if it has failed or is not done.
    fn finish(self, api: &Api, clock: &mut Option<Clock>) -> Option<Span> {
        let time = |what| {
            let mut nanoseconds = 0_u64;
            // SAFETY: the event is alive, and the answer is a `cl_ulong`.
            let status = unsafe {
                (api.get_event_profiling_info)(
                    self.event.handle(),
                    what,
                    size_of::<u64>(),
                    (&raw mut nanoseconds).cast(),
                    std::ptr::null_mut(),
                )
            };
            (status == sys::SUCCESS).then_some(nanoseconds)
        };
        let start = time(sys::PROFILING_COMMAND_START)?;
        let end = time(sys::PROFILING_COMMAND_END)?;
        let clock = match *clock {
            Some(clock) => clock,
            None => *clock.insert(Clock { host: self.asked, device: time(sys::PROFILING_COMMAND_QUEUED)? }),
        };
        Some(Span {
            work: self.work,
            label: self.label,
            kernel: self.kernel,
            bytes: self.bytes,
            start: clock.host + Duration::from_nanos(start.saturating_sub(clock.device)),
            time: Duration::from_nanos(end.saturating_sub(start)),
        })
    }
}

/// One moment on two clocks.
#[derive(Clone, Copy)]
struct Clock {
    host: Instant,
    /// In nanoseconds.
    device: u64,
}

/// The commands of a queue that measures, in order.
#[derive(Default)]
pub(crate) struct Spans {
    lists: Mutex<Lists>,
}

#[derive(Default)]
struct Lists {
    pending: Vec<Pending>,
    done: Vec<Span>,
    /// Of this device's clock.
    clock: Option<Clock>,
}

/// Events cost the driver memory: beyond this many, those that are done are read and released.
const PENDING: usize = 1024;

impl Spans {
    /// Adds a command that was just put into the queue.
    pub(crate) fn add(&self, event: Arc<Event>, command: &Command<'_>, asked: Instant) {
        let Command { work, label, kernel, bytes, .. } = *command;
        let (label, kernel) = (label.to_string(), kernel.to_string());
        self.lock().pending.push(Pending { event, asked, work, label, kernel, bytes });
    }

    /// Reads and releases the events that are done, if there are many.
    pub(crate) fn tidy(&self, api: &Api) {
        let mut lists = self.lock();
        if lists.pending.len() >= PENDING {
            lists.collect(api);
        }
    }

    /// Takes the times of the commands that are done.
    pub(crate) fn take(&self, api: &Api) -> Vec<Span> {
        let mut lists = self.lock();
        lists.collect(api);
        std::mem::take(&mut lists.done)
    }

    /// Ends with a queue, whose commands are done: the next one's clock is set anew.
    pub(crate) fn next_queue(&self, api: &Api) {
        let mut lists = self.lock();
        lists.collect(api);
        lists.clock = None;
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        *self.lock() = Lists::default();
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lists {
    fn collect(&mut self, api: &Api) {
        let done = self.pending.iter().take_while(|pending| pending.event.is_done()).count();
        let clock = &mut self.clock;
        self.done.extend(self.pending.drain(..done).filter_map(|pending| pending.finish(api, clock)));
    }
}

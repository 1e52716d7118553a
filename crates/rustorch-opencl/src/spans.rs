//! When commands ran: their events' times, on the host's clock.

use crate::event::Event;
use crate::open_device::Command;
use crate::sys::{self, Api};
use rustorch_core::profile::{ClockMap, DeviceSpan, SpanKind, current_sequence, host_ns};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A command whose time is not yet known.
struct Pending {
    event: Arc<Event>,
    label: String,
    kind: SpanKind,
    sequence: u64,
    /// When the host began to put it into the queue, and when it had.
    put: (u64, u64),
}

/// The device's times of a command, in its nanoseconds.
#[derive(Clone, Copy)]
struct Ticks {
    queued: u64,
    start: u64,
    end: u64,
}

impl Pending {
    /// The times, when the command is done; `None` if it has failed or is not done.
    fn ticks(&self, api: &Api) -> Option<Ticks> {
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
        Some(Ticks {
            queued: time(sys::PROFILING_COMMAND_QUEUED)?,
            start: time(sys::PROFILING_COMMAND_START)?,
            end: time(sys::PROFILING_COMMAND_END)?,
        })
    }
}

/// A reading of both clocks: the device's is read while a command is put into the queue, which took `width` nanoseconds.
#[derive(Clone, Copy)]
struct Reading {
    width: u64,
    clock: ClockMap,
}

/// The commands of a queue that measures, in order.
#[derive(Default)]
pub(crate) struct Spans {
    lists: Mutex<Lists>,
}

#[derive(Default)]
struct Lists {
    pending: Vec<Pending>,
    done: Vec<DeviceSpan>,
    /// The narrowest reading of the clocks so far.
    reading: Option<Reading>,
}

/// Events cost the driver memory: beyond this many, those that are done are read and released.
const PENDING: usize = 1024;

impl Spans {
    /// Adds a command that was just put into the queue; the host began to at `asked`.
    pub(crate) fn add(&self, event: Arc<Event>, command: &Command<'_>, asked: u64) {
        let put = (asked, host_ns());
        let (label, kind, sequence) = (command.label.to_string(), command.kind, current_sequence());
        self.lock().pending.push(Pending { event, label, kind, sequence, put });
    }

    /// Reads and releases the events that are done, if there are many.
    pub(crate) fn tidy(&self, api: &Api) {
        let mut lists = self.lock();
        if lists.pending.len() >= PENDING {
            lists.collect(api);
        }
    }

    /// Takes the times of the commands that are done.
    pub(crate) fn take(&self, api: &Api) -> Vec<DeviceSpan> {
        let mut lists = self.lock();
        lists.collect(api);
        std::mem::take(&mut lists.done)
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
        // Commands that have failed have no times.
        let times: Vec<(Pending, Ticks)> = self
            .pending
            .drain(..done)
            .filter_map(|pending| pending.ticks(api).map(|ticks| (pending, ticks)))
            .collect();
        for (Pending { put: (from, to), .. }, ticks) in &times {
            let width = to.saturating_sub(*from);
            if self.reading.is_none_or(|best| width < best.width) {
                let clock = ClockMap::new(ticks.queued, from + width / 2, 1.0);
                self.reading = Some(Reading { width, clock });
            }
        }
        let Some(Reading { clock, .. }) = self.reading else { return };
        self.done.extend(times.into_iter().map(|(pending, ticks)| {
            let start_ns = clock.host_ns(ticks.start);
            DeviceSpan {
                label: pending.label.into(),
                kind: pending.kind,
                sequence: pending.sequence,
                start_ns,
                end_ns: clock.host_ns(ticks.end).max(start_ns),
            }
        }));
    }
}

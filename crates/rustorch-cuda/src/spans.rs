//! When commands ran, by events before and after each.

use crate::event::Event;
use crate::session::Session;
use rustorch_core::Fault;
use std::sync::{Mutex, MutexGuard, PoisonError};
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
    /// When it began on the device. The device's clock is set by the host's when measuring begins.
    pub start: Instant,
    /// How long it took on the device, to about half a microsecond.
    pub time: Duration,
}

/// A command, to name it in profiles.
pub(crate) struct Command<'a> {
    pub(crate) work: Work,
    pub(crate) label: &'a str,
    pub(crate) kernel: &'a str,
    pub(crate) bytes: usize,
}

/// The commands of a stream that is measured, in order.
#[derive(Default)]
pub(crate) struct Spans {
    lists: Mutex<Lists>,
}

#[derive(Default)]
struct Lists {
    on: bool,
    /// The last event whose time is known, and that time.
    known: Option<(Event, Instant)>,
    pending: Vec<Pending>,
    done: Vec<Span>,
}

/// A command whose time is not yet known.
struct Pending {
    begin: Event,
    end: Event,
    work: Work,
    label: String,
    kernel: String,
    bytes: usize,
}

/// Events cost the driver memory: beyond this many commands, those that are done are read and their events destroyed.
const PENDING: usize = 1024;

impl Spans {
    /// Puts a command into the stream, between events if commands are measured. The context is current.
    pub(crate) fn measure(
        &self,
        session: &Session,
        command: &Command<'_>,
        put: impl FnOnce() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut lists = self.lock();
        if !lists.on {
            drop(lists);
            return put();
        }
        // The list stays locked, so that no other command comes between the events.
        let begin = mark(session)?;
        put()?;
        let end = mark(session)?;
        let Command { work, label, kernel, bytes } = *command;
        let (label, kernel) = (label.to_string(), kernel.to_string());
        lists.pending.push(Pending { begin, end, work, label, kernel, bytes });
        if lists.pending.len() >= PENDING {
            lists.collect();
        }
        Ok(())
    }

    /// Begins or ends measuring. The context is current and the stream is empty.
    pub(crate) fn set(&self, session: &Session, on: bool) -> Result<(), Fault> {
        let mut lists = self.lock();
        if lists.on == on {
            return Ok(());
        }
        lists.collect();
        lists.known = None;
        if on {
            let event = mark(session)?;
            session.check("cuEventSynchronize", event.wait(), 0)?;
            lists.known = Some((event, Instant::now()));
        }
        lists.on = on;
        Ok(())
    }

    /// Takes the times of the commands that are done.
    pub(crate) fn take(&self) -> Vec<Span> {
        let mut lists = self.lock();
        lists.collect();
        std::mem::take(&mut lists.done)
    }

    /// Forgets everything. The context is current.
    pub(crate) fn clear(&self) {
        *self.lock() = Lists::default();
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A timed event, in the stream. The context is current.
fn mark(session: &Session) -> Result<Event, Fault> {
    let event = Event::new(true).map_err(|error| session.fault("cuEventCreate", error, 0))?;
    session.check("cuEventRecord", event.record(session.stream), 0)?;
    Ok(event)
}

impl Lists {
    /// Reads the events that are reached. Times go from each event to the next, since the driver's numbers lose their last
    /// places with distance.
    fn collect(&mut self) {
        let reached = self.pending.iter().take_while(|pending| pending.end.is_reached()).count();
        for pending in self.pending.drain(..reached) {
            let Pending { begin, end, work, label, kernel, bytes } = pending;
            let Some((known, moment)) = &self.known else { continue };
            let (Some(before), Some(time)) = (begin.since(known), end.since(&begin)) else { continue };
            let start = *moment + before;
            self.done.push(Span { work, label, kernel, bytes, start, time });
            self.known = Some((end, start + time));
        }
    }
}

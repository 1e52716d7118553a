//! When commands ran, by events before and after each.

use crate::context::Context;
use crate::event::Event;
use rustorch_core::Fault;
use rustorch_core::profile::{DeviceSpan, SpanKind, current_sequence, host_ns};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The commands of streams that are measured, in order.
#[derive(Default)]
pub(crate) struct Spans {
    lists: Mutex<Lists>,
}

#[derive(Default)]
struct Lists {
    on: bool,
    /// The last event whose time is known, and that time on the host's clock. The driver tells times from event to event
    /// only, so there are no ticks to translate.
    known: Option<(Event, u64)>,
    pending: Vec<Pending>,
    done: Vec<DeviceSpan>,
}

/// A command whose time is not yet known.
struct Pending {
    begin: Event,
    end: Event,
    label: String,
    kind: SpanKind,
    sequence: u64,
}

/// Events cost the driver memory: beyond this many commands, those that are done are read and their events destroyed.
const PENDING: usize = 1024;

impl Spans {
    /// Puts a command into the stream, between events if commands are measured. The context is current.
    pub(crate) fn measure(
        &self,
        context: &Context,
        kind: SpanKind,
        label: &str,
        put: impl FnOnce() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut lists = self.lock();
        if !lists.on {
            drop(lists);
            return put();
        }
        // The list stays locked, so that no other command comes between the events.
        let begin = mark(context)?;
        put()?;
        let end = mark(context)?;
        let (label, sequence) = (label.to_string(), current_sequence());
        lists.pending.push(Pending { begin, end, label, kind, sequence });
        if lists.pending.len() >= PENDING {
            lists.collect();
        }
        Ok(())
    }

    /// Begins to measure. The context is current and the streams are empty.
    pub(crate) fn start(&self, context: &Context) -> Result<(), Fault> {
        let mut lists = self.lock();
        if lists.on {
            return Ok(());
        }
        let event = mark(context)?;
        context.check("cuEventSynchronize", event.wait(), 0)?;
        *lists = Lists { on: true, known: Some((event, host_ns())), ..Lists::default() };
        Ok(())
    }

    /// Takes the times of the commands that are done. The context is current.
    pub(crate) fn take(&self) -> Vec<DeviceSpan> {
        let mut lists = self.lock();
        lists.collect();
        std::mem::take(&mut lists.done)
    }

    /// Ends measuring and forgets everything. The context is current.
    pub(crate) fn clear(&self) {
        *self.lock() = Lists::default();
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A timed event, in this thread's stream. The context is current.
fn mark(context: &Context) -> Result<Event, Fault> {
    let event = Event::new(true).map_err(|error| context.fault("cuEventCreate", error, 0))?;
    context.check("cuEventRecord", event.record(context.stream().handle), 0)?;
    Ok(event)
}

impl Lists {
    /// Reads the events that are reached. Times go from each event to the next, since the driver's numbers lose their last
    /// places with distance.
    fn collect(&mut self) {
        let reached = self.pending.iter().take_while(|pending| pending.end.is_reached()).count();
        for pending in self.pending.drain(..reached) {
            let Pending { begin, end, label, kind, sequence } = pending;
            let Some((known, moment)) = &self.known else { continue };
            let (Some(before), Some(time)) = (begin.since(known), end.since(&begin)) else { continue };
            // On another stream it may have begun before the last one ended.
            let start_ns = moment.saturating_add_signed(before);
            let end_ns = start_ns.saturating_add_signed(time.max(0));
            self.done.push(DeviceSpan { label: label.into(), kind, sequence, start_ns, end_ns });
            self.known = Some((end, end_ns));
        }
    }
}

//! Overlapping device contexts: the newest living one sets the limit and the streams; when none is left, the settings from before
//! the first return.

use crate::device_state::DeviceState;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The contexts on a device.
#[derive(Default)]
pub(crate) struct Contexts(Mutex<Stack>);

#[derive(Default)]
struct Stack {
    last: u64,
    /// Oldest first, each with its number.
    live: Vec<(u64, Settings)>,
    /// What holds without them.
    before: Settings,
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Settings {
    limit: Option<usize>,
    streams: usize,
}

impl DeviceState {
    /// Begins a context with a limit on memory and so many streams, if a number is given; its number, and how many streams there
    /// are.
    pub(crate) fn enter_context(&self, limit: Option<usize>, streams: Option<usize>) -> (u64, usize) {
        let mut stack = self.contexts.lock();
        if stack.live.is_empty() {
            stack.before = self.settings();
        }
        self.allocator.set_limit(limit);
        if let Some(wanted) = streams {
            self.set_streams(wanted);
        }
        stack.last += 1;
        let (id, settings) = (stack.last, self.settings());
        stack.live.push((id, settings));
        (id, settings.streams)
    }

    /// Ends a context.
    pub(crate) fn leave_context(&self, id: u64) {
        let mut stack = self.contexts.lock();
        stack.live.retain(|(other, _)| *other != id);
        let settings = stack.live.last().map_or(stack.before, |(_, settings)| *settings);
        self.allocator.set_limit(settings.limit);
        if settings.streams != self.settings().streams {
            self.set_streams(settings.streams);
        }
    }

    fn settings(&self) -> Settings {
        Settings { limit: self.allocator.limit(), streams: self.backend.extensions().stream_count() }
    }

    fn set_streams(&self, wanted: usize) {
        if let Some(streams) = self.backend.extensions().streams {
            streams.set_streams(wanted);
        }
    }
}

impl Contexts {
    fn lock(&self) -> MutexGuard<'_, Stack> {
        // The stack is valid whatever happened under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

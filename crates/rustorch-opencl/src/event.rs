//! Events: what tells when a command is done.

use crate::sys::{self, Api, EventHandle, Status};

/// An event, released when dropped.
pub(crate) struct Event {
    api: &'static Api,
    handle: EventHandle,
}

impl Event {
    /// The event that a command was given.
    pub(crate) fn new(api: &'static Api, handle: EventHandle) -> Event {
        Event { api, handle }
    }

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

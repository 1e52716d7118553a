//! Bytes of small writes, kept until the device has taken them, so that the host need not wait.

use crate::event::Event;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Writes up to this many bytes are staged. Larger ones cost more to copy than to wait for.
const SMALL: usize = 256 << 10;
/// The most bytes staged at a time, for each stream.
const MOST: usize = 16 << 20;

/// The writes on their way, oldest first.
#[derive(Default)]
pub(crate) struct Staging {
    writes: Mutex<Writes>,
}

#[derive(Default)]
struct Writes {
    queue: VecDeque<(Arc<Event>, Box<[u8]>)>,
    bytes: usize,
}

impl Writes {
    /// Lets go of what is done. The stream is in order, so the first that is not done ends the search.
    fn sweep(&mut self) {
        while self.queue.front().is_some_and(|(event, _)| event.is_done()) {
            if let Some((_, bytes)) = self.queue.pop_front() {
                self.bytes -= bytes.len();
            }
        }
    }
}

impl Staging {
    /// A copy of the bytes, if they are few and there is room. Once its write is in the queue, it goes to
    /// [`keep`](Self::keep).
    pub(crate) fn copy(&self, bytes: &[u8]) -> Option<Box<[u8]>> {
        if bytes.len() > SMALL {
            return None;
        }
        let mut writes = self.lock();
        writes.sweep();
        (writes.bytes + bytes.len() <= MOST).then(|| bytes.into())
    }

    /// Keeps the bytes of a write until it is done.
    pub(crate) fn keep(&self, event: Arc<Event>, bytes: Box<[u8]>) {
        let mut writes = self.lock();
        writes.bytes += bytes.len();
        writes.queue.push_back((event, bytes));
    }

    /// Lets go of what is done.
    pub(crate) fn sweep(&self) {
        self.lock().sweep();
    }

    /// Lets go of everything, which must be done.
    pub(crate) fn clear(&self) {
        *self.lock() = Writes::default();
    }

    /// Gives the bytes up for good, since no one can say whether they will still be read.
    pub(crate) fn leak(&self) {
        std::mem::forget(std::mem::take(&mut *self.lock()));
    }

    fn lock(&self) -> MutexGuard<'_, Writes> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Who wrote a storage in place, for those who find that it was written.

use super::Storage;
use std::fmt;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

/// A write in place, as [`Storage::note_write`] notes it.
#[derive(Clone, Copy, Debug)]
pub struct NotedWrite {
    /// The operation's name.
    pub op: &'static str,
    /// The line that called it, where that is known.
    pub caller: Option<&'static Location<'static>>,
}

/// A write and the version that it led to.
pub(super) type Note = Mutex<Option<(u64, NotedWrite)>>;

impl fmt::Display for NotedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.op)?;
        match self.caller {
            Some(caller) => write!(f, ", called at {caller}"),
            None => Ok(()),
        }
    }
}

impl Storage {
    /// Notes which write led to the version that the storage has now.
    pub fn note_write(&self, write: NotedWrite) {
        let version = self.version();
        let place = self.0.noted.get_or_init(Box::default);
        // A note is written whole, so a panic elsewhere cannot have left half of one.
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some((version, write));
    }

    /// The write that led to the version that the storage has now, if it was noted.
    pub fn noted_write(&self) -> Option<NotedWrite> {
        let noted = *self.0.noted.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        noted.filter(|(version, _)| *version == self.version()).map(|(_, write)| write)
    }
}

//! Memory of a GPU.

use crate::session::Session;
use rustorch_core::{Error, Fault};
use std::fmt;
use std::sync::Arc;

/// Memory of an NVIDIA GPU. It is given back when the work that was put into the stream before is done.
pub struct Memory {
    pub(crate) session: Arc<Session>,
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

impl Memory {
    /// New memory.
    pub(crate) fn new(session: &Arc<Session>, bytes: usize) -> Result<Memory, Fault> {
        session.enter()?;
        if bytes == 0 || !bytes.is_multiple_of(16) {
            let message = format!("{bytes} bytes asked for, which is no positive multiple of 16");
            return Err(Fault::Invalid(Box::new(Error::argument("allocate", message))));
        }
        let address = session.allocate(bytes)?;
        Ok(Memory { session: Arc::clone(session), address, bytes })
    }

    /// Fails unless it is of this session and has these bytes.
    pub(crate) fn check(&self, session: &Arc<Session>, offset: usize, bytes: usize) -> Result<(), Fault> {
        let invalid = |message: String| Fault::Invalid(Box::new(Error::argument("memory", message)));
        if !Arc::ptr_eq(&self.session, session) {
            return Err(invalid(format!(
                "memory of {} was given to another driver of {}",
                self.session.device, session.device
            )));
        }
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(invalid(format!(
                "{bytes} bytes from byte {offset} on are outside a memory of {} bytes",
                self.bytes
            )));
        }
        Ok(())
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes on {})", self.bytes, self.session.device)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.session.free(self.address);
    }
}

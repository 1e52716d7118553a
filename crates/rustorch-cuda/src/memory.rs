//! Memory of a GPU.

use crate::session::Session;
use rustorch_core::Fault;
use rustorch_kernels::driver::{check_range, check_size, invalid};
use std::fmt;
use std::sync::Arc;

/// Memory of an NVIDIA GPU. It is given back when the work that was put into this thread's stream before is done.
pub struct Memory {
    pub(crate) session: Arc<Session>,
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

impl Memory {
    /// New memory.
    pub(crate) fn new(session: &Arc<Session>, bytes: usize) -> Result<Memory, Fault> {
        session.enter()?;
        check_size(bytes)?;
        let address = session.allocate(bytes)?;
        Ok(Memory { session: Arc::clone(session), address, bytes })
    }

    /// Fails unless it is of this session and has these bytes.
    pub(crate) fn check(&self, session: &Arc<Session>, offset: usize, bytes: usize) -> Result<(), Fault> {
        if !Arc::ptr_eq(&self.session, session) {
            let (own, other) = (self.session.device, session.device);
            return Err(invalid("memory", format!("memory of {own} was given to another driver of {other}")));
        }
        check_range(self.bytes, offset, bytes)
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

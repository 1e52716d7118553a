//! Memory of a GPU.

use crate::context::Context;
use rustorch_core::Fault;
use rustorch_kernels::driver::{check_range, check_size, invalid};
use std::fmt;
use std::sync::Arc;

/// Memory of an NVIDIA GPU. It is given back when the work that was put into this thread's stream before is done.
pub struct Memory {
    pub(crate) context: Arc<Context>,
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

impl Memory {
    /// New memory.
    pub(crate) fn new(context: &Arc<Context>, bytes: usize) -> Result<Memory, Fault> {
        context.enter()?;
        check_size(bytes)?;
        let address = context.allocate(bytes)?;
        Ok(Memory { context: Arc::clone(context), address, bytes })
    }

    /// Fails unless it is of this context and has these bytes.
    pub(crate) fn check(&self, context: &Arc<Context>, offset: usize, bytes: usize) -> Result<(), Fault> {
        if !Arc::ptr_eq(&self.context, context) {
            let (own, other) = (self.context.device, context.device);
            return Err(invalid("memory", format!("memory of {own} was given to another driver of {other}")));
        }
        check_range(self.bytes, offset, bytes)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes on {})", self.bytes, self.context.device)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.context.free(self.address);
    }
}

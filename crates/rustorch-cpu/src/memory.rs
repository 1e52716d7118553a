//! Host memory for tensors.

use rustorch_core::{Buffer, Fault};

/// Memory with unspecified contents.
pub(crate) fn alloc(bytes: usize) -> Result<Buffer, Fault> {
    Buffer::host(bytes)
}

//! Host memory that begins with a page, which arrays of Core ML may use as it is.

use rustorch_core::{Buffer, Device, Fault};
use std::alloc::{self, Layout};
use std::ptr::NonNull;

/// A page of Apple's systems, the largest there is.
const PAGE: usize = 16 << 10;

/// Zeroed memory, so that it holds valid bytes whatever was written.
pub(super) struct HostMemory {
    address: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns the memory, and does nothing but free it.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    pub(super) fn buffer(bytes: usize) -> Result<Buffer, Fault> {
        let fault = || Fault::OutOfMemory { device: Device::COREML, requested: bytes };
        let layout = Layout::from_size_align(bytes.max(1), PAGE).map_err(|_| fault())?;
        // SAFETY: the layout has a size.
        let address = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(fault)?;
        let memory = HostMemory { address, layout };
        // SAFETY: the address is that of `memory`, which has as many bytes.
        Ok(unsafe { Buffer::device(Device::COREML, bytes, Some(address), Box::new(memory)) })
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed only here.
        unsafe { alloc::dealloc(self.address.as_ptr(), self.layout) }
    }
}

//! Host memory for tensors.

use rustorch_core::{Buffer, Fault};

/// Memory with unspecified contents.
pub(crate) fn alloc(bytes: usize) -> Result<Buffer, Fault> {
    #[cfg(target_os = "linux")]
    if bytes >= huge::PAGE {
        return huge::alloc(bytes);
    }
    Buffer::host(bytes)
}

/// Large blocks on huge pages: walking a matrix of many megabytes misses the address cache far less often.
#[cfg(target_os = "linux")]
mod huge {
    use rustorch_core::{Buffer, Device, Fault};
    use std::alloc::{self, Layout};
    use std::ptr::NonNull;

    /// The size of a huge page.
    pub(super) const PAGE: usize = 2 << 20;

    struct Block {
        address: NonNull<u8>,
        layout: Layout,
    }

    // SAFETY: the block owns its memory and gives no access to it; `Buffer`'s users govern that.
    unsafe impl Send for Block {}
    // SAFETY: as above.
    unsafe impl Sync for Block {}

    impl Drop for Block {
        fn drop(&mut self) {
            // SAFETY: allocated with this layout below and freed only here.
            unsafe { alloc::dealloc(self.address.as_ptr(), self.layout) }
        }
    }

    pub(super) fn alloc(bytes: usize) -> Result<Buffer, Fault> {
        let fault = Fault::OutOfMemory { device: Device::Cpu, requested: bytes };
        let layout = Layout::from_size_align(bytes, PAGE).map_err(|_| fault.clone())?;
        // SAFETY: the layout has non-zero size: callers ask for a page at least.
        let address = NonNull::new(unsafe { alloc::alloc(layout) }).ok_or(fault)?;
        // Advice: a system without huge pages goes on with small ones, so the answer does not matter.
        // SAFETY: the range was just allocated; this advice does not change its contents.
        let _ = unsafe { libc::madvise(address.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        // SAFETY: the block keeps `bytes` bytes at this address for as long as it lives.
        Ok(unsafe { Buffer::device(Device::Cpu, bytes, Some(address), Box::new(Block { address, layout })) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_size_can_be_written() {
        for bytes in [0, 1, 4096, (2 << 20) - 1, 2 << 20, (5 << 20) + 3] {
            let buffer = alloc(bytes).unwrap();
            assert!(buffer.bytes() >= bytes && !buffer.is_read_only());
            let address = buffer.host_address().unwrap();
            assert_eq!(address.addr().get() % 64, 0);
            // SAFETY: fresh memory of this size.
            unsafe { address.as_ptr().write_bytes(7, bytes) };
        }
        assert!(alloc(usize::MAX).is_err());
    }
}

//! Host memory for tensors.
//!
//! Blocks of 2 MiB and more are aligned to huge pages and ask the system for them: the first touch of fresh memory is
//! then ten times as fast as by 4 KiB pages, and streaming through it misses the translation cache no more. Where the
//! system has no such thing or refuses, they are ordinary memory.

use rustorch_core::{Buffer, Fault};

/// Memory with unspecified contents.
pub(crate) fn alloc(bytes: usize) -> Result<Buffer, Fault> {
    #[cfg(target_os = "linux")]
    if bytes >= huge::PAGE
        && let Some(buffer) = huge::alloc(bytes)
    {
        return Ok(buffer);
    }
    Buffer::host(bytes)
}

#[cfg(target_os = "linux")]
mod huge {
    use rustorch_core::{Buffer, Device};
    use std::alloc::{Layout, alloc as allocate, dealloc};
    use std::ptr::NonNull;

    /// The size of a huge page on x86-64, and the usual one on 64-bit Arm.
    pub(super) const PAGE: usize = 2 << 20;

    /// Whole huge pages.
    struct Pages {
        address: NonNull<u8>,
        layout: Layout,
    }

    // SAFETY: an owned allocation, which may be freed by any thread.
    unsafe impl Send for Pages {}
    // SAFETY: nothing is reached through a shared reference.
    unsafe impl Sync for Pages {}

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: allocated with this layout, and freed only here.
            unsafe { dealloc(self.address.as_ptr(), self.layout) }
        }
    }

    /// `None` where memory or address space run out.
    pub(super) fn alloc(bytes: usize) -> Option<Buffer> {
        let layout = Layout::from_size_align(bytes.checked_next_multiple_of(PAGE)?, PAGE).ok()?;
        // SAFETY: the layout has non-zero size.
        let address = NonNull::new(unsafe { allocate(layout) })?;
        // SAFETY: the range is ours, and the advice changes no contents. A refusal changes nothing at all.
        unsafe { libc::madvise(address.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        let pages = Box::new(Pages { address, layout });
        // SAFETY: the allocation has at least this many bytes and lives as long as `pages`.
        Some(unsafe { Buffer::device(Device::CPU, bytes, Some(address), pages) })
    }
}

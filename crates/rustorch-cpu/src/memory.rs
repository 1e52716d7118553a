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

/// Room for so many elements of a kernel's own, in huge pages as far as it has whole ones.
pub(crate) fn scratch<T>(len: usize) -> Vec<T> {
    let room = Vec::with_capacity(len);
    #[cfg(target_os = "linux")]
    huge::advise(&room);
    room
}

/// Zeros of which the system gives pages when they are touched: a cache for a long context takes memory as it fills. `None` where that would not pay, or the
/// system refuses.
pub(crate) fn alloc_zeroed(bytes: usize) -> Option<Buffer> {
    #[cfg(target_os = "linux")]
    if bytes >= mapped::LEAST {
        return mapped::alloc(bytes);
    }
    let _ = bytes;
    None
}

#[cfg(target_os = "linux")]
mod mapped {
    use super::huge;
    use rustorch_core::{Buffer, Device};
    use std::ptr::{self, NonNull};

    /// Below this, writing zeros takes no longer than the system call. The C library maps blocks of this size on their own, too.
    pub(super) const LEAST: usize = 128 << 10;

    /// Pages of its own.
    struct Mapping {
        start: NonNull<u8>,
        bytes: usize,
    }

    // SAFETY: an owned mapping, which may be removed by any thread.
    unsafe impl Send for Mapping {}
    // SAFETY: nothing is reached through a shared reference.
    unsafe impl Sync for Mapping {}

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: mapped with this length, and removed only here.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }

    pub(super) fn alloc(bytes: usize) -> Option<Buffer> {
        // Room for huge pages; what is never touched is no memory.
        let is_huge = bytes >= huge::PAGE;
        let room = if is_huge {
            bytes.checked_next_multiple_of(huge::PAGE)?.checked_add(huge::PAGE)?
        } else {
            bytes
        };
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, at an address that the system chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), room, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let mapping = Box::new(Mapping { start: NonNull::new(start)?.cast(), bytes: room });
        let mut address = mapping.start;
        if is_huge {
            let behind = address.addr().get() % huge::PAGE;
            // SAFETY: the room is a huge page more than the bytes take in huge pages.
            address = unsafe { address.add((huge::PAGE - behind) % huge::PAGE) };
            let len = room - huge::PAGE;
            // SAFETY: the range is inside the mapping, and the advice changes no contents. A refusal changes nothing at all.
            unsafe { libc::madvise(address.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        }
        // SAFETY: the mapping has as many bytes from there on, can be read and written, and lives as long as `mapping`.
        Some(unsafe { Buffer::device(Device::CPU, bytes, Some(address), mapping) })
    }
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

    /// Asks for the whole huge pages of a vector's memory.
    pub(super) fn advise<T>(room: &Vec<T>) {
        let (bytes, start) = (room.capacity() * size_of::<T>(), room.as_ptr().cast_mut().cast::<u8>());
        let before = start.addr().wrapping_neg() % PAGE;
        let whole = bytes.saturating_sub(before) / PAGE * PAGE;
        if whole != 0 {
            // SAFETY: the range is inside the vector's memory, and the advice changes no contents. A refusal changes nothing at all.
            unsafe { libc::madvise(start.wrapping_add(before).cast(), whole, libc::MADV_HUGEPAGE) };
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

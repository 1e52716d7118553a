//! An allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counted by thread; to be a test program's `#[global_allocator]`.
pub struct CountingAllocator;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// How often the thread allocated, or made an allocation larger or smaller.
pub fn allocations() -> usize {
    COUNT.get()
}

/// The bytes that the thread allocated, less those that it freed.
pub fn allocated_bytes() -> isize {
    BYTES.get()
}

/// What `f` gives, and the most bytes that the thread held at once in its course beyond those that it held before.
pub fn peak_bytes<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let before = BYTES.get();
    PEAK.set(before);
    let result = f();
    (result, (PEAK.get() - before).unsigned_abs())
}

fn record(count: usize, bytes: isize) {
    // A thread that ends frees what it had after its counters are gone.
    let _ = COUNT.try_with(|total| total.set(total.get() + count));
    let _ = BYTES.try_with(|total| total.set(total.get() + bytes));
    let _ = PEAK.try_with(|peak| peak.set(peak.get().max(allocated_bytes())));
}

/// Counts an allocation, unless the system has refused it.
fn recorded(at: *mut u8, bytes: isize) -> *mut u8 {
    if !at.is_null() {
        record(1, bytes);
    }
    at
}

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, block: Layout) -> *mut u8 {
        // SAFETY: this function's contract.
        recorded(unsafe { System.alloc(block) }, block.size() as isize)
    }

    unsafe fn alloc_zeroed(&self, block: Layout) -> *mut u8 {
        // SAFETY: this function's contract.
        recorded(unsafe { System.alloc_zeroed(block) }, block.size() as isize)
    }

    unsafe fn dealloc(&self, at: *mut u8, block: Layout) {
        record(0, -(block.size() as isize));
        // SAFETY: this function's contract.
        unsafe { System.dealloc(at, block) }
    }

    unsafe fn realloc(&self, at: *mut u8, block: Layout, size: usize) -> *mut u8 {
        // SAFETY: this function's contract.
        recorded(unsafe { System.realloc(at, block, size) }, size as isize - block.size() as isize)
    }
}

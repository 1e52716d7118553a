//! Which memory an operation in place touches, shown by memory in which anything else is forbidden.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use rustorch_core::{Buffer, DType, Device, Layout, Op, Scatter, ScatterMode, Shape, View, ViewMut};
use rustorch_cpu::CpuBackend;
use std::ptr::NonNull;

const PAGE: usize = 4096;
const PAGES: usize = 64;

/// Pages that may be read and written, or not at all.
struct Pages(*mut libc::c_void);

// SAFETY: the address of a mapping that nothing else unmaps.
unsafe impl Send for Pages {}
// SAFETY: as above; nothing is done through a shared reference.
unsafe impl Sync for Pages {}

impl Pages {
    fn new() -> Pages {
        // SAFETY: a new private mapping at an address of the system's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGES * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        Pages(start)
    }

    /// Forbids or allows every access to a page.
    fn protect(address: *mut u8, page: usize, protection: i32) {
        // SAFETY: a page of the mapping, of which no reference exists.
        assert_eq!(unsafe { libc::mprotect(address.add(page * PAGE).cast(), PAGE, protection) }, 0);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made.
        unsafe { libc::munmap(self.0, PAGES * PAGE) };
    }
}

fn contiguous(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

#[test]
fn writing_rows_at_indices_touches_their_pages_only() {
    let cpu = CpuBackend::new(2);
    let pages = Pages::new();
    let start = pages.0.cast::<u8>();
    // SAFETY: the mapping has so many bytes, and lives as long as the buffer.
    let buffer = unsafe { Buffer::device(Device::CPU, PAGES * PAGE, NonNull::new(start), Box::new(pages)) };
    // A row of f32 is a page; two of them are written.
    let (row, chosen) = (PAGE / 4, [5i64, 40]);
    let layout = contiguous(&[PAGES, row]);
    let index = Layout::new(Shape::new([2, row].as_slice()).unwrap(), [1, 0].as_slice(), 0).unwrap();
    let source = contiguous(&[2, row]);
    let host = |bytes: &[u8]| {
        let buffer = Buffer::host(bytes.len()).unwrap();
        // SAFETY: fresh memory of this size.
        unsafe { buffer.host_address().unwrap().as_ptr().copy_from(bytes.as_ptr(), bytes.len()) };
        buffer
    };
    let indices = host(&chosen.map(i64::to_ne_bytes).concat());
    let values = host(&(0..2 * row).flat_map(|i| (i as f32).to_ne_bytes()).collect::<Vec<u8>>());
    for page in (0..PAGES).filter(|&page| !chosen.contains(&(page as i64))) {
        Pages::protect(start, page, libc::PROT_NONE);
    }
    let op = Op::Scatter(Scatter { axis: 0, mode: ScatterMode::Replace });
    // SAFETY: layouts of the buffers; the first argument is the output, which this operation may overwrite. (What it must not read
    // cannot be read.)
    let (args, mut out) = unsafe {
        (
            [
                View::aliased(&buffer, DType::F32, &layout),
                View::new(&indices, DType::I64, &index),
                View::new(&values, DType::F32, &source),
            ],
            [ViewMut::from_shared(&buffer, DType::F32, &layout)],
        )
    };
    cpu.run(&op, &args, &mut out).unwrap();
    for page in 0..PAGES {
        Pages::protect(start, page, libc::PROT_READ | libc::PROT_WRITE);
    }
    for page in 0..PAGES {
        // SAFETY: a page of the mapping, initialised as all of it.
        let got = unsafe { std::slice::from_raw_parts(start.add(page * PAGE).cast::<f32>(), row) };
        let from = chosen.iter().position(|&i| i == page as i64).map(|k| k * row);
        assert!((0..row).all(|i| got[i] == from.map_or(0.0, |from| (from + i) as f32)), "page {page}");
    }
}

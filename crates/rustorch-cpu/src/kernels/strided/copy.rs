//! Copies between layouts of one shape.

use super::map::{InPlace, Loop, copy_run};
use super::outer::Outer;
use super::{base, base_mut, unreachable_memory};
use crate::ThreadPool;
use rustorch_core::{Fault, View, ViewMut};
use std::mem::MaybeUninit;

/// Bytes for a thread to copy at least.
const GRAIN: usize = 1 << 17;
/// Elements of a tile of a transposition, of each dimension: a cache line of `f32`.
const TILE: usize = 16;
/// Elements of each dimension of what one thread transposes at a time, the source's contiguous one first: tiles of which share pages.
const BLOCK: [usize; 2] = [64, 64];
/// The same where lines are [streamed](stream): each is written whole at once.
const STREAMED_BLOCK: [usize; 2] = [128, TILE];
/// The fewest bytes that are streamed: what caches would not hold until it is read again.
const STREAMED: usize = 1 << 24;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Copies elements between any layouts of one shape: rows that are contiguous on both sides as a whole, rows of one repeated element
/// by filling them, others by tiles of the dimensions that are contiguous on either side, so that whole cache lines are read and
/// written, or element by element, where rows are not short. `false` where nothing of this helps.
pub(crate) fn copy_rows(pool: &ThreadPool, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<bool, Fault> {
    if x.dtype() != out.dtype() || x.is_aliased() {
        return Ok(false);
    }
    if x.layout().is_contiguous() && out.layout().is_contiguous() {
        let (from, to) = (Start(base(x)?.cast_mut()), Start(base_mut(out)?));
        let size = x.dtype().size().ok_or_else(unreachable_memory)?;
        pool.ranges(x.layout().numel() * size, GRAIN, |range| {
            // SAFETY: bytes of elements that the views have, of different memory.
            unsafe { std::ptr::copy_nonoverlapping(from.at(range.start), to.at(range.start), range.len()) };
        });
        return Ok(true);
    }
    let joint = Loop::new(out, std::slice::from_ref(x), InPlace::Direct)?;
    let (to, from) = (&joint.operands[0], &joint.operands[1]);
    let last = joint.dims.len() - 1;
    if joint.numel() == 0 {
        return Ok(false);
    }
    let size = to.size;
    let across = (0..last).find(|&axis| from.strides[axis] == 1);
    if (to.strides[last] != 1 || from.strides[last] > 1 && across.is_none()) && joint.dims[last] >= TILE {
        let outer = Outer::new(&joint, &[last]);
        let (len, step, to_step) = (joint.dims[last], from.strides[last], to.strides[last]);
        // Rows that follow each other as their elements do are one long row.
        let part = len.min(GRAIN / size);
        let parts = len.div_ceil(part);
        pool.ranges(outer.count() * parts, (GRAIN / (part * size)).max(1), |range| {
            let copy = |[to_index, from_index]: [usize; 2], first: usize| {
                let (from, to) =
                    (from.at_index(from_index + first * step), to.at_index(to_index + first * to_step));
                // SAFETY: part of a row that the views have, of different memory.
                unsafe { copy_run(from, step, to, to_step, part.min(len - first), size) };
            };
            if parts == 1 {
                return outer.each(range, |row| copy(row, 0));
            }
            for i in range {
                outer.each(i / parts..i / parts + 1, |row| copy(row, i % parts * part));
            }
        });
        return Ok(true);
    }
    if to.strides[last] != 1 {
        return Ok(false);
    }
    if from.strides[last] == 1 {
        let outer = Outer::new(&joint, &[last]);
        let row = joint.dims[last] * size;
        pool.ranges(outer.count(), (GRAIN / row).max(1), |range| {
            outer.each(range, |[to_index, from_index]| {
                let (from, to) = (from.at_index(from_index), to.at_index(to_index));
                // SAFETY: as above, of one row.
                unsafe { std::ptr::copy_nonoverlapping(from, to, row) };
            });
        });
        return Ok(true);
    }
    if from.strides[last] == 0 && joint.dims[last] >= TILE {
        let outer = Outer::new(&joint, &[last]);
        let len = joint.dims[last];
        pool.ranges(outer.count(), (GRAIN / (len * size)).max(1), |range| {
            outer.each(range, |[to_index, from_index]| {
                // SAFETY: one element and one row that the views have, of different memory.
                unsafe { fill(from.at_index(from_index), to.at_index(to_index), len, size) };
            });
        });
        return Ok(true);
    }
    let Some(across) = across else { return Ok(false) };
    let (rows, cols) = (joint.dims[across], joint.dims[last]);
    if rows < 4 || cols < 4 {
        return Ok(false);
    }
    let outer = Outer::new(&joint, &[across, last]);
    let plane = Plane { from_stride: from.strides[last], to_stride: to.strides[across] };
    let is_streamed = cfg!(target_arch = "x86_64")
        && size >= 4
        && joint.numel() * size >= STREAMED
        && to.base.addr().is_multiple_of(LINE)
        && to.strides.iter().all(|&stride| stride == 1 || (stride * size).is_multiple_of(LINE));
    let block = if is_streamed { STREAMED_BLOCK } else { BLOCK };
    let blocks = [rows.div_ceil(block[0]), cols.div_ceil(block[1])];
    let grain = (GRAIN / (block[0] * block[1] * size)).max(1);
    pool.ranges(outer.count() * blocks[0] * blocks[1], grain, |range| {
        for i in range {
            let (at, of_plane) = (i / (blocks[0] * blocks[1]), i % (blocks[0] * blocks[1]));
            let (row, col) = (of_plane % blocks[0] * block[0], of_plane / blocks[0] * block[1]);
            let area = [block[0].min(rows - row), block[1].min(cols - col)];
            outer.each(at..at + 1, |[to_index, from_index]| {
                let from = from.at_index(from_index + row + col * plane.from_stride);
                let to = to.at_index(to_index + row * plane.to_stride + col);
                // SAFETY: elements that the views have, of different memory; each block is copied by one thread. Where it is streamed,
                // blocks start at whole lines, since all strides but that of neighbours are such.
                unsafe {
                    match is_streamed {
                        true => plane.copy_streamed(from, to, area, size),
                        false => plane.copy(from, to, area, size),
                    }
                }
            });
        }
        if is_streamed {
            fence();
        }
    });
    Ok(true)
}

/// Writes whole lines without reading them into caches first.
///
/// # Safety
/// The target is aligned like a cache line, and has room for the tile's line, which is initialised and as long as one or several.
#[inline(always)]
unsafe fn stream<W: Copy>(line: &Aligned<W>, to: *mut W) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_stream_si128};
        let (from, to) = (line.0.as_ptr().cast::<__m128i>(), to.cast::<__m128i>());
        for i in 0..size_of_val(&line.0) / 16 {
            // SAFETY: inside of both by the contract, and both are aligned.
            unsafe { _mm_stream_si128(to.add(i), _mm_load_si128(from.add(i))) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the contract.
    unsafe {
        std::ptr::copy_nonoverlapping(line.0.as_ptr().cast(), to, TILE);
    }
}

/// Orders what was [streamed](stream) before what this thread writes from now on, for those who wait for that.
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every CPU of the target has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// A line of a tile.
#[repr(align(64))]
struct Aligned<W>([MaybeUninit<W>; TILE]);

/// Writes one element of so many bytes `len` times.
///
/// # Safety
/// The element can be read and the row written; they do not overlap.
unsafe fn fill(from: *const u8, to: *mut u8, len: usize, size: usize) {
    unsafe fn of<W: Copy>(from: *const W, to: *mut W, len: usize) {
        // SAFETY: the contract of `fill`. Uninitialized elements may be written.
        unsafe {
            std::slice::from_raw_parts_mut(to.cast::<MaybeUninit<W>>(), len).fill(MaybeUninit::new(*from))
        }
    }
    // SAFETY: this function's contract. Words have the size of the elements and at most their alignment.
    unsafe {
        match size {
            1 => of::<u8>(from.cast(), to.cast(), len),
            2 => of::<u16>(from.cast(), to.cast(), len),
            4 => of::<u32>(from.cast(), to.cast(), len),
            // Complex numbers are aligned like their parts.
            8 => of::<[u32; 2]>(from.cast(), to.cast(), len),
            _ => of::<[u64; 2]>(from.cast(), to.cast(), len),
        }
    }
}

/// The address of a view's first element.
struct Start(*mut u8);

// SAFETY: that of a view that outlives it; see the documentation of `strided`.
unsafe impl Sync for Start {}

impl Start {
    fn at(&self, byte: usize) -> *mut u8 {
        self.0.wrapping_add(byte)
    }
}

/// Two dimensions, the first contiguous in the source and the second in the target.
pub(super) struct Plane {
    pub(super) from_stride: usize,
    pub(super) to_stride: usize,
}

impl Plane {
    /// Copies `rows` by `cols` elements of so many bytes.
    ///
    /// # Safety
    /// Element `(i, j)` can be read at `i + j * from_stride` and written at `i * to_stride + j`, and the two sides do not overlap.
    pub(super) unsafe fn copy(&self, from: *const u8, to: *mut u8, area: [usize; 2], size: usize) {
        // SAFETY: this function's contract. Words have the size of the elements and at most their alignment.
        unsafe {
            match size {
                1 => self.transpose::<u8, false>(from.cast(), to.cast(), area),
                2 => self.transpose::<u16, false>(from.cast(), to.cast(), area),
                4 => self.transpose::<u32, false>(from.cast(), to.cast(), area),
                // Complex numbers are aligned like their parts.
                8 => self.transpose::<[u32; 2], false>(from.cast(), to.cast(), area),
                _ => self.transpose::<[u64; 2], false>(from.cast(), to.cast(), area),
            }
        }
    }

    /// The same of elements of 4 bytes at least, where lines are [streamed](stream).
    ///
    /// # Safety
    /// As of [`copy`](Self::copy); and the target's first element and its stride are whole cache lines.
    unsafe fn copy_streamed(&self, from: *const u8, to: *mut u8, area: [usize; 2], size: usize) {
        // SAFETY: as of `copy`.
        unsafe {
            match size {
                4 => self.transpose::<u32, true>(from.cast(), to.cast(), area),
                8 => self.transpose::<[u32; 2], true>(from.cast(), to.cast(), area),
                _ => self.transpose::<[u64; 2], true>(from.cast(), to.cast(), area),
            }
        }
    }

    /// One tile of elements of 4 bytes, four by four in registers.
    ///
    /// # Safety
    /// As of [`copy`](Self::copy), or [`copy_streamed`](Self::copy_streamed), for [`TILE`] rows and columns.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn transpose_words<const STREAM: bool>(&self, from: *const f32, to: *mut f32) {
        use std::arch::x86_64::{
            _mm_loadu_ps, _mm_movehl_ps, _mm_movelh_ps, _mm_setzero_ps, _mm_storeu_ps, _mm_stream_ps,
            _mm_unpackhi_ps, _mm_unpacklo_ps,
        };
        for i in (0..TILE).step_by(4) {
            // SAFETY: this function's contract. Every CPU of the target has the instructions, which copy bits.
            unsafe {
                let at = |k: usize, j: usize| to.add((i + k) * self.to_stride + j);
                let mut lines = [[_mm_setzero_ps(); TILE / 4]; 4];
                for j in (0..TILE).step_by(4) {
                    let column = |k: usize| _mm_loadu_ps(from.add((j + k) * self.from_stride + i));
                    let [a, b, c, d] = [column(0), column(1), column(2), column(3)];
                    let [ab, cd] = [_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d)];
                    let [ab_high, cd_high] = [_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d)];
                    let rows = [
                        _mm_movelh_ps(ab, cd),
                        _mm_movehl_ps(cd, ab),
                        _mm_movelh_ps(ab_high, cd_high),
                        _mm_movehl_ps(cd_high, ab_high),
                    ];
                    for (k, row) in rows.into_iter().enumerate() {
                        if STREAM { lines[k][j / 4] = row } else { _mm_storeu_ps(at(k, j), row) }
                    }
                }
                if STREAM {
                    // Whole lines, one after the other: parts of several would be written to memory one by one.
                    for (k, line) in lines.into_iter().enumerate() {
                        for (j, part) in line.into_iter().enumerate() {
                            _mm_stream_ps(at(k, 4 * j), part);
                        }
                    }
                }
            }
        }
    }

    /// The same of one type, tile by tile.
    ///
    /// # Safety
    /// As of [`copy`](Self::copy), or [`copy_streamed`](Self::copy_streamed).
    unsafe fn transpose<W: Copy, const STREAM: bool>(
        &self,
        from: *const W,
        to: *mut W,
        [rows, cols]: [usize; 2],
    ) {
        let mut tile = [const { [const { MaybeUninit::<W>::uninit() }; TILE] }; TILE];
        for col in (0..cols).step_by(TILE) {
            let width = TILE.min(cols - col);
            for row in (0..rows).step_by(TILE) {
                let height = TILE.min(rows - row);
                // SAFETY: this function's contract; elements of the tile are written before they are read.
                unsafe {
                    let from = from.add(row + col * self.from_stride);
                    let to = to.add(row * self.to_stride + col);
                    #[cfg(target_arch = "x86_64")]
                    if height == TILE && width == TILE && size_of::<W>() == 4 {
                        self.transpose_words::<STREAM>(from.cast(), to.cast());
                        continue;
                    }
                    if height == TILE && width == TILE {
                        // Loops of known length, which the compiler unrolls.
                        for (j, line) in tile.iter_mut().enumerate() {
                            let from = from.add(j * self.from_stride).cast();
                            std::ptr::copy_nonoverlapping(from, line.as_mut_ptr(), TILE);
                        }
                        let mut to = to;
                        for i in 0..TILE {
                            // A loop, since a closure of `map` is not always inlined.
                            let mut line = Aligned([const { MaybeUninit::uninit() }; TILE]);
                            for (place, column) in line.0.iter_mut().zip(&tile) {
                                *place = column[i];
                            }
                            if STREAM {
                                stream(&line, to);
                            } else {
                                std::ptr::copy_nonoverlapping(line.0.as_ptr(), to.cast(), TILE);
                            }
                            to = to.wrapping_add(self.to_stride);
                        }
                        continue;
                    }
                    for i in 0..height {
                        for j in 0..width {
                            *to.add(i * self.to_stride + j) = *from.add(i + j * self.from_stride);
                        }
                    }
                }
            }
        }
    }
}

//! Lines of a view along one axis.

mod divided;

pub(crate) use divided::{GROUP, for_row_groups, for_row_parts};

use super::copy::Plane;
use super::{base, base_mut, map::copy_run, unreachable_memory};
use crate::ThreadPool;
use rustorch_core::{Dims, Element, Fault, View, ViewMut};
use std::marker::PhantomData;
use std::ops::Range;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes of lines that are copied together, if a cache line of them has no more: part of a second-level cache.
const TOGETHER: usize = 256 << 10;
/// Bytes of such lines at most.
const MOST: usize = 4 << 20;
/// Elements of as many lines that are contiguous, in bytes: more would not be faster.
const WIDEST: usize = 512;

/// The lines of a view along an axis, numbered in row-major order of the other axes.
pub(crate) struct Rows<'a, T> {
    lines: Lines,
    /// Whether the output has the same elements, so that they are copied before those are written.
    aliased: bool,
    life: PhantomData<&'a [T]>,
}

/// The lines of an output along an axis.
pub(crate) struct RowsMut<'a, T> {
    lines: Lines,
    life: PhantomData<&'a mut [T]>,
}

struct Lines {
    base: *mut u8,
    dims: Dims,
    strides: Dims,
    len: usize,
    stride: usize,
}

// SAFETY: addresses of a view that outlives this value; see the documentation of `strided`.
unsafe impl Sync for Lines {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for Rows<'_, T> {}
// SAFETY: as above; rows are handed out under a contract of exclusion.
unsafe impl<T: Element> Sync for RowsMut<'_, T> {}

impl Lines {
    /// A scalar has one line of one element along axis 0.
    fn new(base: *mut u8, dims: &[usize], strides: &[usize], axis: usize) -> Lines {
        let others =
            |x: &[usize]| x.iter().enumerate().filter(|&(i, _)| i != axis).map(|(_, &v)| v).collect();
        let mut lines = Lines {
            base,
            dims: others(dims),
            strides: others(strides),
            len: dims.get(axis).copied().unwrap_or(1),
            stride: strides.get(axis).copied().unwrap_or(1),
        };
        if lines.len == 1 {
            lines.stride = 1;
        }
        lines
    }

    fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Elements from a line of a block to the next where it is packed: not a power of two, for those would all be in one set of a cache.
    fn pitch<T>(&self) -> usize {
        self.len + LINE / size_of::<T>()
    }

    /// How many lines are adjacent; see [`Rows::adjacent`].
    fn adjacent(&self) -> usize {
        match (self.dims.last(), self.strides.last()) {
            (Some(&lines), Some(1)) if self.stride != 1 => lines.max(1),
            _ => 1,
        }
    }

    /// The address of the elements of index `k` of so many adjacent lines from number `i` on.
    #[inline]
    fn across<T>(&self, i: usize, lines: usize, k: usize, adjacent: usize) -> *mut T {
        let inside = k < self.len && i + lines <= self.count();
        assert!(inside && adjacent > 1 && i % adjacent + lines <= adjacent, "lines that are not adjacent");
        self.at::<T>(i).wrapping_add(k * self.stride)
    }

    /// Whether lines lie across memory, with the elements of several of them contiguous: those are copied together, by whole cache
    /// lines. Longer ones would not stay in a cache.
    fn are_adjacent<T>(&self) -> bool {
        self.stride != 1
            && self.len > 1
            && self.strides.last() == Some(&1)
            && self.pitch::<T>().saturating_mul(LINE) <= MOST
    }

    /// The address of the first element of line `i`.
    #[inline]
    fn at<T>(&self, mut i: usize) -> *mut T {
        let mut index = 0;
        // Of the first dimension what is left is the index, without a division.
        if let (Some((&first, strides)), Some((_, dims))) =
            (self.strides.split_first(), self.dims.split_first())
        {
            for (&dim, &stride) in dims.iter().zip(strides).rev() {
                index += i % dim * stride;
                i /= dim;
            }
            index += i * first;
        }
        self.base.cast::<T>().wrapping_add(index)
    }
}

impl<'a, T: Element> Rows<'a, T> {
    pub(crate) fn new(x: &View<'a>, axis: usize) -> Result<Rows<'a, T>, Fault> {
        if x.dtype() != T::DTYPE {
            return Err(unreachable_memory());
        }
        let lines = Lines::new(base(x)?.cast_mut(), x.layout().dims(), x.layout().strides(), axis);
        Ok(Rows { lines, aliased: x.is_aliased(), life: PhantomData })
    }

    /// How many lines there are.
    pub(crate) fn count(&self) -> usize {
        self.lines.count()
    }

    /// The elements of a line.
    pub(crate) fn len(&self) -> usize {
        self.lines.len
    }

    /// Line `i`: borrowed if it is contiguous and not an output's, else gathered into `scratch`.
    #[inline]
    pub(crate) fn row<'s>(&self, i: usize, scratch: &'s mut Vec<T>) -> &'s [T]
    where
        'a: 's,
    {
        let (first, len, stride) = (self.lines.at::<T>(i), self.lines.len, self.lines.stride);
        if len == 0 {
            return &[];
        }
        assert!(i < self.count(), "line outside the view");
        if stride == 1 && !self.aliased {
            // SAFETY: a contiguous line of the view.
            return unsafe { std::slice::from_raw_parts(first, len) };
        }
        scratch.clear();
        scratch.reserve(len);
        // SAFETY: a line of the view, and room for it; then the elements are initialised.
        unsafe {
            copy_run(first.cast(), stride, scratch.as_mut_ptr().cast(), 1, len, size_of::<T>());
            scratch.set_len(len);
        }
        scratch
    }

    /// The element of which line `i` has nothing but repetitions, where the layout tells.
    #[inline]
    pub(crate) fn repeated(&self, i: usize) -> Option<T> {
        if self.lines.stride != 0 || self.lines.len == 0 || self.aliased {
            return None;
        }
        assert!(i < self.count(), "line outside the view");
        // SAFETY: an element of the view.
        Some(unsafe { self.lines.at::<T>(i).read() })
    }

    /// Line `i`, where [all are contiguous](Self::is_contiguous).
    #[inline]
    pub(crate) fn contiguous(&self, i: usize) -> &'a [T] {
        assert!(self.is_contiguous() && i < self.count(), "no contiguous line of the view");
        // SAFETY: a contiguous line of the view.
        unsafe { std::slice::from_raw_parts(self.lines.at::<T>(i), self.lines.len) }
    }

    /// Whether every line is contiguous and not an output's, so that [`row`](Self::row) borrows it.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.lines.stride == 1 && !self.aliased
    }

    /// How many lines are adjacent, from a multiple of that number on: their elements of one index are contiguous. One, if the elements of a line
    /// are, or are an output's.
    pub(crate) fn adjacent(&self) -> usize {
        if self.aliased { 1 } else { self.lines.adjacent() }
    }

    /// The elements of index `k` of so many [`adjacent`](Self::adjacent) lines from number `i` on.
    #[inline]
    pub(crate) fn across(&self, i: usize, lines: usize, k: usize) -> &'a [T] {
        // SAFETY: contiguous elements of the view, which are not an output's, as several lines are adjacent.
        unsafe { std::slice::from_raw_parts(self.lines.across(i, lines, k, self.adjacent()), lines) }
    }

    /// Lines from number `i` on, which are [adjacent](Lines::are_adjacent), copied to `scratch`, a [pitch](Lines::pitch) apart.
    fn pack(&self, i: usize, lines: usize, scratch: &mut Vec<T>) -> *const T {
        let (first, pitch) = (self.lines.at::<T>(i), self.lines.pitch::<T>());
        assert!(i + lines <= self.count(), "lines outside the view");
        scratch.clear();
        scratch.reserve(lines * pitch);
        let plane = Plane { from_stride: self.lines.stride, to_stride: pitch };
        let to = scratch.as_mut_ptr();
        // SAFETY: elements of lines of the view, and room for them.
        unsafe { plane.copy(first.cast(), to.cast(), [lines, self.lines.len], size_of::<T>()) };
        to
    }
}

impl<'a, T: Element> RowsMut<'a, T> {
    pub(crate) fn new(x: &'a mut ViewMut<'_>, axis: usize) -> Result<RowsMut<'a, T>, Fault> {
        if x.dtype() != T::DTYPE {
            return Err(unreachable_memory());
        }
        let lines = Lines::new(base_mut(x)?, x.layout().dims(), x.layout().strides(), axis);
        Ok(RowsMut { lines, life: PhantomData })
    }

    pub(crate) fn count(&self) -> usize {
        self.lines.count()
    }

    /// Whether every line is contiguous.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.lines.stride == 1
    }

    /// Runs `fill` on line `i`, in place or on `scratch` which is scattered afterwards.
    ///
    /// # Safety
    /// Nobody else uses line `i` meanwhile, and `fill` writes every element before it reads any.
    #[inline]
    pub(crate) unsafe fn with_row(&self, i: usize, scratch: &mut Vec<T>, fill: impl FnOnce(&mut [T])) {
        let (first, len, stride) = (self.lines.at::<T>(i), self.lines.len, self.lines.stride);
        if len == 0 {
            return fill(&mut []);
        }
        assert!(i < self.count(), "line outside the view");
        if stride == 1 {
            // SAFETY: a contiguous line of the output, ours alone by the contract.
            return fill(unsafe { std::slice::from_raw_parts_mut(first, len) });
        }
        scratch.clear();
        scratch.reserve(len);
        // SAFETY: room for the line, written by `fill` by the contract; the line is ours alone.
        unsafe {
            fill(std::slice::from_raw_parts_mut(scratch.as_mut_ptr(), len));
            copy_run(scratch.as_ptr().cast(), 1, first.cast(), stride, len, size_of::<T>());
        }
    }

    /// Part of a line whose elements are contiguous.
    ///
    /// # Safety
    /// Nobody else uses that part meanwhile, and every element is written before it is read.
    #[allow(clippy::mut_from_ref, reason = "exclusion is the caller's contract")]
    pub(crate) unsafe fn part(&self, i: usize, part: std::ops::Range<usize>) -> &mut [T] {
        let inside = part.start <= part.end && part.end <= self.lines.len;
        assert!(
            i < self.count() && inside && self.lines.stride == 1,
            "no contiguous part of a line of the output"
        );
        // SAFETY: elements of the output, ours alone by the contract.
        unsafe { std::slice::from_raw_parts_mut(self.lines.at::<T>(i).add(part.start), part.len()) }
    }

    /// The reverse of [`Rows::pack`].
    ///
    /// # Safety
    /// The lines are at `from` as there, and nobody else uses those of the output meanwhile.
    unsafe fn unpack(&self, i: usize, lines: usize, from: *const T) {
        assert!(i + lines <= self.count(), "lines outside the view");
        let plane = Plane { from_stride: self.lines.pitch::<T>(), to_stride: self.lines.stride };
        let to = self.lines.at::<T>(i);
        // SAFETY: this function's contract, and elements of lines of the output.
        unsafe { plane.copy(from.cast(), to.cast(), [self.lines.len, lines], size_of::<T>()) };
    }

    /// The elements of a line.
    pub(crate) fn len(&self) -> usize {
        self.lines.len
    }

    /// As [`Rows::adjacent`].
    pub(crate) fn adjacent(&self) -> usize {
        self.lines.adjacent()
    }

    /// The elements of index `k` of so many [`adjacent`](Self::adjacent) lines from number `i` on.
    ///
    /// # Safety
    /// Nobody else uses these lines meanwhile; the elements are written before they are read, by this or before.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "exclusion is the caller's contract")]
    pub(crate) unsafe fn across(&self, i: usize, lines: usize, k: usize) -> &mut [T] {
        // SAFETY: contiguous elements of the output, ours alone by the contract.
        unsafe { std::slice::from_raw_parts_mut(self.lines.across(i, lines, k, self.adjacent()), lines) }
    }

    /// Puts `f(old, new)` in the place of elements of line `i`, given by their index in it, one after the other.
    ///
    /// # Safety
    /// The line's elements are initialised, and nobody else uses them meanwhile.
    #[inline]
    pub(crate) unsafe fn update<V>(
        &self,
        i: usize,
        changes: impl Iterator<Item = (usize, V)>,
        mut f: impl FnMut(T, V) -> T,
    ) {
        assert!(i < self.count(), "line outside the view");
        let (first, len, stride) = (self.lines.at::<T>(i), self.lines.len, self.lines.stride);
        for (k, new) in changes {
            assert!(k < len, "element outside the line");
            // SAFETY: an element of the line, initialised and ours alone by the contract.
            unsafe {
                let place = first.add(k * stride);
                place.write(f(place.read(), new));
            }
        }
    }

    /// [`update`](Self::update) of those elements that are in a part of the line. The others' changes are made to `spare`, and lost: a
    /// branch would be mispredicted half of the time.
    ///
    /// # Safety
    /// As there, of the elements of the part.
    pub(crate) unsafe fn update_part(
        &self,
        i: usize,
        part: Range<usize>,
        mut spare: T,
        changes: impl Iterator<Item = (usize, T)>,
        mut f: impl FnMut(T, T) -> T,
    ) {
        assert!(i < self.count() && part.end <= self.lines.len, "part outside the view");
        let (first, stride) = (self.lines.at::<T>(i), self.lines.stride);
        // Of unknown use to the compiler, which would leave out what is lost, by a branch.
        let spare = std::hint::black_box(&raw mut spare);
        for (k, new) in changes {
            let inside = first.wrapping_add(k.wrapping_mul(stride));
            let place = if k.wrapping_sub(part.start) < part.len() { inside } else { spare };
            // SAFETY: an element of the part, initialised and ours alone by the contract, or the spare one.
            unsafe { place.write(f(place.read(), new)) };
        }
    }
}

/// A function of a line's number, its elements, and those of the output's line.
type Each<'f, T, U> = dyn Fn(usize, &[T], &mut [U]) + Sync + 'f;
/// A function of the lines of two inputs and that of the output.
type EachPair<'f, T> = dyn Fn(&[T], &[T], &mut [T]) + Sync + 'f;
/// A function of a line and those of two outputs.
type Each2<'f, T, U, V> = dyn Fn(&[T], &mut [U], &mut [V]) + Sync + 'f;

/// Runs `each(i, line of x, line of out)` for every line along `axis`, in parallel. The shapes agree but along the axis.
/// `cost` is the work of a line in elements, for deciding how many go to a thread.
pub(crate) fn for_rows<T: Element, U: Element>(
    pool: &ThreadPool,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
    axis: usize,
    cost: usize,
    each: &Each<'_, T, U>,
) -> Result<(), Fault> {
    let (xs, outs) = (Rows::<T>::new(x, axis)?, RowsMut::<U>::new(out, axis)?);
    debug_assert_eq!(xs.count(), outs.count());
    let count = xs.count().min(outs.count());
    let adjacent = [xs.lines.are_adjacent::<T>(), outs.lines.are_adjacent::<U>()];
    let row = xs.lines.dims.last().copied().unwrap_or(1);
    let size = size_of::<T>().max(size_of::<U>());
    let (least, length) = (LINE / size, xs.lines.len.max(outs.lines.len).max(1));
    if adjacent == [false; 2] || row < least {
        pool.ranges(count, (1 << 13) / cost.max(1), |range| {
            let (mut gathered, mut scattered) = (Vec::new(), Vec::new());
            for i in range {
                let row = xs.row(i, &mut gathered);
                // SAFETY: each line belongs to one range, and kernels write before they read.
                unsafe { outs.with_row(i, &mut scattered, |out| each(i, row, out)) };
            }
        });
        return Ok(());
    }
    // Neighbouring lines are packed together: one pass over memory reads a cache line for all of them.
    let most = (TOGETHER / size / length / least * least).clamp(least, WIDEST / size);
    let blocks = row.div_ceil(most);
    pool.ranges(count / row * blocks, (1 << 13) / cost.max(1) / most, |range| {
        let (mut packed, mut unpacked, mut gathered, mut scattered) =
            (Vec::new(), Vec::<U>::new(), Vec::new(), Vec::new());
        for block in range {
            let (first, done) = (block / blocks * row, block % blocks * most);
            let (first, lines) = (first + done, most.min(row - done));
            let from = adjacent[0].then(|| xs.pack(first, lines, &mut packed));
            let to = adjacent[1].then(|| {
                unpacked.reserve(lines * outs.lines.pitch::<U>());
                unpacked.as_mut_ptr()
            });
            for i in 0..lines {
                let x = match from {
                    // SAFETY: `pack` copied this line there.
                    Some(from) => unsafe {
                        std::slice::from_raw_parts(from.add(i * xs.lines.pitch::<T>()), xs.len())
                    },
                    None => xs.row(first + i, &mut gathered),
                };
                // SAFETY: each line belongs to one block, and kernels write before they read; there is room for each.
                unsafe {
                    match to {
                        Some(to) => {
                            let out = to.add(i * outs.lines.pitch::<U>());
                            each(first + i, x, std::slice::from_raw_parts_mut(out, outs.lines.len));
                        }
                        None => outs.with_row(first + i, &mut scattered, |out| each(first + i, x, out)),
                    }
                }
            }
            if let Some(to) = to {
                // SAFETY: all of these lines were written.
                unsafe { outs.unpack(first, lines, to) };
            }
        }
    });
    Ok(())
}

/// As [`for_rows`], with two inputs of one shape.
pub(crate) fn for_row_pairs<T: Element>(
    pool: &ThreadPool,
    [x, y]: [&View<'_>; 2],
    out: &mut ViewMut<'_>,
    axis: usize,
    cost: usize,
    each: &EachPair<'_, T>,
) -> Result<(), Fault> {
    let (xs, ys) = (Rows::<T>::new(x, axis)?, Rows::<T>::new(y, axis)?);
    let outs = RowsMut::<T>::new(out, axis)?;
    let count = xs.count().min(ys.count()).min(outs.count());
    pool.ranges(count, (1 << 13) / cost.max(1), |range| {
        let (mut gathered, mut gathered2, mut scattered) = (Vec::new(), Vec::new(), Vec::new());
        for i in range {
            let (x, y) = (xs.row(i, &mut gathered), ys.row(i, &mut gathered2));
            // SAFETY: as in `for_rows`.
            unsafe { outs.with_row(i, &mut scattered, |out| each(x, y, out)) };
        }
    });
    Ok(())
}

/// As [`for_rows`], with two outputs.
pub(crate) fn for_rows2<T: Element, U: Element, V: Element>(
    pool: &ThreadPool,
    x: &View<'_>,
    outs: &mut [ViewMut<'_>],
    axis: usize,
    cost: usize,
    each: &Each2<'_, T, U, V>,
) -> Result<(), Fault> {
    let [first, second] = outs else { return Err(unreachable_memory()) };
    let xs = Rows::<T>::new(x, axis)?;
    let (us, vs) = (RowsMut::<U>::new(first, axis)?, RowsMut::<V>::new(second, axis)?);
    let count = xs.count().min(us.count()).min(vs.count());
    pool.ranges(count, (1 << 13) / cost.max(1), |range| {
        let (mut gathered, mut scattered, mut scattered2) = (Vec::new(), Vec::new(), Vec::new());
        for i in range {
            let row = xs.row(i, &mut gathered);
            // SAFETY: as in `for_rows`.
            unsafe {
                us.with_row(i, &mut scattered, |u| {
                    vs.with_row(i, &mut scattered2, |v| each(row, u, v));
                });
            }
        }
    });
    Ok(())
}

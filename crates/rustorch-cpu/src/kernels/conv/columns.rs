//! The im2col matrix, never stored as a whole: one row per channel and tap, one column per output position.

use super::geometry::{Geometry, Offset, Segment};
use crate::kernels::matmul::Scalar;
use crate::simd::{self, Level, Task, prefetch_l2};
use std::marker::PhantomData;
use std::ops::Range;

/// Elements to read, wherever a geometry says.
#[derive(Clone, Copy)]
pub(super) struct Source<'a, E> {
    base: *const E,
    life: PhantomData<&'a E>,
}

// SAFETY: like a shared slice.
unsafe impl<E: Sync> Sync for Source<'_, E> {}

impl<E> Source<'_, E> {
    /// # Safety
    /// Every element that the geometries used with it reach from `base` is valid and unchanging for the lifetime.
    pub(super) unsafe fn new<'a>(base: *const E) -> Source<'a, E> {
        Source { base, life: PhantomData }
    }

    /// The first element.
    #[inline(always)]
    pub(super) fn base(&self) -> *const E {
        self.base
    }
}

/// Rows `rows` of the matrix (channel by channel, tap by tap) in panels of the columns that `segments` describe. In a panel they are
/// written `pitch` apart; what lies outside the source, and from the last column to `pitch`, is zero. A row is read for all panels before
/// the next one: neighbouring panels are neighbours in the source, too.
pub(super) struct Gather<'a, E> {
    pub(super) geometry: &'a Geometry,
    pub(super) taps: &'a [Offset],
    /// Of each panel.
    pub(super) segments: &'a [Vec<Segment>],
    pub(super) source: Source<'a, E>,
    pub(super) group: usize,
    pub(super) rows: Range<usize>,
    pub(super) pitch: usize,
    /// Where the first panel goes; each of the others begins where the rows of the one before end.
    pub(super) to: *mut E,
}

impl<E: Scalar> Gather<'_, E> {
    /// # Safety
    /// `rows.len() * pitch` elements for each panel can be written from `to`, and segments have at most `pitch` columns; the source
    /// has the elements of the geometry.
    pub(super) unsafe fn run(self) {
        simd::run(self);
    }
}

impl<E: Scalar> Task for Gather<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Gather { geometry, taps, segments, source, group, rows, pitch, to } = self;
        if taps.is_empty() {
            return;
        }
        let step = geometry.axes[2].step * geometry.axes[2].source_stride;
        let offsets: Vec<isize> = taps.iter().map(|tap| offset(geometry, tap.source)).collect();
        let reach: [(isize, isize); 3] = std::array::from_fn(|axis| {
            let seen = taps.iter().map(|tap| tap.source[axis]);
            seen.fold((isize::MAX, isize::MIN), |(first, last), at| (first.min(at), last.max(at)))
        });
        // Where runs begin of which every tap sees positions that exist.
        let places: Vec<Vec<Option<isize>>> = segments
            .iter()
            .map(|segments| segments.iter().map(|segment| whole(geometry, segment, &reach)).collect())
            .collect();
        let (mut channel, mut tap) = (rows.start / taps.len(), rows.start % taps.len());
        let ahead = ROWS_AHEAD.div_ceil(taps.len()) * geometry.source.channel;
        for row in 0..rows.len() {
            // Neighbouring taps see the same lines.
            let ahead = (tap == taps.len() / 2).then_some(ahead);
            let from =
                source.base.wrapping_add(group * geometry.source.group + channel * geometry.source.channel);
            for (panel, (segments, places)) in segments.iter().zip(&places).enumerate() {
                let used = segments.last().map_or(0, |segment| segment.lane + segment.len);
                // SAFETY: by the contract of `run`; lines are read only inside the source.
                unsafe {
                    let to = to.add((panel * rows.len() + row) * pitch);
                    for (segment, place) in segments.iter().zip(places) {
                        let to = to.add(segment.lane);
                        match place {
                            Some(place) => {
                                let from = from.wrapping_offset(place + offsets[tap]);
                                copy_ahead(from, step, ahead, to, segment.len);
                            }
                            None => gather(geometry, &taps[tap], segment, from, ahead, to),
                        }
                    }
                    zero(to.add(used), pitch - used);
                }
            }
            tap += 1;
            if tap == taps.len() {
                (channel, tap) = (channel + 1, 0);
            }
        }
    }
}

/// Rows ahead of which memory is asked for elements: those of another channel are in other pages, which hardware does not guess.
const ROWS_AHEAD: usize = 4;

/// What one tap shows to a run of results; what it shows so many elements ahead is asked for.
///
/// # Safety
/// `from` is the channel of the first image in a source that has the elements of the geometry; there is room for the run.
#[inline(always)]
pub(super) unsafe fn gather<E: Scalar>(
    geometry: &Geometry,
    tap: &Offset,
    segment: &Segment,
    from: *const E,
    ahead: Option<usize>,
    to: *mut E,
) {
    // SAFETY: this function's contract.
    unsafe {
        let Some((line, seen)) = line(geometry, tap, segment) else { return zero(to, segment.len) };
        zero(to, seen.start);
        zero(to.add(seen.end), segment.len - seen.end);
        if seen.is_empty() {
            return;
        }
        let axis = &geometry.axes[2];
        let first = segment.at[2] + tap.source[2] + (seen.start * axis.step) as isize;
        let from = from.add(line + first as usize * axis.source_stride);
        copy_ahead(from, axis.step * axis.source_stride, ahead, to.add(seen.start), seen.len());
    }
}

/// Elements of the source from the first position of an image to one.
fn offset(geometry: &Geometry, at: [isize; 3]) -> isize {
    at.iter().zip(&geometry.axes).map(|(at, axis)| at * axis.source_stride as isize).sum()
}

/// Where the source has what a tap at position zero shows to a run of results, if it has what taps show that reach so far along each axis.
fn whole(geometry: &Geometry, segment: &Segment, reach: &[(isize, isize); 3]) -> Option<isize> {
    let run = ((segment.len - 1) * geometry.axes[2].step) as isize;
    let exists = |axis: usize| {
        let (first, last) = reach[axis];
        let end = segment.at[axis] + last + if axis == 2 { run } else { 0 };
        segment.at[axis] + first >= 0 && end < geometry.axes[axis].len as isize
    };
    (0..3).all(exists).then(|| segment.image as isize + offset(geometry, segment.at))
}

/// [`copy`]; what stands `ahead` is asked for.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn copy_ahead<E: Copy>(from: *const E, step: usize, ahead: Option<usize>, to: *mut E, n: usize) {
    if let Some(ahead) = ahead {
        for i in (0..n).step_by(64 / size_of::<E>()) {
            prefetch_l2(from.wrapping_add(ahead + i * step));
        }
    }
    // SAFETY: this function's contract.
    unsafe { copy(from, step, to, n) }
}

/// Where the line of the source that a tap shows to a run of results begins, from the channel of the first image, and
/// which of the results see a position that exists; `None` if there is no such line.
#[inline(always)]
pub(super) fn line(geometry: &Geometry, tap: &Offset, segment: &Segment) -> Option<(usize, Range<usize>)> {
    let [a, b, c] = &geometry.axes;
    let (z, y) = (segment.at[0] + tap.source[0], segment.at[1] + tap.source[1]);
    // Negative positions are large ones.
    if z as usize >= a.len || y as usize >= b.len {
        return None;
    }
    let start = segment.image + z as usize * a.source_stride + y as usize * b.source_stride;
    let x = segment.at[2] + tap.source[2];
    let last = x + ((segment.len - 1) * c.step) as isize;
    if x >= 0 && (last as usize) < c.len {
        return Some((start, 0..segment.len));
    }
    let below = if x < 0 { x.unsigned_abs().div_ceil(c.step) } else { 0 };
    let end = (c.len as isize - x).max(0) as usize;
    let end = end.div_ceil(c.step).min(segment.len);
    Some((start, below.min(end)..end))
}

/// # Safety
/// `n` elements can be written.
#[inline(always)]
unsafe fn zero<E: Scalar>(to: *mut E, n: usize) {
    for i in 0..n {
        // SAFETY: this function's contract.
        unsafe { to.add(i).write(E::ZERO) };
    }
}

/// `n` elements that are `step` apart, made contiguous.
///
/// # Safety
/// They can be read and written.
#[inline(always)]
unsafe fn copy<E: Copy>(from: *const E, step: usize, to: *mut E, n: usize) {
    // SAFETY: this function's contract.
    unsafe {
        let mut i = 0;
        if step == 1 {
            /// `N` elements at a place of both.
            #[inline(always)]
            unsafe fn block<E: Copy, const N: usize>(from: *const E, to: *mut E, at: usize) {
                // SAFETY: the caller's contract.
                unsafe {
                    to.add(at)
                        .cast::<[E; N]>()
                        .write_unaligned(from.add(at).cast::<[E; N]>().read_unaligned())
                };
            }
            while i + 16 <= n {
                block::<E, 16>(from, to, i);
                i += 16;
            }
            // The last blocks overlap those before them.
            match n - i {
                0 => return,
                _ if n >= 16 => return block::<E, 16>(from, to, n - 16),
                8.. => {
                    block::<E, 8>(from, to, 0);
                    return block::<E, 8>(from, to, n - 8);
                }
                4.. => {
                    block::<E, 4>(from, to, 0);
                    return block::<E, 4>(from, to, n - 4);
                }
                _ => {}
            }
        } else if step == 2 {
            match n {
                17.. => return every_other::<E, 16>(from, to, n),
                9.. => return every_other::<E, 8>(from, to, n),
                5.. => return every_other::<E, 4>(from, to, n),
                _ => {}
            }
        }
        while i < n {
            to.add(i).write(*from.add(i * step));
            i += 1;
        }
    }
}

/// `n` elements, more than `N`, with one between each two that stays where it is.
///
/// # Safety
/// As of [`copy`] with a step of 2.
#[inline(always)]
unsafe fn every_other<E: Copy, const N: usize>(from: *const E, to: *mut E, n: usize) {
    // SAFETY: the caller's contract; no vector begins before the first element or ends behind the last.
    unsafe {
        for i in (0..n - N).step_by(N) {
            let pairs = from.add(2 * i).cast::<[[E; 2]; N]>().read_unaligned();
            to.add(i).cast::<[E; N]>().write_unaligned(pairs.map(|[first, _]| first));
        }
        let pairs = from.add(2 * (n - N) - 1).cast::<[[E; 2]; N]>().read_unaligned();
        to.add(n - N).cast::<[E; N]>().write_unaligned(pairs.map(|[_, second]| second));
    }
}

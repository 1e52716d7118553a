//! Direct convolution without packing, for few output channels per group: depthwise convolutions above all.

use super::columns::{Source, line};
use super::gemm::ConvOutput;
use super::geometry::{Geometry, Offset, Segment};
use super::number::Number;
use crate::ThreadPool;
use crate::kernels::matmul::Scalar;
use crate::simd::{self, Level, Task};
use std::ops::Range;

/// Rows of a group up to which this is the faster way.
pub(super) const MOST_ROWS: usize = 2;
/// Results at a time: their sums stay in the first-level cache.
const RUN: usize = 1024;
/// Multiplications worth claiming for a thread.
const GRAIN: usize = 100_000;

/// Computes every result of a geometry.
///
/// # Safety
/// The source and the kernel have the elements that the geometry describes; the results are the caller's alone.
pub(super) unsafe fn run<T: Number>(
    pool: &ThreadPool,
    geometry: &Geometry,
    source: Source<'_, T::Sum>,
    kernel: Source<'_, T::Sum>,
    results: &ConvOutput<'_, T>,
) {
    let taps = geometry.taps();
    let all = geometry.images * geometry.positions();
    let runs = all.div_ceil(RUN);
    let rows = geometry.groups * geometry.rows;
    let cost = (geometry.channels * taps.len()).max(1) * RUN.min(all);
    pool.ranges(rows * runs, GRAIN / cost.max(1), |units| {
        let mut segments = Vec::new();
        let mut sums = vec![T::Sum::ZERO; RUN.min(all)];
        let mut rounded = vec![T::BLANK; RUN.min(all)];
        for unit in units {
            let (row, start) = (unit / runs, unit % runs * RUN);
            let (group, row) = (row / geometry.rows, row % geometry.rows);
            let end = all.min(start + RUN);
            geometry.segments(start..end, &mut segments);
            let sums = &mut sums[..end - start];
            sums.fill(T::Sum::ZERO);
            simd::run(Taps::<T> {
                geometry,
                taps: &taps,
                segments: &segments,
                source,
                kernel,
                group,
                row,
                sums,
            });
            // SAFETY: units are disjoint in results; and this function's contract.
            unsafe { results.put(geometry, (group, row), &segments, sums, &mut rounded) };
        }
    });
}

/// Results whose sums are in registers together.
const LANES: usize = 16;

/// Sums what every channel and tap shows to runs of results. Made only by [`run`], whose contract it relies on.
struct Taps<'a, T: Number> {
    geometry: &'a Geometry,
    taps: &'a [Offset],
    segments: &'a [Segment],
    source: Source<'a, T::Sum>,
    kernel: Source<'a, T::Sum>,
    group: usize,
    row: usize,
    /// Zeros to begin with.
    sums: &'a mut [T::Sum],
}

/// A tap, and what it shows to a run of results.
struct Seen<E> {
    weight: E,
    /// Where the source's line begins, in elements.
    line: usize,
    /// The position in it that the first result of the run sees.
    first: isize,
    /// Those of the run that see a position that exists.
    results: Range<usize>,
}

impl<T: Number> Task for Taps<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let step = self.geometry.axes[2].step * self.geometry.axes[2].source_stride;
        let mut seen = Vec::with_capacity(self.geometry.channels * self.taps.len());
        for segment in self.segments {
            self.see(segment, &mut seen);
            let sums = &mut self.sums[segment.lane..segment.lane + segment.len];
            // Where every tap sees something, sums stay in registers.
            let start = seen.iter().map(|tap| tap.results.start).max().unwrap_or(0);
            let end = seen.iter().map(|tap| tap.results.end).min().unwrap_or(0);
            let inner = if step == 1 && end >= start + LANES { start..end } else { 0..0 };
            let mut at = inner.start;
            while at < inner.end {
                // The last block overlaps the one before it.
                at = at.min(inner.end - LANES);
                let mut lanes = [T::Sum::ZERO; LANES];
                for tap in &seen {
                    let from = tap.line.wrapping_add_signed(tap.first + at as isize);
                    // SAFETY: `LANES` positions that exist, by the contract of `run`.
                    let x =
                        unsafe { self.source.base().add(from).cast::<[T::Sum; LANES]>().read_unaligned() };
                    for i in 0..LANES {
                        lanes[i] = T::multiply_add(l, lanes[i], x[i], tap.weight);
                    }
                }
                sums[at..at + LANES].copy_from_slice(&lanes);
                at += LANES;
            }
            for tap in &seen {
                for outer in [0..inner.start, inner.end..segment.len] {
                    let some = outer.start.max(tap.results.start)..outer.end.min(tap.results.end);
                    if some.is_empty() {
                        continue;
                    }
                    let position = tap.first + (some.start * self.geometry.axes[2].step) as isize;
                    let from = tap.line + position as usize * self.geometry.axes[2].source_stride;
                    let sums = &mut sums[some];
                    // SAFETY: positions that exist, by the contract of `run`.
                    unsafe {
                        let from = self.source.base().add(from);
                        if step == 1 {
                            let from = std::slice::from_raw_parts(from, sums.len());
                            for (sum, &x) in sums.iter_mut().zip(from) {
                                *sum = T::multiply_add(l, *sum, x, tap.weight);
                            }
                        } else {
                            for (i, sum) in sums.iter_mut().enumerate() {
                                *sum = T::multiply_add(l, *sum, *from.add(i * step), tap.weight);
                            }
                        }
                    }
                }
            }
        }
    }
}

impl<T: Number> Taps<'_, T> {
    /// What every channel and tap shows to a run of results, but for those that show nothing.
    #[inline(always)]
    fn see(&self, segment: &Segment, seen: &mut Vec<Seen<T::Sum>>) {
        let Taps { geometry, group, .. } = *self;
        seen.clear();
        for channel in 0..geometry.channels {
            let source = group * geometry.source.group + channel * geometry.source.channel;
            let kernel = group * geometry.kernel.group
                + self.row * geometry.kernel.image
                + channel * geometry.kernel.channel;
            for tap in self.taps {
                let Some((start, results)) = line(geometry, tap, segment) else { continue };
                if results.is_empty() {
                    continue;
                }
                seen.push(Seen {
                    // SAFETY: the kernel has the tap, by the contract of `run`.
                    weight: unsafe { *self.kernel.base().add(kernel + tap.kernel) },
                    line: source + start,
                    first: segment.at[2] + tap.source[2],
                    results,
                });
            }
        }
    }
}

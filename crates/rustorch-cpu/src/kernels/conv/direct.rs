//! Sums over taps without packing, for so few rows that nobody would use the packed columns twice: depthwise
//! convolutions above all.

use super::columns::{Source, line};
use super::geometry::{Geometry, Offset, Segment};
use super::number::Number;
use super::product::Results;
use crate::Pool;
use crate::kernels::matmul::Scalar;
use crate::simd::{self, Level, Task};

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
    pool: &Pool,
    geometry: &Geometry,
    source: Source<'_, T::Sum>,
    kernel: Source<'_, T::Sum>,
    results: &Results<'_, T>,
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
            simd::run(Taps { geometry, taps: &taps, segments: &segments, source, kernel, group, row, sums });
            // SAFETY: units are disjoint in results; and this function's contract.
            unsafe { results.put(geometry, (group, row), &segments, sums, &mut rounded) };
        }
    });
}

/// Adds what every channel and tap shows to runs of results. Made only by [`run`], whose contract it relies on.
struct Taps<'a, E> {
    geometry: &'a Geometry,
    taps: &'a [Offset],
    segments: &'a [Segment],
    source: Source<'a, E>,
    kernel: Source<'a, E>,
    group: usize,
    row: usize,
    sums: &'a mut [E],
}

impl<E: Scalar> Task for Taps<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Taps { geometry, taps, segments, source, kernel, group, row, sums } = self;
        let step = geometry.axes[2].step * geometry.axes[2].source_stride;
        for segment in segments {
            let sums = &mut sums[segment.lane..segment.lane + segment.len];
            for channel in 0..geometry.channels {
                let channel_start = group * geometry.source.group + channel * geometry.source.channel;
                let kernel_start = group * geometry.kernel.group
                    + row * geometry.kernel.image
                    + channel * geometry.kernel.channel;
                for tap in taps {
                    let Some((start, seen)) = line(geometry, tap, segment) else { continue };
                    if seen.is_empty() {
                        continue;
                    }
                    // SAFETY: lines are read only inside the source, and the kernel has the tap, by the contract of `run`.
                    unsafe {
                        let weight = *kernel.base().add(kernel_start + tap.kernel);
                        let first =
                            segment.at[2] + tap.source[2] + (seen.start * geometry.axes[2].step) as isize;
                        let from = source
                            .base()
                            .add(channel_start + start + first as usize * geometry.axes[2].source_stride);
                        let sums = &mut sums[seen];
                        if step == 1 {
                            let from = std::slice::from_raw_parts(from, sums.len());
                            for (sum, &x) in sums.iter_mut().zip(from) {
                                *sum = E::add_product(*sum, x, weight);
                            }
                        } else {
                            for (i, sum) in sums.iter_mut().enumerate() {
                                *sum = E::add_product(*sum, *from.add(i * step), weight);
                            }
                        }
                    }
                }
            }
        }
    }
}

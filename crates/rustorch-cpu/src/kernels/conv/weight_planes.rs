//! The gradient with respect to the weight by whole planes: without stride, what a tap shows to the results of a plane, one after the other, is a
//! run of the padded source. So every element of the gradient is a dot product of two runs, and nothing is gathered or packed.

use super::columns::Source;
use super::geometry::{Axis, Geometry};
use super::number::{Number, Room};
use super::weight::Gradient;
use crate::ThreadPool;
use crate::kernels::matmul::{Parts, Scalar};
use crate::simd::{self, LANES, Level, Task};
use rustorch_core::Fault;
use std::any::TypeId;

/// Positions of a plane for which adding up lanes at its end takes little of the time.
const LEAST_RUN: usize = 512;
/// Channels for threads to divide among themselves.
const LEAST_CHANNELS: usize = 8;
/// Elements of the results' gradient that stay in the second-level cache while channels pass by.
const BAND: usize = 1 << 18;
/// Elements that make a thread worth its while.
const GRAIN: usize = 1 << 15;

/// Whether a geometry suits: every tap of many results in long lines, in `f32`, on a CPU that fuses products, as dot products do.
pub(super) fn suits<T: Number>(geometry: &Geometry) -> bool {
    let axes = &geometry.axes;
    let lens = axes.each_ref().map(|axis| {
        let (before, after) = axis.margins();
        axis.len.saturating_add(before).saturating_add(after)
    });
    let taps: usize = axes.iter().map(Axis::taps).product();
    // Positions between the lines' ends count as results.
    let run = (axes[0].results * axes[1].results).saturating_mul(lens[2]);
    simd::fuses()
        && TypeId::of::<T::Sum>() == TypeId::of::<f32>()
        && axes.iter().all(|axis| axis.step == 1)
        && taps > 1
        && run >= LEAST_RUN
        && 4 * axes[2].results >= 3 * lens[2]
        && 4 * axes[1].results >= 3 * lens[1]
        && geometry.groups * geometry.channels >= LEAST_CHANNELS
}

/// As [`weight::run`](super::weight::run), of a geometry that [`suits`], padded.
///
/// # Safety
/// As there; every tap of every result sees an element of the contiguous source, behind whose end there are `LANES` more.
pub(super) unsafe fn run<T: Number>(
    pool: &ThreadPool,
    geometry: &Geometry,
    x: Source<'_, T::Sum>,
    dy: Source<'_, T::Sum>,
    gradient: &Gradient<'_, T>,
) -> Result<(), Fault> {
    let [a, b, c] = &geometry.axes;
    let (rows, channels) = (geometry.rows, geometry.channels);
    let taps = geometry.taps();
    let offsets: Vec<usize> = taps
        .iter()
        .map(|tap| {
            let [z, y, x] = tap.source.map(|at| at as usize);
            z * a.source_stride + y * b.source_stride + x
        })
        .collect();
    let run = (a.results - 1) * a.source_stride + (b.results - 1) * b.source_stride + c.results;
    let run = run.next_multiple_of(LANES);
    let mut spread = Room::<T::Sum>::new(geometry.images * geometry.groups * rows * run)?;
    let spread = spread.elements()?;
    // SAFETY: this function's contract.
    unsafe { spread_results::<T>(pool, geometry, dy, run, spread) };
    let spread: &[T::Sum] = spread;

    let band = (BAND / rows).next_multiple_of(LANES).max(4 * LEAST_RUN);
    let units = geometry.groups * channels;
    pool.ranges(units, units.div_ceil(2 * pool.threads()), |range| {
        let mut totals = vec![T::Sum::ZERO; range.len() * rows * taps.len()];
        for image in 0..geometry.images {
            for begin in (0..run).step_by(band) {
                for (unit, totals) in range.clone().zip(totals.chunks_exact_mut(rows * taps.len())) {
                    let (group, channel) = (unit / channels, unit % channels);
                    let steps = &geometry.source;
                    let first = image * steps.image + group * steps.group + channel * steps.channel + begin;
                    let dy = &spread[(image * geometry.groups + group) * rows * run + begin..];
                    simd::run(Products {
                        axes: &geometry.axes,
                        begin,
                        len: band.min(run - begin),
                        x: x.base().wrapping_add(first).cast(),
                        dy: dy.as_ptr().cast(),
                        pitch: run,
                        rows,
                        offsets: &offsets,
                        totals: totals.as_mut_ptr().cast(),
                    });
                }
            }
        }
        let mut rounded = vec![T::BLANK; taps.len()];
        for (unit, totals) in range.zip(totals.chunks_exact(rows * taps.len())) {
            let (group, channel) = (unit / channels, unit % channels);
            for (row, totals) in totals.chunks_exact(taps.len()).enumerate() {
                // SAFETY: ranges are disjoint in channels; and this function's contract.
                unsafe { gradient.put(geometry, (group, row), channel * taps.len(), totals, &mut rounded) };
            }
        }
    });
    Ok(())
}

/// Copies the gradient of the results to where the first tap sees what belongs to it, with zeros in between: `[images][groups][rows][run]`.
///
/// # Safety
/// `dy` has the elements of the geometry's results.
unsafe fn spread_results<T: Number>(
    pool: &ThreadPool,
    geometry: &Geometry,
    dy: Source<'_, T::Sum>,
    run: usize,
    to: &mut [T::Sum],
) {
    let ([a, b, c], rows) = (&geometry.axes, geometry.rows);
    let all = geometry.groups * rows;
    let parts = Parts::new(to.as_mut_ptr());
    pool.ranges(geometry.images * all, (GRAIN / run).max(1), |range| {
        for i in range {
            let (image, group, row) = (i / all, i % all / rows, i % rows);
            let steps = &geometry.result;
            let first = geometry.first + image * steps.image + group * steps.group + row * steps.channel;
            // SAFETY: each row has a part of its own.
            let to = unsafe { parts.part(i * run, run) };
            to.fill(T::Sum::ZERO);
            for z in 0..a.results {
                for y in 0..b.results {
                    let line = &mut to[z * a.source_stride + y * b.source_stride..][..c.results];
                    let from = first + z * a.result_stride + y * b.result_stride;
                    // SAFETY: elements of the results, by this function's contract.
                    unsafe {
                        let from = dy.base().add(from);
                        if c.result_stride == 1 {
                            line.copy_from_slice(std::slice::from_raw_parts(from, c.results));
                        } else {
                            for (j, to) in line.iter_mut().enumerate() {
                                *to = *from.add(j * c.result_stride);
                            }
                        }
                    }
                }
            }
        }
    });
}

/// Adds the products of a channel's plane with those of all rows, or of a band of them. Made only by [`run`], whose contract it relies on.
struct Products<'a> {
    axes: &'a [Axis; 3],
    /// The first position of the band, and how many it has: a multiple of `LANES`.
    begin: usize,
    len: usize,
    /// What the first tap shows to it.
    x: *const f32,
    /// The first row there, and elements from row to row.
    dy: *const f32,
    pitch: usize,
    rows: usize,
    /// Where each tap sees it.
    offsets: &'a [usize],
    /// `[rows][taps]`
    totals: *mut f32,
}

impl Task for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let last = self.offsets.iter().max().copied().unwrap_or(0);
        // SAFETY: the contract of `run`.
        let seen = unsafe { std::slice::from_raw_parts(self.x, self.len + last) };
        // Between lines zeros are multiplied with what stands there.
        let largest = seen.iter().fold(0, |largest, x| (x.to_bits() & !(1 << 31)).max(largest));
        if largest >= f32::INFINITY.to_bits() {
            return self.one_by_one(l);
        }
        let (mut row, most_rows) = (0, if L::WIDE { 3 } else { 2 });
        while row < self.rows {
            let rows = most_rows.min(self.rows - row);
            let mut tap = 0;
            while tap < self.offsets.len() {
                let taps = match self.offsets.len() - tap {
                    9.. if L::WIDE => 9,
                    3.. => 3,
                    _ => 1,
                };
                match (rows, taps) {
                    (3, 9) => self.tile::<L, 3, 9>(l, row, tap),
                    (3, 3) => self.tile::<L, 3, 3>(l, row, tap),
                    (3, _) => self.tile::<L, 3, 1>(l, row, tap),
                    (2, 9) => self.tile::<L, 2, 9>(l, row, tap),
                    (2, 3) => self.tile::<L, 2, 3>(l, row, tap),
                    (2, _) => self.tile::<L, 2, 1>(l, row, tap),
                    (_, 9) => self.tile::<L, 1, 9>(l, row, tap),
                    (_, 3) => self.tile::<L, 1, 3>(l, row, tap),
                    _ => self.tile::<L, 1, 1>(l, row, tap),
                }
                tap += taps;
            }
            row += rows;
        }
    }
}

impl Products<'_> {
    /// `H` rows with `V` taps, whose sums are in registers.
    #[inline(always)]
    fn tile<L: Level, const H: usize, const V: usize>(&self, l: L, row: usize, tap: usize) {
        let dy: [*const f32; H] = std::array::from_fn(|i| self.dy.wrapping_add((row + i) * self.pitch));
        let x: [*const f32; V] = std::array::from_fn(|v| self.x.wrapping_add(self.offsets[tap + v]));
        let mut sums = [[l.splat(0.0); V]; H];
        for at in (0..self.len).step_by(LANES) {
            let mut left = [l.splat(0.0); H];
            for i in 0..H {
                // SAFETY: the contract of `run`; so many elements of the row are there.
                left[i] = l.load(unsafe { &*dy[i].add(at).cast() });
            }
            for v in 0..V {
                // SAFETY: the contract of `run`: the tap sees them.
                let right = l.load(unsafe { &*x[v].add(at).cast() });
                for i in 0..H {
                    sums[i][v] = l.mul_add(right, left[i], sums[i][v]);
                }
            }
        }
        let mut lanes = [[[0.0; LANES]; V]; H];
        for i in 0..H {
            for v in 0..V {
                l.store(sums[i][v], &mut lanes[i][v]);
            }
        }
        for (i, lanes) in lanes.iter().enumerate() {
            for (from, lanes) in (0..).step_by(4).zip(lanes.chunks(4)) {
                let four = std::array::from_fn(|j| l.load(&lanes[j.min(lanes.len() - 1)]));
                for (v, sum) in (from..).zip(l.sum4(four)).take(lanes.len()) {
                    // SAFETY: this task's own element.
                    unsafe { *self.totals.add((row + i) * self.offsets.len() + tap + v) += sum };
                }
            }
        }
    }

    /// Whether there is a result at a position of the band.
    fn has_result(&self, at: usize) -> bool {
        let [a, b, c] = self.axes;
        let at = self.begin + at;
        let (plane, rest) = (at / a.source_stride, at % a.source_stride);
        plane < a.results && rest / b.source_stride < b.results && rest % b.source_stride < c.results
    }

    /// For a source with infinities or NaN: products of results alone.
    fn one_by_one<L: Level>(&self, l: L) {
        let results: Vec<usize> = (0..self.len).filter(|&at| self.has_result(at)).collect();
        for row in 0..self.rows {
            for (tap, &offset) in self.offsets.iter().enumerate() {
                let product = |sum, &at: &usize| {
                    // SAFETY: the contract of `run`.
                    let (x, dy) = unsafe { (*self.x.add(offset + at), *self.dy.add(row * self.pitch + at)) };
                    l.fma(x, dy, sum)
                };
                let sum = results.iter().fold(0.0, product);
                // SAFETY: this task's own element.
                unsafe { *self.totals.add(row * self.offsets.len() + tap) += sum };
            }
        }
    }
}

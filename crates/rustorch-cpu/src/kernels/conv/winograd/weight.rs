//! The gradient with respect to the kernel: at each point, a transformed kernel's gradient is a sum over tiles of products of the squares with
//! the tiles of the results' gradient, transformed; it is transformed back once.

use super::super::columns::Source;
use super::super::geometry::Geometry;
use super::super::number::Number;
use super::super::weight::Gradient;
use super::block::Block;
use super::squares::Squares;
use super::{GRAIN, POINTS, SQUARE, all_tiles, load, store};
use crate::ThreadPool;
use crate::kernels::matmul::with_scratch;
use crate::simd::{self, LANES, Level, Task};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tiles that are transformed together: of each row and channel a dot product of so many. What is transformed stays in the second-level
/// cache.
const COLUMNS: usize = 256;
/// Rows and channels of a unit of work.
const UNIT: [usize; 2] = [64, 32];
/// What adding up lanes and transforming back costs, of each row and channel, in products.
const SUMS: usize = 2500;
/// Positions of lines that the squares of the most neighbouring tiles see, and what vectors read behind them.
const WIDTH: usize = 2 * COLUMNS + 3 * LANES;

/// Whether this is the faster way for a geometry of `T`.
pub(in super::super) fn suits<T: Number>(geometry: &Geometry) -> bool {
    let (rows, channels, tiles) = (geometry.rows, geometry.channels, all_tiles(geometry));
    let kernels = rows.saturating_mul(channels);
    let transformed = rows * channels.div_ceil(UNIT[1]) + channels * rows.div_ceil(UNIT[0]);
    let sums = SUMS * tiles.div_ceil(COLUMNS);
    let cost = kernels.saturating_mul(POINTS * tiles + sums).saturating_add(SQUARE * tiles * transformed);
    simd::fuses()
        && super::has_squares::<T>(geometry)
        && geometry.axes.iter().all(|axis| axis.ascends())
        && cost < kernels.saturating_mul(9 * geometry.images * geometry.positions())
}

/// Writes the gradient with respect to the kernel of a geometry that [`suits`], if all of it is finite, and returns whether it is.
///
/// # Safety
/// `x` has the elements of the geometry's source, `dy` those of its results; the gradient is the caller's alone.
pub(in super::super) unsafe fn run<T: Number>(
    pool: &ThreadPool,
    geometry: &Geometry,
    x: Source<'_, T::Sum>,
    dy: Source<'_, T::Sum>,
    gradient: &Gradient<'_, T>,
) -> bool {
    let (rows, channels, all) = (geometry.rows, geometry.channels, all_tiles(geometry));
    let (down, along) = (rows.div_ceil(UNIT[0]), channels.div_ceil(UNIT[1]));
    let cost = (UNIT[0].min(rows) * UNIT[1].min(channels) * POINTS * all).max(1);
    let is_finite = AtomicBool::new(true);
    pool.ranges(geometry.groups * down * along, GRAIN / cost, |units| {
        let mut block = Block::default();
        for unit in units {
            let (group, unit) = (unit / (down * along), unit % (down * along));
            let part = |i: usize, size: usize, all: usize| i * size..all.min((i + 1) * size);
            let rows = part(unit / along, UNIT[0], rows);
            let channels = part(unit % along, UNIT[1], channels);
            // Vectors of the last tiles reach into the next row, and those of the last row into what is behind it.
            let shown = [rows.len(), channels.len()].map(|count| count * COLUMNS + LANES);
            let sums = rows.len() * channels.len();
            with_scratch::<f32>(POINTS * (shown[0] + shown[1] + sums), |scratch| {
                // SAFETY: the scratch has room for all; sums are `f32` where a geometry suits; units are disjoint in the gradient; and this
                // function's contract.
                unsafe {
                    let (left, right) = (scratch, scratch.add(POINTS * shown[0]));
                    let to = right.add(POINTS * shown[1]);
                    to.write_bytes(0, POINTS * sums);
                    for start in (0..all).step_by(COLUMNS) {
                        let tiles = start..all.min(start + COLUMNS);
                        let columns = tiles.len().next_multiple_of(LANES);
                        block.find(geometry, tiles, COLUMNS);
                        if block.is_partial {
                            scratch.write_bytes(0, POINTS * (shown[0] + shown[1]));
                        }
                        let from = x.base().cast::<f32>().wrapping_add(group * geometry.source.group);
                        simd::run(Squares::<WIDTH> {
                            geometry,
                            block: &block,
                            channels: channels.clone(),
                            columns: COLUMNS,
                            from,
                            to: right,
                            pitch: shown[1],
                        });
                        let from = dy.base().cast::<f32>().wrapping_add(group * geometry.result.group);
                        let ranged = rows.clone();
                        simd::run(Slopes {
                            geometry,
                            block: &block,
                            rows: ranged,
                            from,
                            to: left,
                            pitch: shown[0],
                        });
                        for point in 0..POINTS {
                            simd::run(Products {
                                left: left.add(point * shown[0]),
                                right: right.add(point * shown[1]),
                                size: [rows.len(), channels.len()],
                                columns,
                                to: to.add(point * sums),
                            });
                        }
                    }
                    let finite = simd::run(Kernels { geometry, group, rows, channels, from: to, gradient });
                    if !finite {
                        is_finite.store(false, Ordering::Relaxed);
                    }
                }
            });
            if !is_finite.load(Ordering::Relaxed) {
                return;
            }
        }
    });
    is_finite.into_inner()
}

/// Transforms the tiles of the results' gradient. Made only by [`run`], whose contract it relies on.
struct Slopes<'a> {
    geometry: &'a Geometry,
    block: &'a Block,
    rows: Range<usize>,
    /// The group's first row.
    from: *const f32,
    /// For each point `[rows][COLUMNS]`.
    to: *mut f32,
    /// From point to point.
    pitch: usize,
}

impl Task for Slopes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Slopes { geometry, block, rows, from, to, pitch } = self;
        let stride = geometry.axes[2].result_stride;
        let zero = l.splat(0.0);
        let mut lines = [[0.0f32; WIDTH]; 2];
        for (place, row) in rows.enumerate() {
            let from = from.wrapping_add(row * geometry.result.channel);
            let mut segments = block.segments.iter();
            for run in &block.runs {
                let width = 2 * run.len.next_multiple_of(LANES);
                for (k, line) in lines.iter_mut().enumerate() {
                    // Behind what exists there are zeros, which change no sum.
                    let seen = if k < run.down { segments.next() } else { None };
                    let line = line.as_mut_ptr();
                    let (len, from) =
                        seen.map_or((0, from), |seen| (seen.len, from.wrapping_add(seen.result)));
                    // SAFETY: results that exist; vectors begin within `width`, behind which the line has room for one.
                    unsafe {
                        if stride == 1 && len >= LANES {
                            for at in (0..len).step_by(LANES) {
                                let at = at.min(len - LANES);
                                store(l, load(l, from.add(at)), line.add(at));
                            }
                        } else {
                            for i in 0..len {
                                *line.add(i) = *from.add(i * stride);
                            }
                        }
                        for at in (len..width).step_by(LANES) {
                            store(l, zero, line.add(at));
                        }
                    }
                }
                for v in (0..run.len).step_by(LANES) {
                    // SAFETY: of what vectors write behind the run's tiles, the next run, the next row or nobody is the owner, and it is
                    // written later.
                    unsafe {
                        let to = to.add(place * COLUMNS + run.lane + v);
                        let [above, below] = [lines[0].as_ptr().add(2 * v), lines[1].as_ptr().add(2 * v)];
                        let above = l.even_odd(load(l, above), load(l, above.add(LANES)));
                        let below = l.even_odd(load(l, below), load(l, below.add(LANES)));
                        along(l, above, to, pitch);
                        let both = (l.add(above.0, below.0), l.add(above.1, below.1));
                        along(l, both, to.add(4 * pitch), pitch);
                        let difference = (l.sub(above.0, below.0), l.sub(above.1, below.1));
                        along(l, difference, to.add(8 * pitch), pitch);
                        let negative = (l.sub(zero, below.0), l.sub(zero, below.1));
                        along(l, negative, to.add(12 * pitch), pitch);
                    }
                }
            }
        }
    }
}

/// Transforms left and right of tiles, to four points.
///
/// # Safety
/// Vectors can be written to them.
#[inline(always)]
unsafe fn along<L: Level>(l: L, (left, right): (L::F, L::F), to: *mut f32, pitch: usize) {
    // SAFETY: this function's contract.
    unsafe {
        store(l, left, to);
        store(l, l.add(left, right), to.add(pitch));
        store(l, l.sub(left, right), to.add(2 * pitch));
        store(l, l.sub(l.splat(0.0), right), to.add(3 * pitch));
    }
}

/// Adds the dot products of all rows and channels at one point. Made only by [`run`], whose contract it relies on.
struct Products {
    /// `[rows][COLUMNS]`
    left: *const f32,
    /// `[channels][COLUMNS]`
    right: *const f32,
    /// Rows and channels.
    size: [usize; 2],
    /// A multiple of `LANES`.
    columns: usize,
    /// `[rows][channels]`
    to: *mut f32,
}

/// Channels whose sums are in registers together.
const ACROSS: usize = 4;

impl Task for Products {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let [rows, channels] = self.size;
        for channel in (0..channels).step_by(ACROSS) {
            let mut row = 0;
            while row < rows {
                row += match rows - row {
                    6.. if L::WIDE => self.tile::<L, 6>(l, row, channel),
                    2.. if L::WIDE => self.tile::<L, 2>(l, row, channel),
                    _ => self.tile::<L, 1>(l, row, channel),
                };
            }
        }
    }
}

impl Products {
    /// `H` rows with some channels; returns how many rows.
    #[inline(always)]
    fn tile<L: Level, const H: usize>(&self, l: L, row: usize, channel: usize) -> usize {
        let [_, channels] = self.size;
        let count = ACROSS.min(channels - channel);
        let left: [*const f32; H] = std::array::from_fn(|i| self.left.wrapping_add((row + i) * COLUMNS));
        // The last channels stand for those that are not there.
        let right: [*const f32; ACROSS] =
            std::array::from_fn(|v| self.right.wrapping_add((channel + v.min(count - 1)) * COLUMNS));
        let mut sums = [[l.splat(0.0); ACROSS]; H];
        for at in (0..self.columns).step_by(LANES) {
            let mut seen = [l.splat(0.0); ACROSS];
            for v in 0..ACROSS {
                // SAFETY: the contract of `run`; rows and channels have so many columns.
                seen[v] = unsafe { load(l, right[v].add(at)) };
            }
            for i in 0..H {
                // SAFETY: as above.
                let left = unsafe { load(l, left[i].add(at)) };
                for v in 0..ACROSS {
                    sums[i][v] = l.mul_add(seen[v], left, sums[i][v]);
                }
            }
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (v, sum) in l.sum4(sums).into_iter().enumerate().take(count) {
                // SAFETY: this unit's own element.
                unsafe { *self.to.add((row + i) * channels + channel + v) += sum };
            }
        }
        H
    }
}

/// Transforms the sums of all points back and writes them; returns whether all are finite. Made only by [`run`], whose contract it relies on.
struct Kernels<'a, 'b, T: Number> {
    geometry: &'a Geometry,
    group: usize,
    rows: Range<usize>,
    channels: Range<usize>,
    /// For each point `[rows][channels]`.
    from: *const f32,
    gradient: &'a Gradient<'b, T>,
}

impl<T: Number> Task for Kernels<'_, '_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> bool {
        let Kernels { geometry, group, rows, channels, from, gradient } = self;
        let count = channels.len();
        let pitch = rows.len() * count;
        let line = |[u0, u1, u2, u3]: [f32; 4]| {
            let [sum, difference] = [0.5 * (u1 + u2), 0.5 * (u1 - u2)];
            [u0 + sum, difference, sum + u3]
        };
        let mut totals = vec![0.0f32; 9 * count];
        let mut rounded = vec![T::BLANK; totals.len()];
        let mut zeros = 0.0;
        for (place, row) in rows.enumerate() {
            for (channel, totals) in totals.chunks_exact_mut(9).enumerate() {
                // SAFETY: this unit's own sums.
                let at = |point: usize| unsafe { *from.add(point * pitch + place * count + channel) };
                let down: [[f32; 3]; 4] =
                    std::array::from_fn(|j| line([at(j), at(4 + j), at(8 + j), at(12 + j)]));
                for i in 0..3 {
                    let along = line([down[0][i], down[1][i], down[2][i], down[3][i]]);
                    totals[3 * i..3 * i + 3].copy_from_slice(&along);
                    zeros += along.iter().sum::<f32>() * 0.0;
                }
            }
            // SAFETY: sums are `f32`; and by the contract of `run`.
            unsafe {
                let totals = std::slice::from_raw_parts(totals.as_ptr().cast::<T::Sum>(), totals.len());
                gradient.put(geometry, (group, row), 9 * channels.start, totals, &mut rounded);
            }
        }
        zeros == 0.0
    }
}

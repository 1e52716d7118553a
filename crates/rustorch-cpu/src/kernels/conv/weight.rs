//! The gradient with respect to the weight: matmuls of `dy` with the transposed matrix of columns, summed over images
//! and positions.

use super::columns::{Gather, Source, line};
use super::gemm::DEPTH;
use super::geometry::{Geometry, Offset, Segment};
use super::number::Number;
use crate::kernels::matmul::{self, HIGHEST, Scalar, pack_columns, with_scratch};
use crate::simd::{self, Level, Task};
use crate::{Isa, ThreadPool};
use std::marker::PhantomData;

/// Panels of columns in a block at most.
const MOST_PANELS: usize = 8;
/// Rows in a task at most: packed, they stay in the second-level cache.
const MOST_ROWS: usize = 240;

/// Where the gradient goes: an element for each row, channel and tap.
pub(super) struct Gradient<'a, T> {
    base: *mut T,
    /// Where the element of each channel and tap is, from the first of its row.
    columns: Vec<usize>,
    /// Whether they are contiguous.
    packed: bool,
    life: PhantomData<&'a mut T>,
}

// SAFETY: threads write disjoint elements.
unsafe impl<T: Send> Sync for Gradient<'_, T> {}

impl<T: Number> Gradient<'_, T> {
    /// The gradient with respect to the kernel of a geometry, from its first element on.
    pub(super) fn new<'a>(base: *mut T, geometry: &Geometry) -> Gradient<'a, T> {
        let taps = geometry.taps();
        let mut columns = Vec::with_capacity(geometry.channels * taps.len());
        for channel in 0..geometry.channels {
            columns.extend(taps.iter().map(|tap| channel * geometry.kernel.channel + tap.kernel));
        }
        let packed = columns.iter().enumerate().all(|(i, &column)| i == column);
        Gradient { base, columns, packed, life: PhantomData }
    }

    /// Writes the elements of a row from column `start` on.
    ///
    /// # Safety
    /// They exist, and no other thread uses them.
    pub(super) unsafe fn put(
        &self,
        geometry: &Geometry,
        (group, row): (usize, usize),
        start: usize,
        sums: &[T::Sum],
        rounded: &mut [T],
    ) {
        let rounded = &mut rounded[..sums.len()];
        T::round(sums, rounded);
        let first = group * geometry.kernel.group + row * geometry.kernel.image;
        let columns = &self.columns[start..start + rounded.len()];
        // SAFETY: this function's contract.
        unsafe {
            if self.packed {
                std::ptr::copy_nonoverlapping(rounded.as_ptr(), self.base.add(first + start), rounded.len());
            } else {
                for (&column, &value) in columns.iter().zip(rounded.iter()) {
                    self.base.add(first + column).write(value);
                }
            }
        }
    }
}

/// Computes the gradient with respect to the kernel of a geometry, from its source and the gradient of its results.
///
/// Sums run over chunks of positions, whose sums are added up: shorter chains round less.
///
/// # Safety
/// `x` has the elements of the geometry's source, `dy` those of its results; the gradient is the caller's alone.
pub(super) unsafe fn run<T: Number>(
    pool: &ThreadPool,
    geometry: &Geometry,
    x: Source<'_, T::Sum>,
    dy: Source<'_, T::Sum>,
    gradient: &Gradient<'_, T>,
) {
    let isa = Isa::detect();
    let tiles = T::Sum::tiles(isa);
    let columns = tiles.columns;
    let taps = geometry.taps();
    let wide = geometry.channels * taps.len();
    let rows = geometry.rows;
    let inner = geometry.images * geometry.positions();
    if wide == 0 || rows == 0 {
        return;
    }
    let across = wide.div_ceil(columns);
    let threads = pool.threads();
    let mut parts = rows.div_ceil(MOST_ROWS);
    let mut block = MOST_PANELS;
    if threads > 1 {
        block = block.min((across * geometry.groups).div_ceil(2 * threads)).max(1);
        let units = across.div_ceil(block) * geometry.groups;
        parts = parts.max(threads.div_ceil(units).min(rows.div_ceil(2 * tiles.most_rows())));
    }
    let blocks = across.div_ceil(block);
    pool.ranges(geometry.groups * blocks * parts, 1, |units| {
        let mut segments = Vec::new();
        let mut rounded = vec![T::BLANK; columns];
        for unit in units {
            let (group, rest) = (unit / (blocks * parts), unit % (blocks * parts));
            let (index, part) = (rest / parts, rest % parts);
            let (first, end) = (rows * part / parts, rows * (part + 1) / parts);
            let height = end - first;
            let count = block.min(across - index * block);
            let column = |i: usize| (index * block + i) * columns;
            let summed = count * height * columns;
            let gathered = columns * DEPTH;
            with_scratch::<T::Sum>(2 * summed + gathered * (count + 1) + height * DEPTH, |scratch| {
                // SAFETY: the scratch has room for all five; units are disjoint in results; and this function's contract.
                unsafe {
                    let (totals, sums) = (scratch, scratch.add(summed));
                    let lines = sums.add(summed);
                    let packed = lines.add(gathered);
                    let left = packed.add(gathered * count);
                    for i in 0..summed {
                        totals.add(i).write(T::Sum::ZERO);
                    }
                    for q in (0..inner).step_by(DEPTH) {
                        let depth = DEPTH.min(inner - q);
                        geometry.segments(q..q + depth, &mut segments);
                        for i in 0..count {
                            let n = columns.min(wide - column(i));
                            Gather {
                                geometry,
                                taps: &taps,
                                segments: std::slice::from_ref(&segments),
                                source: x,
                                group,
                                rows: column(i)..column(i) + n,
                                pitch: DEPTH,
                                to: lines,
                            }
                            .run();
                            let to = packed.add(i * gathered);
                            pack_columns::<T::Packed>(isa, lines, (depth, n), (1, DEPTH), columns, to);
                        }
                        for i in 0..summed {
                            sums.add(i).write(T::Sum::ZERO);
                        }
                        let mut row = 0;
                        while row < height {
                            let (tall, tile) = tiles.at_most(height - row);
                            let x = left.add(row * depth);
                            pack_rows::<T>(geometry, &segments, dy, (group, first + row), tall, x);
                            for i in 0..count {
                                let sums = sums.add((i * height + row) * columns);
                                tiles.accumulate(tile, depth, x, packed.add(i * gathered), sums);
                            }
                            row += tall;
                        }
                        for i in 0..summed {
                            *totals.add(i) = T::add(*totals.add(i), *sums.add(i));
                        }
                    }
                    for i in 0..count {
                        let n = columns.min(wide - column(i));
                        for row in 0..height {
                            let totals =
                                std::slice::from_raw_parts(totals.add((i * height + row) * columns), n);
                            gradient.put(geometry, (group, first + row), column(i), totals, &mut rounded);
                        }
                    }
                }
            });
        }
    });
}

/// The results in `segments` of `height` rows, as `[results][height]`.
///
/// # Safety
/// They can be read, and there is room for them.
unsafe fn pack_rows<T: Number>(
    geometry: &Geometry,
    segments: &[Segment],
    dy: Source<'_, T::Sum>,
    (group, row): (usize, usize),
    height: usize,
    to: *mut T::Sum,
) {
    let stride = geometry.axes[2].result_stride;
    for segment in segments {
        let first = group * geometry.result.group + segment.result;
        let rows: [*const T::Sum; HIGHEST] = std::array::from_fn(|i| {
            dy.base().wrapping_add(first + (row + i.min(height - 1)) * geometry.result.channel)
        });
        // SAFETY: this function's contract.
        unsafe {
            matmul::pack_rows::<T::Packed>(
                &rows[..height],
                segment.len,
                stride,
                to.add(segment.lane * height),
            );
        }
    }
}

/// Lanes in which direct sums run.
const LANES: usize = 16;
/// Results whose positions are found at a time.
const RUN: usize = 1024;

/// As [`run`], without packing, for so few rows that nobody would use the packed columns twice.
///
/// # Safety
/// As there.
pub(super) unsafe fn run_direct<T: Number>(
    pool: &ThreadPool,
    geometry: &Geometry,
    x: Source<'_, T::Sum>,
    dy: Source<'_, T::Sum>,
    gradient: &Gradient<'_, T>,
) {
    let taps = geometry.taps();
    let inner = geometry.images * geometry.positions();
    let (rows, channels) = (geometry.rows, geometry.channels);
    let cost = (inner * taps.len()).max(1);
    pool.ranges(geometry.groups * rows * channels, 100_000 / cost, |units| {
        let mut segments = Vec::new();
        let mut sums = vec![[T::Sum::ZERO; LANES]; taps.len()];
        let mut rounded = vec![T::BLANK; taps.len()];
        for unit in units {
            let (group, rest) = (unit / (rows * channels), unit % (rows * channels));
            let (row, channel) = (rest / channels, rest % channels);
            sums.fill([T::Sum::ZERO; LANES]);
            for q in (0..inner).step_by(RUN) {
                geometry.segments(q..inner.min(q + RUN), &mut segments);
                let (taps, segments, sums) = (&taps, &segments, &mut sums);
                simd::run(Dots::<T> { geometry, taps, segments, x, dy, group, row, channel, sums });
            }
            let totals: Vec<T::Sum> = sums.iter().map(|lanes| total::<T>(*lanes)).collect();
            // SAFETY: units are disjoint in results; and this function's contract.
            unsafe {
                gradient.put(geometry, (group, row), channel * taps.len(), &totals, &mut rounded);
            }
        }
    });
}

/// The sum of the lanes, 8, 4, 2 and 1 apart.
fn total<T: Number>(mut lanes: [T::Sum; LANES]) -> T::Sum {
    let mut half = LANES / 2;
    while half != 0 {
        for i in 0..half {
            lanes[i] = T::add(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// Adds the products of runs of `dy` with what each tap shows them. Made only by [`run_direct`], whose contract it relies
/// on.
struct Dots<'a, T: Number> {
    geometry: &'a Geometry,
    taps: &'a [Offset],
    segments: &'a [Segment],
    x: Source<'a, T::Sum>,
    dy: Source<'a, T::Sum>,
    group: usize,
    row: usize,
    channel: usize,
    sums: &'a mut [[T::Sum; LANES]],
}

impl<T: Number> Task for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Dots { geometry, taps, segments, x, dy, group, row, channel, sums } = self;
        let axis = &geometry.axes[2];
        let (x_step, dy_step) = (axis.step * axis.source_stride, axis.result_stride);
        let x_start = group * geometry.source.group + channel * geometry.source.channel;
        let dy_start = group * geometry.result.group + row * geometry.result.channel;
        for segment in segments {
            for (tap, sums) in taps.iter().zip(sums.iter_mut()) {
                let Some((start, seen)) = line(geometry, tap, segment) else { continue };
                if seen.is_empty() {
                    continue;
                }
                // SAFETY: lines are read only inside the source, and segments inside the results, by the contract of
                // `run_direct`.
                unsafe {
                    let first = segment.at[2] + tap.source[2] + (seen.start * axis.step) as isize;
                    let a = x.base().add(x_start + start + first as usize * axis.source_stride);
                    let b = dy.base().add(dy_start + segment.result + seen.start * dy_step);
                    let n = seen.len();
                    let mut i = 0;
                    if x_step == 1 && dy_step == 1 {
                        let mut lanes = *sums;
                        while i + LANES <= n {
                            let a = a.add(i).cast::<[T::Sum; LANES]>().read_unaligned();
                            let b = b.add(i).cast::<[T::Sum; LANES]>().read_unaligned();
                            for lane in 0..LANES {
                                lanes[lane] = T::multiply_add(l, lanes[lane], a[lane], b[lane]);
                            }
                            i += LANES;
                        }
                        *sums = lanes;
                    }
                    while i < n {
                        let sum = &mut sums[i % LANES];
                        *sum = T::multiply_add(l, *sum, *a.add(i * x_step), *b.add(i * dy_step));
                        i += 1;
                    }
                }
            }
        }
    }
}

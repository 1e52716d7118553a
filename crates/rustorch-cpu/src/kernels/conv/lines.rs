//! Convolution line by line, for few rows: results side by side see elements side by side, so that nothing is gathered.

use super::columns::Source;
use super::gemm::ConvOutput;
use super::geometry::{Geometry, Segment};
use super::number::{Number, Room};
use super::three_by_three::{self, Plane};
use crate::ThreadPool;
use crate::kernels::matmul::Scalar;
use crate::math::Real;
use crate::simd::{self, LANES, Level, Task};
use rustorch_core::{C64, C128, Fault};
use std::ops::Range;

/// Rows up to which this is faster than packing columns.
const MOST_ROWS: usize = 64;
/// Rows whose sums are in registers together.
const HEIGHTS: [usize; 6] = [8, 6, 4, 3, 2, 1];
/// Multiplications worth claiming for a thread.
const GRAIN: usize = 100_000;

/// Whether a geometry suits: lines that fill vectors well, contiguous, of which every tap sees something that exists.
pub(super) fn suits(geometry: &Geometry) -> bool {
    let line = &geometry.axes[2];
    let vectors = line.results.div_ceil(LANES) * LANES;
    5 * line.results >= 3 * vectors && suits_together(geometry)
}

/// [`suits`], if lines that are computed together fill vectors.
pub(super) fn suits_together(geometry: &Geometry) -> bool {
    geometry.rows <= MOST_ROWS && geometry.axes[2].step == 1 && geometry.taps().len() > 1
}

/// Whether a line's last vector reads past it.
pub(super) fn reads_past(geometry: &Geometry) -> bool {
    geometry.axes[2].results < LANES
}

/// Computes every result of a geometry that [`suits`].
///
/// # Safety
/// The source and the kernel have the elements that the geometry describes; lines of the source are contiguous, every tap sees elements
/// that exist, and `LANES` elements can be read from any of them if a line [`reads_past`] its end. The results are the caller's alone.
pub(super) unsafe fn run<T: Number>(
    pool: &ThreadPool,
    geometry: &Geometry,
    source: Source<'_, T::Sum>,
    kernel: Source<'_, T::Sum>,
    results: &ConvOutput<'_, T>,
) -> Result<(), Fault> {
    let mut packed = Room::<T::Sum>::new(geometry.groups * geometry.rows * Weights::<T>::depth(geometry))?;
    // SAFETY: this function's contract.
    let weights = unsafe { Weights::<T>::new(geometry, kernel, packed.elements()?) };
    let [a, b, c] = &geometry.axes;
    if c.results == 0 {
        return Ok(());
    }
    let planes = geometry.images * a.results;
    let least = (UNITS * pool.threads()).div_ceil((geometry.groups * planes).max(1));
    let lines = weights.together(geometry, b.results.div_ceil(least.max(1)));
    let spans = b.results.div_ceil(lines.max(1));
    // Long lines are divided, evenly, so that no part is shorter than a vector.
    let parts = if lines == 1 { c.results.div_ceil(MOST_TOGETHER) } else { 1 };
    let cost = (weights.offsets.len() * geometry.rows * c.results * lines / parts).max(1);
    pool.ranges(geometry.groups * planes * spans * parts, GRAIN / cost, |units| {
        let mut memory = Memory::default();
        for unit in units {
            let (span, part) = (unit / parts, unit % parts);
            let (group, plane, span) = (span / (planes * spans), span / spans % planes, span % spans);
            let first = plane * b.results + span * lines;
            let end = plane * b.results + b.results.min((span + 1) * lines);
            let results_of = match parts {
                1 => first * c.results..end * c.results,
                _ => {
                    let at = |part: usize| first * c.results + c.results * part / parts;
                    at(part)..at(part + 1)
                }
            };
            memory.find(geometry, results_of);
            let image = memory.segments[0].image + group * geometry.source.group;
            // SAFETY: units are disjoint in results; and this function's contract.
            unsafe { weights.sum(geometry, source.base().add(image), group, results, &mut memory) };
        }
    });
    Ok(())
}

/// Units of work for each thread, if there are as many lines.
const UNITS: usize = 4;
/// Elements of the source from the first result of lines that are computed together to the last: their sums stay in the first-level cache.
const MOST_TOGETHER: usize = 512;

/// How many neighbouring lines are computed as one, of which results that do not exist stand between those of two lines: as many as fit, at
/// most as said, or one where that takes fewer vectors.
fn together(geometry: &Geometry, most: usize) -> usize {
    let [_, b, c] = &geometry.axes;
    let pitch = b.step * b.source_stride;
    let lines = (MOST_TOGETHER / pitch.max(1)).min(most).max(1);
    // Spans of about one length.
    let lines = b.results.div_ceil(b.results.div_ceil(lines).max(1)).max(1);
    let vectors = ((lines - 1) * pitch + c.results).div_ceil(LANES);
    if vectors <= lines * c.results.div_ceil(LANES) { lines } else { 1 }
}

/// What a thread keeps from span to span.
pub(super) struct Memory<T: Number> {
    /// A line, or a part of one, each. Their lanes are those of the span.
    pub(super) segments: Vec<Segment>,
    sums: Vec<T::Sum>,
    rounded: Vec<T>,
}

impl<T: Number> Default for Memory<T> {
    fn default() -> Memory<T> {
        Memory { segments: Vec::new(), sums: Vec::new(), rounded: Vec::new() }
    }
}

impl<T: Number> Memory<T> {
    /// Takes a span: whole lines of one plane, or a part of one; of results that are counted through positions and images.
    pub(super) fn find(&mut self, geometry: &Geometry, results: Range<usize>) {
        let b = &geometry.axes[1];
        geometry.segments(results, &mut self.segments);
        for (i, segment) in self.segments.iter_mut().enumerate() {
            segment.lane = i * b.step * b.source_stride;
        }
    }
}

/// The kernel, in the order in which it is read.
pub(super) struct Weights<'a, T: Number> {
    /// Where each channel and tap is in the source.
    offsets: Vec<usize>,
    /// The first row and the height of each panel.
    panels: Vec<(usize, usize)>,
    /// For each group and panel `[offsets][height]`.
    packed: &'a [T::Sum],
    /// Whether [`three_by_three`] suits lines of so many results.
    is_square: bool,
}

impl<'a, T: Number> Weights<'a, T> {
    /// Weights of a row.
    pub(super) fn depth(geometry: &Geometry) -> usize {
        geometry.channels * geometry.taps().len()
    }

    /// Packs the weights of all groups and rows into as much memory.
    ///
    /// # Safety
    /// The kernel has the elements that the geometry describes.
    pub(super) unsafe fn new(
        geometry: &Geometry,
        kernel: Source<'_, T::Sum>,
        packed: &'a mut [T::Sum],
    ) -> Weights<'a, T> {
        let mut taps = geometry.taps();
        if geometry.channels == 1 {
            // As gradients have them in reverse.
            taps.sort_by_key(|tap| tap.source);
        }
        let [a, b, c] = &geometry.axes;
        let k = Self::depth(geometry);
        let (mut offsets, mut weights) = (Vec::with_capacity(k), Vec::with_capacity(k));
        for channel in 0..geometry.channels {
            for tap in &taps {
                let [z, y, x] = tap.source.map(|at| at as usize);
                offsets
                    .push(channel * geometry.source.channel + z * a.source_stride + y * b.source_stride + x);
                weights.push(channel * geometry.kernel.channel + tap.kernel);
            }
        }
        let panels = panels(geometry.rows);
        let mut places = packed.iter_mut();
        for group in 0..geometry.groups {
            for &(first, height) in &panels {
                for &weight in &weights {
                    for (row, place) in (first..first + height).zip(&mut places) {
                        let at = group * geometry.kernel.group + row * geometry.kernel.image + weight;
                        // SAFETY: the kernel has the tap, by this function's contract.
                        *place = unsafe { *kernel.base().add(at) };
                    }
                }
            }
        }
        let is_square =
            geometry.rows == 1 && b.step == 1 && three_by_three::suits(&offsets, b.source_stride, c.results);
        Weights { offsets, panels, packed, is_square }
    }

    /// How many neighbouring lines make a span, at most as said.
    pub(super) fn together(&self, geometry: &Geometry, most: usize) -> usize {
        if self.is_square { most.clamp(1, three_by_three::SPAN) } else { together(geometry, most) }
    }

    /// Writes the results of a span of lines.
    ///
    /// # Safety
    /// As [`run`], of the span's lines in a source whose channels of this image and group begin at `from`.
    pub(super) unsafe fn sum(
        &self,
        geometry: &Geometry,
        from: *const T::Sum,
        group: usize,
        results: &ConvOutput<'_, T>,
        memory: &mut Memory<T>,
    ) {
        let ([a, b, _], k) = (&geometry.axes, self.offsets.len());
        let Memory { segments, sums, rounded } = memory;
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return };
        let at = first.at.map(|at| at as usize);
        let from = from.wrapping_add(at[0] * a.source_stride + at[1] * b.source_stride + at[2]);
        let width = last.lane + last.len;
        rounded.resize(rounded.len().max(width), T::BLANK);
        if self.is_square {
            sums.resize(width, T::Sum::ZERO);
            let place = results.lines(geometry, group);
            let (to, to_pitch) = match place {
                // SAFETY: this function's contract: a result of the group.
                Some(base) => (unsafe { base.add(first.result) }, b.result_stride),
                None => (sums.as_mut_ptr(), b.source_stride),
            };
            let weights = self.packed[group * k..][..k].as_ptr();
            let (lines, columns) = (segments.len(), first.len);
            // SAFETY: this function's contract.
            unsafe {
                let plane = Plane { from, pitch: b.source_stride, weights, lines, columns, to, to_pitch };
                if T::Sum::three_by_three(&plane) {
                    if place.is_none() {
                        results.put(geometry, (group, 0), segments, sums, rounded);
                    }
                    return;
                }
            }
        }
        for &(row, height) in &self.panels {
            sums.resize(height * width, T::Sum::ZERO);
            let weights = &self.packed[(group * geometry.rows + row) * k..][..height * k];
            simd::run(Span::<T> { from, offsets: &self.offsets, weights, height, width, sums });
            for (i, sums) in sums.chunks_exact_mut(width).enumerate() {
                // SAFETY: this function's contract.
                unsafe { results.put(geometry, (group, row + i), segments, sums, rounded) };
            }
        }
    }
}

/// The first row and the height of each panel.
fn panels(rows: usize) -> Vec<(usize, usize)> {
    let (mut panels, mut row) = (Vec::new(), 0);
    while row < rows {
        let height = HEIGHTS.into_iter().find(|&height| height <= rows - row).unwrap_or(1);
        panels.push((row, height));
        row += height;
    }
    panels
}

/// The sums of some rows of one span, row by row. Made only by [`Weights::sum`], whose contract it relies on.
struct Span<'a, T: Number> {
    /// What the first result sees at offset zero.
    from: *const T::Sum,
    offsets: &'a [usize],
    /// `[offsets][height]`
    weights: &'a [T::Sum],
    height: usize,
    width: usize,
    /// `[height][width]`
    sums: &'a mut [T::Sum],
}

impl<T: Number> Task for Span<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(mut self, l: L) {
        let several = L::WIDE && T::Sum::ARE_NARROW;
        match (self.height, several) {
            (8, true) => self.rows::<L, 8, 2>(l),
            (6, true) => self.rows::<L, 6, 2>(l),
            (4, true) => self.rows::<L, 4, 4>(l),
            (3, true) => self.rows::<L, 3, 4>(l),
            (2, true) => self.rows::<L, 2, 4>(l),
            (1, true) => self.rows::<L, 1, 4>(l),
            (8, false) => self.rows::<L, 8, 1>(l),
            (6, false) => self.rows::<L, 6, 1>(l),
            (4, false) => self.rows::<L, 4, 1>(l),
            (3, false) => self.rows::<L, 3, 1>(l),
            (2, false) => self.rows::<L, 2, 1>(l),
            _ => self.rows::<L, 1, 1>(l),
        }
    }
}

impl<T: Number> Span<'_, T> {
    /// All columns, `V` vectors at a time.
    #[inline(always)]
    fn rows<L: Level, const H: usize, const V: usize>(&mut self, l: L) {
        let mut column = 0;
        while column < self.width {
            // The last vectors overlap those before them.
            if self.width - column > (V - 1) * LANES && self.width >= V * LANES {
                self.vectors::<L, H, V>(l, column.min(self.width - V * LANES));
                column += V * LANES;
            } else {
                self.vectors::<L, H, 1>(l, column.min(self.width.saturating_sub(LANES)));
                column += LANES;
            }
        }
    }

    #[inline(always)]
    fn vectors<L: Level, const H: usize, const V: usize>(&mut self, l: L, column: usize) {
        // SAFETY: by the contract of `Weights::sum`.
        let sums: [[[T::Sum; LANES]; V]; H] =
            unsafe { T::Sum::sum_lanes(l, self.from.add(column), self.offsets, self.weights.as_ptr()) };
        for (row, sums) in sums.iter().enumerate() {
            for (v, sums) in sums.iter().enumerate() {
                let column = column + v * LANES;
                let len = LANES.min(self.width - column);
                self.sums[row * self.width + column..][..len].copy_from_slice(&sums[..len]);
            }
        }
    }
}

/// Numbers of which vectors are summed.
pub(super) trait Lanes: Scalar {
    /// Whether a register holds as many as there are lanes, where registers are wide.
    const ARE_NARROW: bool;

    /// Sums of products of `V` vectors, one behind the other, at offsets from a place with weights, `[offsets][H]`: for each of `H` rows.
    ///
    /// # Safety
    /// `V * LANES` elements can be read from every offset on, and all weights.
    unsafe fn sum_lanes<L: Level, const H: usize, const V: usize>(
        l: L,
        from: *const Self,
        offsets: &[usize],
        weights: *const Self,
    ) -> [[[Self; LANES]; V]; H];

    /// Writes the sums of a plane, or returns `false` where these numbers have no such kernel.
    ///
    /// # Safety
    /// As [`three_by_three::Sums::new`].
    unsafe fn three_by_three(_plane: &Plane<Self>) -> bool {
        false
    }
}

impl Lanes for f32 {
    const ARE_NARROW: bool = true;

    unsafe fn three_by_three(plane: &Plane<f32>) -> bool {
        // SAFETY: this function's contract.
        simd::run(unsafe { three_by_three::Sums::new(plane) });
        true
    }

    #[inline(always)]
    unsafe fn sum_lanes<L: Level, const H: usize, const V: usize>(
        l: L,
        from: *const f32,
        offsets: &[usize],
        weights: *const f32,
    ) -> [[[f32; LANES]; V]; H] {
        let mut sums = [[l.splat(0.0); V]; H];
        for (p, &offset) in offsets.iter().enumerate() {
            let mut x = [l.splat(0.0); V];
            // SAFETY: this function's contract.
            let weights = unsafe {
                for v in 0..V {
                    x[v] = l.load(&*from.add(offset + v * LANES).cast());
                }
                &*weights.add(p * H).cast::<[f32; H]>()
            };
            for i in 0..H {
                let weight = l.splat(weights[i]);
                for v in 0..V {
                    sums[i][v] = l.mul_add(x[v], weight, sums[i][v]);
                }
            }
        }
        let mut out = [[[0.0; LANES]; V]; H];
        for i in 0..H {
            for v in 0..V {
                l.store(sums[i][v], &mut out[i][v]);
            }
        }
        out
    }
}

macro_rules! arrays {
    ($($t:ty: |$l:ident, $sum:ident, $x:ident, $weight:ident| $next:expr;)*) => {$(
        impl Lanes for $t {
            const ARE_NARROW: bool = false;

            #[inline(always)]
            unsafe fn sum_lanes<L: Level, const H: usize, const V: usize>(
                $l: L,
                from: *const $t,
                offsets: &[usize],
                weights: *const $t,
            ) -> [[[$t; LANES]; V]; H] {
                let mut sums = [[[<$t as Scalar>::ZERO; LANES]; V]; H];
                for (p, &offset) in offsets.iter().enumerate() {
                    // SAFETY: this function's contract.
                    let (x, weights) = unsafe {
                        let x = from.add(offset).cast::<[[$t; LANES]; V]>().read_unaligned();
                        (x, &*weights.add(p * H).cast::<[$t; H]>())
                    };
                    for (sums, &$weight) in sums.iter_mut().zip(weights) {
                        for ($sum, $x) in sums.as_flattened_mut().iter_mut().zip(x.as_flattened().iter().copied()) {
                            *$sum = $next;
                        }
                    }
                }
                sums
            }
        }
    )*};
}

arrays! {
    f64: |l, sum, x, weight| x.fma(l, weight, *sum);
    C64: |_l, sum, x, weight| *sum + x * weight;
    C128: |_l, sum, x, weight| *sum + x * weight;
}

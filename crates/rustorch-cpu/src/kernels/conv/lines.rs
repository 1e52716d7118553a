//! Convolution line by line, for few rows: results side by side see elements side by side, so that nothing is gathered.

use super::columns::Source;
use super::gemm::ConvOutput;
use super::geometry::{Geometry, Segment};
use super::number::{Number, Room};
use crate::ThreadPool;
use crate::kernels::matmul::Scalar;
use crate::math::Real;
use crate::simd::{self, LANES, Level, Task};
use rustorch_core::{C64, C128, Fault};

/// Rows up to which this is faster than packing columns.
const MOST_ROWS: usize = 64;
/// Rows whose sums are in registers together.
const HEIGHTS: [usize; 5] = [8, 6, 4, 2, 1];
/// Multiplications worth claiming for a thread.
const GRAIN: usize = 100_000;

/// Whether a geometry suits: lines that fill vectors well, contiguous, of which every tap sees something that exists.
pub(super) fn suits(geometry: &Geometry) -> bool {
    let line = &geometry.axes[2];
    let vectors = line.results.div_ceil(LANES) * LANES;
    geometry.rows <= MOST_ROWS
        && line.step == 1
        && geometry.taps().len() > 1
        && 5 * line.results >= 3 * vectors
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
    let taps = geometry.taps();
    let (rows, k) = (geometry.rows, geometry.channels * taps.len());
    let [a, b, _] = &geometry.axes;
    let (mut offsets, mut weights) = (Vec::with_capacity(k), Vec::with_capacity(k));
    for channel in 0..geometry.channels {
        for tap in &taps {
            let [z, y, x] = tap.source.map(|at| at as usize);
            offsets.push(channel * geometry.source.channel + z * a.source_stride + y * b.source_stride + x);
            weights.push(channel * geometry.kernel.channel + tap.kernel);
        }
    }
    let panels = panels(rows);
    let mut packed = Room::<T::Sum>::new(geometry.groups * rows * k)?;
    let packed = packed.elements()?;
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
    let (packed, lines) = (&*packed, geometry.images * a.results * b.results);
    let cost = (k * rows * geometry.axes[2].results).max(1);
    pool.ranges(geometry.groups * lines, GRAIN / cost, |units| {
        let mut segments = Vec::new();
        let mut sums = Vec::new();
        let mut rounded = vec![T::BLANK; geometry.axes[2].results];
        for unit in units {
            let (group, line) = (unit / lines, unit % lines);
            let width = geometry.axes[2].results;
            geometry.segments(line * width..(line + 1) * width, &mut segments);
            let [segment] = &segments[..] else { unreachable!("a line is one segment") };
            for &(first, height) in &panels {
                let weights = &packed[(group * rows + first) * k..][..height * k];
                let line =
                    Line::<T> { geometry, source, group, segment, offsets: &offsets, weights, height, sums };
                sums = simd::run(line);
                for (row, sums) in sums.chunks_exact_mut(width).enumerate() {
                    // SAFETY: units are disjoint in results; and this function's contract.
                    unsafe { results.put(geometry, (group, first + row), &segments, sums, &mut rounded) };
                }
            }
        }
    });
    Ok(())
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

/// The sums of some rows of one line, row by row. Made only by [`run`], whose contract it relies on.
struct Line<'a, T: Number> {
    geometry: &'a Geometry,
    source: Source<'a, T::Sum>,
    group: usize,
    segment: &'a Segment,
    /// Where each channel and tap is in the source.
    offsets: &'a [usize],
    /// `[offsets][height]`
    weights: &'a [T::Sum],
    height: usize,
    sums: Vec<T::Sum>,
}

impl<T: Number> Task for Line<'_, T> {
    type Output = Vec<T::Sum>;

    #[inline(always)]
    fn run<L: Level>(mut self, l: L) -> Vec<T::Sum> {
        self.sums.clear();
        self.sums.resize(self.height * self.segment.len, T::Sum::ZERO);
        match self.height {
            8 => self.rows::<L, 8>(l),
            6 => self.rows::<L, 6>(l),
            4 => self.rows::<L, 4>(l),
            2 => self.rows::<L, 2>(l),
            _ => self.rows::<L, 1>(l),
        }
        self.sums
    }
}

impl<T: Number> Line<'_, T> {
    #[inline(always)]
    fn rows<L: Level, const H: usize>(&mut self, l: L) {
        let [a, b, _] = &self.geometry.axes;
        let at = self.segment.at.map(|at| at as usize);
        let line = self.segment.image
            + self.group * self.geometry.source.group
            + at[0] * a.source_stride
            + at[1] * b.source_stride;
        let width = self.segment.len;
        for column in (0..width).step_by(LANES) {
            // The last vector overlaps the one before it.
            let column = column.min(width.saturating_sub(LANES));
            // SAFETY: by the contract of `run`.
            let sums: [[T::Sum; LANES]; H] = unsafe {
                let from = self.source.base().add(line + column);
                T::Sum::sum_lanes(l, from, self.offsets, self.weights.as_ptr())
            };
            let len = LANES.min(width - column);
            for (row, sums) in sums.iter().enumerate() {
                self.sums[row * width + column..][..len].copy_from_slice(&sums[..len]);
            }
        }
    }
}

/// Numbers of which vectors are summed.
pub(super) trait Lanes: Scalar {
    /// Sums of products of vectors at offsets from a place with weights, `[offsets][H]`: one for each of `H` rows.
    ///
    /// # Safety
    /// `LANES` elements can be read from every offset on, and all weights.
    unsafe fn sum_lanes<L: Level, const H: usize>(
        l: L,
        from: *const Self,
        offsets: &[usize],
        weights: *const Self,
    ) -> [[Self; LANES]; H];
}

impl Lanes for f32 {
    #[inline(always)]
    unsafe fn sum_lanes<L: Level, const H: usize>(
        l: L,
        from: *const f32,
        offsets: &[usize],
        weights: *const f32,
    ) -> [[f32; LANES]; H] {
        let mut sums = [l.splat(0.0); H];
        for (p, &offset) in offsets.iter().enumerate() {
            // SAFETY: this function's contract.
            let (x, weights) =
                unsafe { (l.load(&*from.add(offset).cast()), &*weights.add(p * H).cast::<[f32; H]>()) };
            for i in 0..H {
                sums[i] = l.mul_add(x, l.splat(weights[i]), sums[i]);
            }
        }
        let mut out = [[0.0; LANES]; H];
        for i in 0..H {
            l.store(sums[i], &mut out[i]);
        }
        out
    }
}

macro_rules! arrays {
    ($($t:ty: |$l:ident, $sum:ident, $x:ident, $weight:ident| $next:expr;)*) => {$(
        impl Lanes for $t {
            #[inline(always)]
            unsafe fn sum_lanes<L: Level, const H: usize>(
                $l: L,
                from: *const $t,
                offsets: &[usize],
                weights: *const $t,
            ) -> [[$t; LANES]; H] {
                let mut sums = [[<$t as Scalar>::ZERO; LANES]; H];
                for (p, &offset) in offsets.iter().enumerate() {
                    // SAFETY: this function's contract.
                    let (x, weights) = unsafe {
                        let x = from.add(offset).cast::<[$t; LANES]>().read_unaligned();
                        (x, &*weights.add(p * H).cast::<[$t; H]>())
                    };
                    for (sums, &$weight) in sums.iter_mut().zip(weights) {
                        for ($sum, $x) in sums.iter_mut().zip(x) {
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

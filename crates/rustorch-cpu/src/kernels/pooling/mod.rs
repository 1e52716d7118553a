//! Pooling and interpolation, over planes: the trailing one to three dimensions, seen as depth, height and width.

mod average;
mod interpolate;
mod max;

pub(super) use average::{adaptive_avg_pool, adaptive_avg_pool_backward, avg_pool, avg_pool_backward};
pub(super) use interpolate::{interpolate, interpolate_backward};
pub(super) use max::{adaptive_max_pool, max_pool, max_pool_backward};

use super::strided::{self, Grid};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{Level, Task};
use rustorch_core::{Element, Fault, View, ViewMut};
use std::ops::Range;

/// The last `n` lengths of a shape as depth, height and width; missing ones are 1.
fn lengths(dims: &[usize], n: usize) -> [usize; 3] {
    three(&dims[dims.len() - n..], 1)
}

/// One number for each of depth, height and width, of which the first may be missing.
fn three(list: &[usize], missing: usize) -> [usize; 3] {
    let mut three = [missing; 3];
    three[3 - list.len()..].copy_from_slice(list);
    three
}

/// The planes of a view: its last `n` dimensions, numbered by the others in row-major order.
fn planes<'a, T: Element>(x: &View<'a>, n: usize) -> Result<Grid<'a, T>, Fault> {
    let ndim = x.layout().ndim();
    let axes: Vec<usize> = (0..ndim).collect();
    Grid::new(x, &axes[..ndim - n], &axes[ndim - n..])
}

/// The parts of a range of rows that lie in one plane of `rows` rows each: the plane, and the range in it.
fn by_plane(range: Range<usize>, rows: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    (range.start / rows..range.end.div_ceil(rows)).map(move |plane| {
        let first = plane * rows;
        (plane, range.start.max(first) - first..range.end.min(first + rows) - first)
    })
}

/// A function of a plane of the input, the place of a row among those of an output's plane, and that row.
type OutputRow<'f, T> = dyn Fn(&[T], [usize; 2], &mut [T]) + Sync + 'f;

/// Runs `row(plane of x, [d, h], row of out)` for every row of the output's planes, in parallel. `cost` is the work of a
/// row in elements, for deciding how many go to a thread.
fn for_output_rows<T: Element>(
    pool: &ThreadPool,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
    n: usize,
    cost: usize,
    row: &OutputRow<'_, T>,
) -> Result<(), Fault> {
    let [depth, height, width] = lengths(out.layout().dims(), n);
    let x = planes::<T>(x, n)?;
    strided::with_slice(pool, out, |out: &mut [T]| {
        strided::par_units(pool, out, width, grain(cost, width), |first, out| {
            let mut gathered = Vec::new();
            let mut rows = out.chunks_exact_mut(width);
            for (plane, part) in by_plane(first..first + rows.len(), depth * height) {
                let x = x.chunk(plane, 0, x.len(), &mut gathered);
                for (i, out) in part.zip(&mut rows) {
                    row(x, [i / height, i % height], out);
                }
            }
        });
        Ok(())
    })
}

/// Runs `fill(number, plane of out)` for every plane of the output, in parallel; see [`for_output_rows`].
fn for_output_planes<T: Element>(
    pool: &ThreadPool,
    out: &mut ViewMut<'_>,
    n: usize,
    cost: usize,
    fill: &(dyn Fn(usize, &mut [T]) + Sync),
) -> Result<(), Fault> {
    let plane: usize = lengths(out.layout().dims(), n).iter().product();
    strided::with_slice(pool, out, |out: &mut [T]| {
        strided::par_units(pool, out, plane, grain(cost, plane), |first, out| {
            for (i, out) in (first..).zip(out.chunks_exact_mut(plane)) {
                fill(i, out);
            }
        });
        Ok(())
    })
}

/// The elements that go to a thread at least, of units of `unit` elements and `cost` elements' work.
fn grain(cost: usize, unit: usize) -> usize {
    ((1 << 13) / cost.max(1)).saturating_mul(unit)
}

/// `sum += factor·row`
struct AddScaled<'a, T> {
    sum: &'a mut [T],
    factor: T,
    row: &'a [T],
}

impl<T: Real> Task for AddScaled<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        for (sum, &x) in self.sum.iter_mut().zip(self.row) {
            *sum = *sum + self.factor * x;
        }
    }
}

/// `sum += row`
struct Add<'a, T> {
    sum: &'a mut [T],
    row: &'a [T],
}

impl<T: Real> Task for Add<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        for (sum, &x) in self.sum.iter_mut().zip(self.row) {
            *sum = *sum + x;
        }
    }
}

/// A row of zeros, in the memory of an earlier one.
fn zeros<T: Wide>(line: &mut Vec<T::Acc>, len: usize) -> &mut [T::Acc] {
    line.clear();
    line.resize(len, T::Acc::ZERO);
    line
}

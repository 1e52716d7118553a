//! Average pooling, with windows of fixed and of adaptive size, and its backward.
//!
//! A row of results is the sum of the rows that its windows cover, summed up along the width afterwards; backward goes
//! the same way back.

use super::super::lanes::{sum, total};
use super::super::strided::{self, unreachable_memory};
use super::{Add, for_output_planes, for_output_rows, grain, lengths, planes, three, zeros};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, LANES, Level, Task};
use rustorch_core::{AvgPool, Fault, View, ViewMut, dispatch_dtype};
use std::ops::Range;

/// A window along one dimension.
struct Span {
    /// The elements of the input in it.
    range: Range<usize>,
    /// How many elements it counts as.
    count: usize,
}

/// The windows of a pooling along depth, height and width.
struct Spans {
    axes: [Vec<Span>; 3],
    divisor: Option<usize>,
}

impl Spans {
    fn fixed(op: &AvgPool, input: [usize; 3], output: [usize; 3]) -> Spans {
        let [kernel, stride] = [&op.window.kernel, &op.window.stride].map(|list| three(list, 1));
        let padding = three(&op.window.padding, 0);
        let span = |axis: usize, o: usize| {
            // In the coordinates of the padded input.
            let start = o * stride[axis];
            let end = (start + kernel[axis]).min(input[axis] + 2 * padding[axis]);
            let inside = |at: usize| at.saturating_sub(padding[axis]).min(input[axis]);
            let range = inside(start)..inside(end);
            let count = if op.count_include_pad { end - start } else { range.len() };
            Span { range, count }
        };
        let axis = |axis: usize| (0..output[axis]).map(|o| span(axis, o)).collect();
        Spans { axes: [axis(0), axis(1), axis(2)], divisor: op.divisor }
    }

    fn adaptive(input: [usize; 3], output: [usize; 3]) -> Spans {
        let axis = |axis: usize| {
            let (len, n) = (input[axis], output[axis]);
            let range = |o: usize| o * len / n..((o + 1) * len).div_ceil(n);
            (0..n).map(|o| Span { range: range(o), count: range(o).len() }).collect()
        };
        Spans { axes: [axis(0), axis(1), axis(2)], divisor: None }
    }

    /// What the windows of row `at` are divided by.
    fn row(&self, at: [usize; 2]) -> Row<'_> {
        let [depth, height, width] = &self.axes;
        Row { spans: width, count: depth[at[0]].count * height[at[1]].count, divisor: self.divisor }
    }

    /// The starts of the rows of the input that the windows of row `at` cover, for a plane of this height and width.
    fn rows(&self, at: [usize; 2], height: usize, width: usize) -> impl Iterator<Item = usize> {
        let (depths, heights) = (self.axes[0][at[0]].range.clone(), self.axes[1][at[1]].range.clone());
        depths.flat_map(move |d| heights.clone().map(move |h| (d * height + h) * width))
    }

    /// Whether windows reach across planes of this width, so that the rows of one are a single run.
    fn across(&self, width: usize) -> bool {
        matches!(&self.axes[2][..], [span] if span.range == (0..width))
    }

    /// Whether one window has all of these depths and heights.
    fn have_one_window(&self, lengths: [usize; 2]) -> bool {
        self.axes.iter().zip(lengths).all(|(axis, len)| matches!(&axis[..], [span] if span.range == (0..len)))
    }

    /// The work of a row of the output, in elements.
    fn cost(&self, width: usize) -> usize {
        let longest = |axis: usize| self.axes[axis].iter().map(|span| span.range.len()).max().unwrap_or(0);
        longest(0).saturating_mul(longest(1)).saturating_mul(width) + self.axes[2].len() * longest(2)
    }
}

/// The windows of a row.
#[derive(Clone, Copy)]
struct Row<'a> {
    spans: &'a [Span],
    /// The elements of a window for each column.
    count: usize,
    divisor: Option<usize>,
}

impl Row<'_> {
    #[inline(always)]
    fn divisor<T: Real>(&self, span: &Span) -> T {
        T::of(self.divisor.unwrap_or(self.count * span.count) as f64)
    }
}

/// The sum of a run.
struct Sum<'a, T>(&'a [T]);

impl<T: Real> Task for Sum<'_, T> {
    type Output = T;
    #[inline(always)]
    fn run<L: Level>(self, _: L) -> T {
        sum(self.0)
    }
}

/// `out[o] = Σ line[window o] / divisor`
struct Narrow<'a, T> {
    row: Row<'a>,
    line: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Task for Narrow<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Narrow { row, line, out } = self;
        for (span, out) in row.spans.iter().zip(out) {
            let part = &line[span.range.clone()];
            let mut total = T::ZERO;
            if part.len() < 64 {
                for &x in part {
                    total = total + x;
                }
            } else {
                total = sum(part);
            }
            *out = total / row.divisor(span);
        }
    }
}

/// `line[window o] += grad[o] / divisor`
struct Spread<'a, T> {
    row: Row<'a>,
    grad: &'a [T],
    line: &'a mut [T],
}

impl<T: Real> Task for Spread<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Spread { row, grad, line } = self;
        for (span, &grad) in row.spans.iter().zip(grad) {
            let share = grad / row.divisor(span);
            for x in &mut line[span.range.clone()] {
                *x = *x + share;
            }
        }
    }
}

/// The means of planes, one behind the other, each a run of so many elements.
struct Means<'a, T> {
    planes: &'a [T],
    len: usize,
    divisor: T,
    out: &'a mut [T],
}

impl<T: Real> Task for Means<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        for (plane, out) in self.planes.chunks_exact(self.len).zip(self.out) {
            let total = if self.len < 4 * LANES { short_sum(plane) } else { sum(plane) };
            *out = total / self.divisor;
        }
    }
}

/// The sum of a run for which [`sum`] would have too many lanes: of fewer lanes, and then of what does not fill them.
#[inline(always)]
fn short_sum<T: Real>(x: &[T]) -> T {
    let (chunks, tail) = x.as_chunks::<LANES>();
    let mut lanes = [T::ZERO; LANES];
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = lanes[i] + chunk[i];
        }
    }
    tail.iter().fold(total(lanes), |sum, &x| sum + x)
}

/// Planes whose means are computed at a time.
const PLANES: usize = 16;

/// The means of whole planes of `len` elements, which are contiguous.
fn means<T: Wide>(
    pool: &ThreadPool,
    x: &[T],
    len: usize,
    spans: &Spans,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let row = spans.row([0, 0]);
    let divisor = row.divisor::<T::Acc>(&row.spans[0]);
    strided::with_slice(pool, out, |out: &mut [T]| {
        strided::par_units(pool, out, 1, grain(len, 1), |first, out| {
            let (mut wide, mut result) = (Vec::new(), Vec::new());
            for (planes, out) in x[first * len..].chunks(PLANES * len).zip(out.chunks_mut(PLANES)) {
                let planes = T::widen(&planes[..out.len() * len], &mut wide);
                T::narrow(out, &mut result, |out| simd::run(Means { planes, len, divisor, out }));
            }
        });
        Ok(())
    })
}

fn forward(
    pool: &ThreadPool,
    spans: &Spans,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
    n: usize,
) -> Result<(), Fault> {
    let [depth, height, width] = lengths(x.layout().dims(), n);
    dispatch_dtype!(x.dtype(), float, T => {
        let across = spans.across(width);
        let plane = depth * height * width;
        if across
            && plane != 0
            && spans.have_one_window([depth, height])
            && let Some(x) = x.as_slice::<T>()
        {
            return means(pool, x, plane, spans, out);
        }
        for_output_rows(pool, x, out, n, spans.cost(width), &|plane: &[T], at: [usize; 2], out: &mut [T]| {
            if across {
                let (mut wide, mut result) = (Vec::new(), Vec::new());
                let rows = &spans.axes[1][at[1]].range;
                let mut total: <T as Wide>::Acc = Default::default();
                for d in spans.axes[0][at[0]].range.clone() {
                    let run = (d * height + rows.start) * width..(d * height + rows.end) * width;
                    total += simd::run(Sum(T::widen(&plane[run], &mut wide)));
                }
                let row = spans.row(at);
                let mean = total / row.divisor::<<T as Wide>::Acc>(&row.spans[0]);
                return T::narrow(out, &mut result, |out| out.fill(mean));
            }
            let (mut line, mut wide, mut result) = (Vec::new(), Vec::new(), Vec::new());
            let line = zeros::<T>(&mut line, width);
            for start in spans.rows(at, height, width) {
                let row = T::widen(&plane[start..start + width], &mut wide);
                simd::run(Add { sum: &mut *line, row });
            }
            T::narrow(out, &mut result, |out| simd::run(Narrow { row: spans.row(at), line: &*line, out }));
        })
    }, _ => Err(unreachable_memory()))
}

fn backward(
    pool: &ThreadPool,
    spans: &Spans,
    grad: &View<'_>,
    out: &mut ViewMut<'_>,
    n: usize,
) -> Result<(), Fault> {
    let [_, height, width] = lengths(out.layout().dims(), n);
    let [depths, heights, widths] = lengths(grad.layout().dims(), n);
    let cost = spans.cost(width).saturating_mul(depths * heights);
    dispatch_dtype!(grad.dtype(), float, T => {
        let grads = planes::<T>(grad, n)?;
        for_output_planes(pool, out, n, cost, &|i, out: &mut [T]| {
            let (mut gathered, mut wide, mut line, mut result) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            let grads = T::widen(grads.chunk(i, 0, grads.len(), &mut gathered), &mut wide);
            T::narrow(out, &mut result, |out| {
                out.fill(Default::default());
                // Without a row there is nothing to spread; chunks of no element there cannot be.
                for (i, grad) in grads.chunks_exact(widths.max(1)).enumerate() {
                    let at = [i / heights, i % heights];
                    let line = zeros::<T>(&mut line, width);
                    simd::run(Spread { row: spans.row(at), grad, line: &mut *line });
                    for start in spans.rows(at, height, width) {
                        simd::run(Add { sum: &mut out[start..start + width], row: &*line });
                    }
                }
            });
        })
    }, _ => Err(unreachable_memory()))
}

/// The mean of each window.
pub(crate) fn avg_pool(
    pool: &ThreadPool,
    op: &AvgPool,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let n = op.window.kernel.len();
    let spans = Spans::fixed(op, lengths(x.layout().dims(), n), lengths(out.layout().dims(), n));
    forward(pool, &spans, x, out, n)
}

/// Each gradient shared out among the elements of its window.
pub(crate) fn avg_pool_backward(
    pool: &ThreadPool,
    op: &AvgPool,
    grad: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let n = op.window.kernel.len();
    let spans = Spans::fixed(op, lengths(out.layout().dims(), n), lengths(grad.layout().dims(), n));
    backward(pool, &spans, grad, out, n)
}

/// The means of as many windows as the output has, over `n` dimensions.
pub(crate) fn adaptive_avg_pool(
    pool: &ThreadPool,
    n: usize,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let spans = Spans::adaptive(lengths(x.layout().dims(), n), lengths(out.layout().dims(), n));
    forward(pool, &spans, x, out, n)
}

/// As [`avg_pool_backward`], of [`adaptive_avg_pool`].
pub(crate) fn adaptive_avg_pool_backward(
    pool: &ThreadPool,
    n: usize,
    grad: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let spans = Spans::adaptive(lengths(out.layout().dims(), n), lengths(grad.layout().dims(), n));
    backward(pool, &spans, grad, out, n)
}

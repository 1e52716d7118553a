//! Softmax along a dimension that is not the last: many neighbouring columns at once, row by row, while they are in a cache.

use crate::ThreadPool;
use crate::kernels::lanes::WIDTH;
use crate::kernels::strided::{Rows, RowsMut};
use crate::math::{Real, Wide};
use crate::simd::{self, Level, Task};
use rustorch_core::{Fault, Softmax, View, ViewMut};

/// The fewest columns for which this is worth its while: a cache line of them.
const FEWEST: usize = 16;
/// Columns that are computed together, at least and at most.
const COLUMNS: [usize; 2] = [32, 128];
/// Elements that are computed together: a part of the second-level cache.
const TOGETHER: usize = 1 << 16;

/// Runs a softmax; `false`, and nothing is done, where it is along the last dimension, or rows are short or scattered.
pub(super) fn run<T: Wide>(
    pool: &ThreadPool,
    softmax: &Softmax,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<bool, Fault> {
    let (dims, axis, log) = (x.layout().dims(), softmax.axis, softmax.log);
    if axis + 1 >= dims.len() || dims[dims.len() - 1] < FEWEST || x.layout().numel() == 0 {
        return Ok(false);
    }
    let last = dims.len() - 1;
    let (len, width) = (dims[axis], dims[last]);
    let inner: usize = dims[axis + 1..last].iter().product();
    // Lines along the last dimension, numbered [outer, axis, inner].
    let (xs, outs) = (Rows::<T>::new(x, last)?, RowsMut::<T>::new(out, last)?);
    if !xs.is_contiguous() || !outs.is_contiguous() {
        return Ok(false);
    }
    let columns = (TOGETHER / len / FEWEST * FEWEST).clamp(COLUMNS[0], COLUMNS[1]);
    let blocks = width.div_ceil(columns);
    let grain = (1 << 11) / (len * columns.min(width));
    pool.ranges(xs.count() / len * blocks, grain.max(1), |range| {
        let (mut wide, mut scratch, mut narrowed) = (Vec::new(), Vec::new(), Vec::new());
        let mut sums = Vec::new();
        for block in range {
            let (at, from) = (block / blocks, block % blocks * columns);
            let (outer, rest) = (at / inner, at % inner);
            let n = columns.min(width - from);
            let line = |i: usize| (outer * len + i) * inner + rest;
            scratch.clear();
            let mut gathered = Vec::new();
            for i in 0..len {
                let row = &xs.row(line(i), &mut gathered)[from..from + n];
                scratch.extend_from_slice(T::widen(row, &mut wide));
            }
            sums.clear();
            sums.resize(WIDTH * n, T::Acc::ZERO);
            simd::run(Columns { log, n, rows: &mut scratch, sums: &mut sums });
            for (i, row) in scratch.chunks_exact(n).enumerate() {
                // SAFETY: each part of a line belongs to one block, and is written whole.
                let out = unsafe { outs.part(line(i), from..from + n) };
                T::narrow(out, &mut narrowed, |out| simd::run(Finish { log, row, sums: &sums[..n], out }));
            }
        }
    });
    Ok(true)
}

/// Makes, of rows of `n` columns, what results are made of: the exponential functions of the differences from the largest of each column,
/// or these differences, for logarithms; and the factor, or the logarithm, of the sums. Sums have the order of [`map_sum`](crate::kernels::lanes::map_sum),
/// so that results have the bits of contiguous lines.
struct Columns<'a, T> {
    log: bool,
    n: usize,
    rows: &'a mut [T],
    /// [`WIDTH`] rows of zeros, of which the first gets the results.
    sums: &'a mut [T],
}

impl<T: Real> Task for Columns<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Columns { log, n, rows, sums } = self;
        // NaN stays, as in rows.
        let mut largest = vec![T::NEG_INFINITY; n];
        for row in rows.chunks_exact(n) {
            for (largest, &x) in largest.iter_mut().zip(row) {
                *largest = largest.larger(x);
            }
        }
        for rows in rows.chunks_mut(WIDTH * n) {
            for (row, sums) in rows.chunks_exact_mut(n).zip(sums.chunks_exact_mut(n)) {
                for ((x, &largest), sum) in row.iter_mut().zip(&largest).zip(sums) {
                    let difference = *x - largest;
                    let e = difference.exp_normal(l);
                    *sum = *sum + e;
                    *x = if log { difference } else { e };
                }
            }
        }
        let mut width = WIDTH / 2;
        while width != 0 {
            let (low, high) = sums.split_at_mut(width * n);
            for (sum, &other) in low.iter_mut().zip(high.iter()) {
                *sum = *sum + other;
            }
            width /= 2;
        }
        for sum in &mut sums[..n] {
            *sum = if log { sum.ln(l) } else { T::ONE / *sum };
        }
    }
}

/// Results of one row.
struct Finish<'a, T> {
    log: bool,
    row: &'a [T],
    sums: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Task for Finish<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Finish { log, row, sums, out } = self;
        for ((out, &x), &sum) in out.iter_mut().zip(row).zip(sums) {
            *out = if log { x - sum } else { x * sum };
        }
    }
}

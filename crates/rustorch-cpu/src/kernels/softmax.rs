//! Softmax and its logarithm, and their gradients.

mod columns;

use super::lanes::{dot, map_sum_into, max, sum};
use super::strided::{for_row_pairs, for_rows, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, Level, Task};
use rustorch_core::{Fault, Softmax, SoftmaxBackward, View, ViewMut, dispatch_dtype};

pub(super) fn run(
    pool: &ThreadPool,
    softmax: &Softmax,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let log = softmax.log;
    let len = x.layout().dims().get(softmax.axis).copied().unwrap_or(1);
    dispatch_dtype!(x.dtype(), float, T => {
        if columns::run::<T>(pool, softmax, x, out)? {
            return Ok(());
        }
        for_rows(pool, x, out, softmax.axis, 4 * len, &|_, x: &[T], out: &mut [T]| {
            let (mut wide, mut result) = (Vec::new(), Vec::new());
            let x = T::widen(x, &mut wide);
            T::narrow(out, &mut result, |out| simd::run(Row { log, x, out }));
        })
    }, _ => Err(unreachable_memory()))
}

struct Row<'a, T> {
    log: bool,
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Task for Row<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Row { log, x, out } = self;
        let largest = max(x);
        // Where everything is −∞ there is no distribution; the difference is NaN, as in PyTorch.
        let total = map_sum_into(x, out, |x| (x - largest).exp_normal(l));
        if log {
            // The largest is taken off first: beside it, the logarithm would lose its digits.
            let shift = total.ln(l);
            for (x, out) in x.iter().zip(out) {
                *out = (*x - largest) - shift;
            }
        } else {
            let factor = T::ONE / total;
            for out in out {
                *out = *out * factor;
            }
        }
    }
}

/// The gradient of softmax, from that of its result and the result: each row while it is in the cache.
pub(super) fn backward(
    pool: &ThreadPool,
    softmax: &SoftmaxBackward,
    [grad, y]: [&View<'_>; 2],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let log = softmax.log;
    let len = y.layout().dims().get(softmax.axis).copied().unwrap_or(1);
    let cost = if log { 4 * len } else { 2 * len };
    dispatch_dtype!(y.dtype(), float, T => {
        for_row_pairs(pool, [grad, y], out, softmax.axis, cost, &|grad: &[T], y: &[T], out: &mut [T]| {
            let (mut wide, mut wide2, mut result) = (Vec::new(), Vec::new(), Vec::new());
            let (grad, y) = (T::widen(grad, &mut wide), T::widen(y, &mut wide2));
            T::narrow(out, &mut result, |out| simd::run(RowBackward { log, grad, y, out }));
        })
    }, _ => Err(unreachable_memory()))
}

struct RowBackward<'a, T> {
    log: bool,
    grad: &'a [T],
    y: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Task for RowBackward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let RowBackward { log, grad, y, out } = self;
        let pairs = grad.iter().zip(y).zip(out);
        if log {
            let total = sum(grad);
            for ((&grad, &y), out) in pairs {
                *out = grad - y.exp(l) * total;
            }
        } else {
            let total = dot(grad, y);
            for ((&grad, &y), out) in pairs {
                *out = (grad - total) * y;
            }
        }
    }
}

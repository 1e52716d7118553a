//! Softmax and its logarithm.

use super::strided::{for_rows, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, LANES, Level, Task};
use rustorch_core::{Fault, Softmax, View, ViewMut, dispatch_dtype};

pub(super) fn run(
    pool: &ThreadPool,
    softmax: &Softmax,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let log = softmax.log;
    let len = x.layout().dims().get(softmax.axis).copied().unwrap_or(1);
    dispatch_dtype!(x.dtype(), float, T => {
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
        for (x, out) in x.iter().zip(out.iter_mut()) {
            *out = (*x - largest).exp(l);
        }
        let total = sum(out);
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

/// Lanes of sums and maxima of whole rows: enough independent chains of operations to hide their latency.
const WIDTH: usize = 4 * LANES;

/// The largest element; NaN if any is, −∞ if there is none.
#[inline(always)]
pub(super) fn max<T: Real>(x: &[T]) -> T {
    let (chunks, tail) = x.as_chunks::<WIDTH>();
    // NaNs fail the comparison and are noted apart, which keeps the chains of dependent operations short.
    let mut lanes = [T::NEG_INFINITY; WIDTH];
    let mut nan = [T::ZERO; WIDTH];
    for chunk in chunks {
        keep_largest(&mut lanes, chunk);
        keep_nan(&mut nan, chunk);
    }
    keep_largest(&mut lanes, tail);
    keep_nan(&mut nan, tail);
    let mut width = WIDTH / 2;
    while width != 0 {
        let (low, high) = lanes.split_at_mut(width);
        keep_largest(low, &high[..width]);
        let (low, high) = nan.split_at_mut(width);
        keep_nan(low, &high[..width]);
        width /= 2;
    }
    if nan[0].is_nan() { nan[0] } else { lanes[0] }
}

#[inline(always)]
fn keep_largest<T: Real>(lanes: &mut [T], xs: &[T]) {
    for (lane, &x) in lanes.iter_mut().zip(xs) {
        *lane = if x > *lane { x } else { *lane };
    }
}

#[inline(always)]
fn keep_nan<T: Real>(lanes: &mut [T], xs: &[T]) {
    for (lane, &x) in lanes.iter_mut().zip(xs) {
        *lane = if x.is_nan() { x } else { *lane };
    }
}

/// The sum, by a fixed order of additions.
#[inline(always)]
pub(super) fn sum<T: Real>(x: &[T]) -> T {
    map_sum(x, |x| x)
}

/// The sum of a function of the elements, by a fixed order of additions.
#[inline(always)]
pub(super) fn map_sum<T: Real>(x: &[T], f: impl Fn(T) -> T) -> T {
    let (chunks, tail) = x.as_chunks::<WIDTH>();
    let mut lanes = [T::ZERO; WIDTH];
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = *lane + f(x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(tail) {
        *lane = *lane + f(x);
    }
    total(lanes)
}

/// The sums of the deviations from a number and of their squares, in one pass, each in the order of [`map_sum`].
#[inline(always)]
pub(super) fn deviations<T: Real>(x: &[T], centre: T) -> (T, T) {
    let (chunks, tail) = x.as_chunks::<WIDTH>();
    let (mut lanes, mut squares) = ([T::ZERO; WIDTH], [T::ZERO; WIDTH]);
    let add = |((lane, square), &x): ((&mut T, &mut T), &T)| {
        let deviation = x - centre;
        *lane = *lane + deviation;
        *square = *square + deviation * deviation;
    };
    for chunk in chunks {
        lanes.iter_mut().zip(&mut squares).zip(chunk).for_each(add);
    }
    lanes.iter_mut().zip(&mut squares).zip(tail).for_each(add);
    (total(lanes), total(squares))
}

#[inline(always)]
fn total<T: Real>(mut lanes: [T; WIDTH]) -> T {
    let mut width = WIDTH / 2;
    while width != 0 {
        for i in 0..width {
            lanes[i] = lanes[i] + lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

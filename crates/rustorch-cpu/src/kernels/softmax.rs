//! Softmax and its logarithm, and their gradients.

mod columns;

use super::strided::{for_row_pairs, for_rows, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, LANES, Level, Task};
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

/// Lanes of sums and maxima of whole rows: enough independent chains of operations to hide their latency.
const WIDTH: usize = 4 * LANES;

/// The largest element; NaN if any is, −∞ if there is none.
#[inline(always)]
pub(super) fn max<T: Real>(x: &[T]) -> T {
    let (chunks, tail) = x.as_chunks::<WIDTH>();
    // NaNs fail the comparison and are noted apart, which keeps the chains of dependent operations short.
    let (mut largest, mut nans) = ([T::NEG_INFINITY; WIDTH], [T::ZERO; WIDTH]);
    for chunk in chunks {
        keep_largest(&mut largest, chunk);
        keep_nan(&mut nans, chunk);
    }
    // See `sums`.
    let (mut lanes, mut nan) = (largest, nans);
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

/// The largest element that is a number, −∞ if there is none.
#[inline(always)]
pub(super) fn largest<T: Real>(x: &[T]) -> T {
    let (chunks, tail) = x.as_chunks::<WIDTH>();
    let mut whole = [T::NEG_INFINITY; WIDTH];
    for chunk in chunks {
        keep_largest(&mut whole, chunk);
    }
    // See `sums`.
    let mut lanes = whole;
    keep_largest(&mut lanes, tail);
    let mut width = WIDTH / 2;
    while width != 0 {
        let (low, high) = lanes.split_at_mut(width);
        keep_largest(low, &high[..width]);
        width /= 2;
    }
    lanes[0]
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
    let [sum] = sums([x], |[x]| [f(x)]);
    sum
}

/// The sum of the products of corresponding elements, by a fixed order of additions.
#[inline(always)]
pub(super) fn dot<T: Real>(x: &[T], y: &[T]) -> T {
    let [sum] = sums([x, y], |[x, y]| [x * y]);
    sum
}

/// The sums of the deviations from a number and of their squares, in one pass, each in the order of [`map_sum`].
#[inline(always)]
pub(super) fn deviations<T: Real>(x: &[T], centre: T) -> (T, T) {
    let [sum, squares] = sums([x], |[x]| {
        let deviation = x - centre;
        [deviation, deviation * deviation]
    });
    (sum, squares)
}

/// The sums of some numbers and of their products with the deviations of others from `centre + rest`, in one pass, each in the order of
/// [`map_sum`].
#[inline(always)]
pub(super) fn weighted_deviations<T: Real>(weights: &[T], x: &[T], centre: T, rest: T) -> (T, T) {
    let [sum, products] = sums([weights, x], |[w, x]| [w, w * (x - centre - rest)]);
    (sum, products)
}

/// The sums of functions of corresponding elements, in one pass, by a fixed order of additions.
#[inline(always)]
pub(super) fn sums<T: Real, const N: usize, const M: usize>(
    x: [&[T]; N],
    f: impl Fn([T; N]) -> [T; M],
) -> [T; M] {
    let chunks = x.map(|x| x.as_chunks::<WIDTH>());
    let mut whole = [[T::ZERO; WIDTH]; M];
    for i in 0..chunks.iter().map(|(whole, _)| whole.len()).min().unwrap_or(0) {
        let chunk = chunks.map(|(whole, _)| &whole[i]);
        for j in 0..WIDTH {
            let terms = f(chunk.map(|chunk| chunk[j]));
            for (lanes, term) in whole.iter_mut().zip(terms) {
                lanes[j] = lanes[j] + term;
            }
        }
    }
    // Lanes that are indexed by a number that is not known before would be kept in memory, not in registers: these are others.
    let mut lanes = whole;
    let tails = chunks.map(|(_, tail)| tail);
    for j in 0..tails.iter().map(|tail| tail.len()).min().unwrap_or(0) {
        let terms = f(tails.map(|tail| tail[j]));
        for (lanes, term) in lanes.iter_mut().zip(terms) {
            lanes[j] = lanes[j] + term;
        }
    }
    lanes.map(total)
}

/// The sum of lanes, by a fixed tree.
#[inline(always)]
pub(super) fn total<T: Real, const N: usize>(mut lanes: [T; N]) -> T {
    let mut width = N / 2;
    while width != 0 {
        for i in 0..width {
            lanes[i] = lanes[i] + lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

//! Sums and maxima of rows, in lanes: by a fixed order of operations, whatever the instruction set.

use crate::math::Real;
use crate::simd::{LANES, prefetch};

/// Lanes: enough independent chains of operations to hide their latency.
pub(super) const WIDTH: usize = 4 * LANES;

/// The largest element; NaN if any is, −∞ if there is none.
#[inline(always)]
pub(super) fn max<T: Real>(x: &[T]) -> T {
    // NaNs fail the comparison and are noted apart, which keeps the chains of dependent operations short.
    let [largest, nan] = lanes([x], [T::NEG_INFINITY, T::ZERO], |[largest, nan], [x]| {
        [larger(x, largest), if x.is_nan() { x } else { nan }]
    });
    let nan = fold(nan, |nan, other| if other.is_nan() { other } else { nan });
    if nan.is_nan() { nan } else { fold(largest, larger) }
}

/// The largest element that is a number, −∞ if there is none.
#[inline(always)]
pub(super) fn largest<T: Real>(x: &[T]) -> T {
    let [largest] = lanes([x], [T::NEG_INFINITY], |[largest], [x]| [larger(x, largest)]);
    fold(largest, larger)
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

/// Writes a function of the elements, and returns the sum of what was written, in the order of [`map_sum`]. Prefetches the elements behind
/// these: those of the next row, in most cases.
#[inline(always)]
pub(super) fn map_sum_into<T: Real>(x: &[T], out: &mut [T], f: impl Fn(T) -> T) -> T {
    let next = x.as_ptr_range().end;
    let (chunks, tail) = x.as_chunks::<WIDTH>();
    let (outs, out_tail) = out.as_chunks_mut::<WIDTH>();
    let mut whole = [T::ZERO; WIDTH];
    for (i, (chunk, out)) in chunks.iter().zip(outs).enumerate() {
        prefetch_chunk(next, i);
        for j in 0..WIDTH {
            out[j] = f(chunk[j]);
            whole[j] = whole[j] + out[j];
        }
    }
    // See `lanes`.
    let mut lanes = whole;
    for ((lane, &x), out) in lanes.iter_mut().zip(tail).zip(out_tail) {
        *out = f(x);
        *lane = *lane + *out;
    }
    total(lanes)
}

/// The sum of the products of corresponding elements, by a fixed order of additions.
#[inline(always)]
pub(super) fn dot<T: Real>(x: &[T], y: &[T]) -> T {
    let [sum] = sums([x, y], |[x, y]| [x * y]);
    sum
}

/// The sums of the deviations from a number and of their squares, in one pass, each in the order of [`map_sum`]. Prefetches as many elements
/// from an address on, unless it is null.
#[inline(always)]
pub(super) fn deviations<T: Real>(x: &[T], centre: T, ahead: *const T) -> (T, T) {
    let take = |[sum, squares]: [T; 2], [x]: [T; 1]| {
        let deviation = x - centre;
        [sum + deviation, squares + deviation * deviation]
    };
    let [sum, squares] = if ahead.is_null() {
        lanes([x], [T::ZERO; 2], take)
    } else {
        lanes_beside([x], |i| prefetch_chunk(ahead, i), [T::ZERO; 2], take)
    };
    (total(sum), total(squares))
}

/// Writes a function of corresponding elements. `prefetches` the elements behind the first ones: those of the next row, in most cases.
#[inline(always)]
pub(super) fn map_into<T: Real, const N: usize>(
    x: [&[T]; N],
    out: &mut [T],
    f: impl Fn([T; N]) -> T,
    prefetches: bool,
) {
    let next = x[0].as_ptr_range().end;
    let chunks = Chunks::of(x);
    let (outs, out_tail) = out.as_chunks_mut::<WIDTH>();
    for (i, out) in outs.iter_mut().enumerate() {
        if prefetches {
            prefetch_chunk(next, i);
        }
        let chunk = chunks.at(i);
        for (j, out) in out.iter_mut().enumerate() {
            *out = f(elements(chunk, j));
        }
    }
    for (j, out) in out_tail.iter_mut().enumerate() {
        *out = f(elements(chunks.tails, j));
    }
}

/// Slices in chunks of [`WIDTH`] elements, and what is left of each.
// Not part of the loops: those are compiled for each closure, this once.
struct Chunks<'a, T, const N: usize> {
    whole: [&'a [[T; WIDTH]]; N],
    tails: [&'a [T]; N],
}

impl<'a, T: Copy, const N: usize> Chunks<'a, T, N> {
    #[inline(always)]
    fn of(x: [&'a [T]; N]) -> Chunks<'a, T, N> {
        let chunks = x.map(|x| x.as_chunks::<WIDTH>());
        Chunks { whole: chunks.map(|(whole, _)| whole), tails: chunks.map(|(_, tail)| tail) }
    }

    /// How many chunks each of the slices has.
    #[inline(always)]
    fn count(&self) -> usize {
        self.whole.iter().map(|whole| whole.len()).min().unwrap_or(0)
    }

    /// How many elements each of the slices has behind its chunks.
    #[inline(always)]
    fn left(&self) -> usize {
        self.tails.iter().map(|tail| tail.len()).min().unwrap_or(0)
    }

    /// A chunk of each slice.
    #[inline(always)]
    fn at(&self, i: usize) -> [&'a [T]; N] {
        self.whole.map(|whole| whole[i].as_slice())
    }
}

/// The elements at one place of several slices.
#[inline(always)]
pub(super) fn elements<T: Copy, const N: usize>(x: [&[T]; N], i: usize) -> [T; N] {
    x.map(|x| x[i])
}

/// Prefetches a chunk of [`WIDTH`] elements, counted from an address on.
#[inline(always)]
fn prefetch_chunk<T>(from: *const T, i: usize) {
    for j in (0..WIDTH).step_by(64 / size_of::<T>()) {
        prefetch(from.wrapping_add(i * WIDTH + j));
    }
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
    let sums = lanes(x, [T::ZERO; M], |mut sums, x| {
        for (sum, term) in sums.iter_mut().zip(f(x)) {
            *sum = *sum + term;
        }
        sums
    });
    sums.map(total)
}

/// What becomes of some numbers in each lane, which take in corresponding elements one after the other.
#[inline(always)]
pub(super) fn lanes<T: Copy, const N: usize, const M: usize>(
    x: [&[T]; N],
    start: [T; M],
    take: impl Fn([T; M], [T; N]) -> [T; M],
) -> [[T; WIDTH]; M] {
    lanes_beside(x, |_| {}, start, take)
}

/// [`lanes`], with something done before each chunk of [`WIDTH`] elements, which gets its number.
#[inline(always)]
fn lanes_beside<T: Copy, const N: usize, const M: usize>(
    x: [&[T]; N],
    beside: impl Fn(usize),
    start: [T; M],
    take: impl Fn([T; M], [T; N]) -> [T; M],
) -> [[T; WIDTH]; M] {
    let step = |lanes: &mut [[T; WIDTH]; M], j: usize, x: [T; N]| {
        let mut state = start;
        for (state, lanes) in state.iter_mut().zip(&*lanes) {
            *state = lanes[j];
        }
        for (lanes, state) in lanes.iter_mut().zip(take(state, x)) {
            lanes[j] = state;
        }
    };
    let chunks = Chunks::of(x);
    let mut whole = wide(start);
    for i in 0..chunks.count() {
        beside(i);
        let chunk = chunks.at(i);
        // New ones, not written where the old ones are: lanes that are written only where they change would be kept in memory.
        let mut next = whole;
        for j in 0..WIDTH {
            step(&mut next, j, elements(chunk, j));
        }
        whole = next;
    }
    // Lanes that are indexed by a number that is not known before would be kept in memory, not in registers: these are others.
    let mut lanes = whole;
    for j in 0..chunks.left() {
        step(&mut lanes, j, elements(chunks.tails, j));
    }
    lanes
}

/// Each number in all lanes.
#[inline(always)]
fn wide<T: Copy, const M: usize>(start: [T; M]) -> [[T; WIDTH]; M] {
    start.map(|start| [start; WIDTH])
}

/// The sum of lanes, by a fixed tree.
#[inline(always)]
pub(super) fn total<T: Real, const N: usize>(lanes: [T; N]) -> T {
    fold(lanes, |sum, other| sum + other)
}

/// One number of all lanes, by a fixed tree.
#[inline(always)]
pub(super) fn fold<T: Copy, const N: usize>(mut lanes: [T; N], join: impl Fn(T, T) -> T) -> T {
    let mut width = N / 2;
    while width != 0 {
        for i in 0..width {
            lanes[i] = join(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// `x` where it is larger. A NaN is not.
#[inline(always)]
fn larger<T: Real>(x: T, than: T) -> T {
    if x > than { x } else { than }
}

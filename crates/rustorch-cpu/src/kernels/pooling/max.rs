//! Maximum pooling with indices, and its backward.

use super::super::strided::{self, Disjoint, unreachable_memory};
use super::{by_plane, for_output_planes, lengths, planes, three};
use crate::ThreadPool;
use crate::math::Wide;
use crate::simd::{self, Level, Task};
use rustorch_core::{
    AdaptiveMaxPool, Element, Error, Fault, MaxPool, View, ViewMut, bf16, dispatch_dtype, f16,
};
use std::ops::Range;

/// Elements that have an order, in the sense of a maximum that NaN wins.
trait Ranked: Element {
    /// What a window of nothing has.
    const LEAST: Self;
    /// Whether this becomes the maximum, coming after `best`: NaN always does, and a number never after NaN.
    fn beats(self, best: Self) -> bool;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Ranked for $t {
            const LEAST: $t = <$t>::MIN;
            #[inline(always)]
            fn beats(self, best: $t) -> bool {
                self > best
            }
        }
    )*};
}

integers!(u8, i8, i16, i32, u32, i64);

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Ranked for $t {
            const LEAST: $t = <$t>::NEG_INFINITY;
            #[inline(always)]
            #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
            fn beats(self, best: $t) -> bool {
                (self > best) | (self != self)
            }
        }
    )*};
}

floats!(f32, f64);

macro_rules! halves {
    ($($t:ty),*) => {$(
        impl Ranked for $t {
            const LEAST: $t = <$t>::NEG_INFINITY;
            /// By the bits, which order like integers, so that loops become vector code.
            #[inline(always)]
            fn beats(self, best: $t) -> bool {
                const INFINITY: i16 = <$t>::INFINITY.to_bits() as i16;
                let (a, b) = (self.to_bits(), best.to_bits());
                (magnitude(a) > INFINITY) | ((order(a) > order(b)) & (magnitude(b) <= INFINITY))
            }
        }
    )*};
}

/// The bits of a 16-bit float without its sign.
#[inline(always)]
fn magnitude(bits: u16) -> i16 {
    (bits & 0x7fff) as i16
}

/// Integers in the order of 16-bit floats, zeros of either sign being one.
#[inline(always)]
fn order(bits: u16) -> i16 {
    if (bits as i16) < 0 { -magnitude(bits) } else { magnitude(bits) }
}

halves!(f16, bf16);

/// One spatial dimension of a pooling.
#[derive(Clone, Copy)]
struct Axis {
    input: usize,
    output: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
}

impl Axis {
    /// The index of element `k` of window `o`, if it lies inside the input.
    #[inline(always)]
    fn at(&self, o: usize, k: usize) -> Option<usize> {
        (o * self.stride + k * self.dilation).checked_sub(self.padding).filter(|&i| i < self.input)
    }

    /// The windows whose element `k` lies inside the input.
    #[inline(always)]
    fn inside(&self, k: usize) -> Range<usize> {
        let shift = k * self.dilation;
        let end = (self.input + self.padding).saturating_sub(shift).div_ceil(self.stride).min(self.output);
        let start = self.padding.saturating_sub(shift).div_ceil(self.stride);
        start.min(end)..end
    }
}

/// Runs `row(plane of x, [d, h], values, indices)` for every row of the outputs.
type MaxRow<'f, T> = dyn Fn(&[T], [usize; 2], &mut [T], &mut [i64]) + Sync + 'f;

fn for_rows<T: Element>(
    pool: &ThreadPool,
    x: &View<'_>,
    outs: &mut [ViewMut<'_>],
    n: usize,
    cost: usize,
    row: &MaxRow<'_, T>,
) -> Result<(), Fault> {
    let [values, indices] = outs else { return Err(unreachable_memory()) };
    let [depth, height, width] = lengths(values.layout().dims(), n);
    let x = planes::<T>(x, n)?;
    strided::with_slice(pool, values, |values: &mut [T]| {
        strided::with_slice(pool, indices, |indices: &mut [i64]| {
            if values.is_empty() {
                return Ok(());
            }
            let (values, indices) = (Disjoint::new(values), Disjoint::new(indices));
            pool.ranges(x.count() * depth * height, (1 << 13) / cost.max(1), |range| {
                let mut gathered = Vec::new();
                for (plane, part) in by_plane(range, depth * height) {
                    let first = plane * depth * height;
                    let x = x.chunk(plane, 0, x.len(), &mut gathered);
                    for i in part {
                        let start = (first + i) * width;
                        // SAFETY: each row belongs to one range.
                        let (values, indices) =
                            unsafe { (values.slice(start, width), indices.slice(start, width)) };
                        row(x, [i / height, i % height], values, indices);
                    }
                }
            });
            Ok(())
        })
    })
}

/// The largest of each window, and its index in the plane.
pub(crate) fn max_pool(
    pool: &ThreadPool,
    op: &MaxPool,
    x: &View<'_>,
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let n = op.window.kernel.len();
    let input = lengths(x.layout().dims(), n);
    let output = outs.first().map_or([0; 3], |out| lengths(out.layout().dims(), n));
    let [kernel, stride] = [&op.window.kernel, &op.window.stride].map(|list| three(list, 1));
    let (padding, dilation) = (three(&op.window.padding, 0), three(&op.dilation, 1));
    let axes: [Axis; 3] = std::array::from_fn(|i| Axis {
        input: input[i],
        output: output[i],
        kernel: kernel[i],
        stride: stride[i],
        padding: padding[i],
        dilation: dilation[i],
    });
    let cost = kernel.iter().fold(output[2], |n, &k| n.saturating_mul(k));
    dispatch_dtype!(x.dtype(), real, T => {
        for_rows(pool, x, outs, n, cost, &|plane: &[T], at, values, indices| {
            simd::run(WindowRow { plane, axes: &axes, at, values, indices });
        })
    }, _ => Err(unreachable_memory()))
}

/// A row of windows, all of whose elements of one number are compared at a time.
struct WindowRow<'a, T> {
    plane: &'a [T],
    axes: &'a [Axis; 3],
    at: [usize; 2],
    values: &'a mut [T],
    indices: &'a mut [i64],
}

impl<T: Ranked> Task for WindowRow<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let WindowRow { plane, axes: [depth, height, width], at, values, indices } = self;
        values.fill(T::LEAST);
        indices.fill(-1);
        for kd in 0..depth.kernel {
            let Some(d) = depth.at(at[0], kd) else { continue };
            for kh in 0..height.kernel {
                let Some(h) = height.at(at[1], kh) else { continue };
                let start = (d * height.input + h) * width.input;
                let row = &plane[start..start + width.input];
                for kw in 0..width.kernel {
                    let inside = width.inside(kw);
                    let Some(first) = width.at(inside.start, kw) else { continue };
                    let (values, indices) = (&mut values[inside.clone()], &mut indices[inside]);
                    keep(&row[first..], start + first, width.stride, values, indices);
                }
            }
        }
    }
}

/// Compares every `stride`-th element of `row`, whose first is number `start` in the plane, with the best so far.
#[inline(always)]
fn keep<T: Ranked>(row: &[T], start: usize, stride: usize, values: &mut [T], indices: &mut [i64]) {
    let start = start as i64;
    match stride {
        1 => {
            for (i, ((&x, best), at)) in row.iter().zip(values).zip(indices).enumerate() {
                keep_one(x, start + i as i64, best, at);
            }
        }
        2 => {
            // The last element may have no neighbour behind it.
            let Some(last) = values.len().checked_sub(1) else { return };
            keep_one(row[2 * last], start + 2 * last as i64, &mut values[last], &mut indices[last]);
            let (pairs, _) = row.as_chunks::<2>();
            for (i, ((&[x, _], best), at)) in
                pairs.iter().zip(&mut values[..last]).zip(&mut indices[..last]).enumerate()
            {
                keep_one(x, start + 2 * i as i64, best, at);
            }
        }
        _ => {
            for (i, (best, at)) in values.iter_mut().zip(indices).enumerate() {
                keep_one(row[i * stride], start + (i * stride) as i64, best, at);
            }
        }
    }
}

/// The first element that a window has is its best so far, be it −∞.
#[inline(always)]
fn keep_one<T: Ranked>(x: T, index: i64, best: &mut T, at: &mut i64) {
    let better = x.beats(*best) | (*at < 0);
    *best = if better { x } else { *best };
    *at = if better { index } else { *at };
}

/// The largest of as many windows as the output has.
pub(crate) fn adaptive_max_pool(
    pool: &ThreadPool,
    op: &AdaptiveMaxPool,
    x: &View<'_>,
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let n = op.size.len();
    let input = lengths(x.layout().dims(), n);
    let output = outs.first().map_or([0; 3], |out| lengths(out.layout().dims(), n));
    let range = |axis: usize, o: usize| {
        o * input[axis] / output[axis]..((o + 1) * input[axis]).div_ceil(output[axis])
    };
    let cost = (0..3).fold(output[2], |n, i| n.saturating_mul(input[i] / output[i].max(1) + 1));
    dispatch_dtype!(x.dtype(), real, T => {
        for_rows(pool, x, outs, n, cost, &|plane: &[T], at: [usize; 2], values: &mut [T], indices: &mut [i64]| {
            for (w, (best, index)) in values.iter_mut().zip(indices).enumerate() {
                let columns = range(2, w);
                (*best, *index) = (T::LEAST, -1);
                for d in range(0, at[0]) {
                    for h in range(1, at[1]) {
                        let start = (d * input[1] + h) * input[2] + columns.start;
                        for (i, &x) in plane[start..start + columns.len()].iter().enumerate() {
                            keep_one(x, (start + i) as i64, best, index);
                        }
                    }
                }
            }
        })
    }, _ => Err(unreachable_memory()))
}

/// Adds each gradient to the element that its index names.
pub(crate) fn max_pool_backward(
    pool: &ThreadPool,
    spatial: &[usize],
    grad: &View<'_>,
    indices: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let n = spatial.len();
    let plane: usize = spatial.iter().product();
    let pooled: usize = lengths(grad.layout().dims(), n).iter().product();
    let indices = strided::dense::<i64>(indices)?;
    if let Some(&index) = indices.iter().find(|&&i| i < -1 || i >= plane as i64) {
        return Err(Error::Index { op: "max_pool_backward", index, len: plane }.into());
    }
    dispatch_dtype!(grad.dtype(), float, T => {
        let grads = planes::<T>(grad, n)?;
        for_output_planes(pool, out, n, plane.saturating_add(4 * pooled), &|i, out: &mut [T]| {
            let (mut gathered, mut wide, mut result) = (Vec::new(), Vec::new(), Vec::new());
            let grads = T::widen(grads.chunk(i, 0, pooled, &mut gathered), &mut wide);
            T::narrow(out, &mut result, |out| {
                out.fill(Default::default());
                for (&g, &index) in grads.iter().zip(&indices[i * pooled..]) {
                    if let Ok(index) = usize::try_from(index) {
                        out[index] += g;
                    }
                }
            });
        })
    }, _ => Err(unreachable_memory()))
}

//! Interpolation in one to three dimensions, and its backward.
//!
//! Places and weights along each dimension are tabulated; a row of results is a weighted sum of rows of the input,
//! resampled along the width afterwards. Backward goes the same way back.

use super::super::strided::unreachable_memory;
use super::{AddScaled, for_output_planes, for_output_rows, lengths, planes, zeros};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, Level, Task};
use rustorch_core::{Fault, Interpolate, InterpolateMode, View, ViewMut, dispatch_dtype};

/// The elements of the input, with their weights, that make each output along one dimension.
struct Axis<T> {
    taps: usize,
    indices: Vec<usize>,
    weights: Vec<T>,
}

impl<T: Real> Axis<T> {
    /// A dimension that is not there.
    fn missing() -> Axis<T> {
        Axis { taps: 1, indices: vec![0], weights: vec![T::ONE] }
    }

    /// PyTorch's coordinates, in `T`.
    fn new(op: &Interpolate, factor: Option<f64>, len: usize, outputs: usize) -> Axis<T> {
        let scale = if op.align_corners {
            if outputs > 1 { number::<T>(len - 1) / number(outputs - 1) } else { T::ZERO }
        } else if let Some(factor) = factor {
            T::of(1.0 / factor)
        } else {
            number::<T>(len) / number(outputs)
        };
        let mut axis = Axis { taps: op.mode.taps(), indices: Vec::new(), weights: Vec::new() };
        for o in 0..outputs {
            if axis.taps == 1 {
                axis.indices.push(nearest(op.mode, scale, o).min(len - 1));
                axis.weights.push(T::ONE);
                continue;
            }
            let centre = || scale * (number::<T>(o) + T::of(0.5)) - T::of(0.5);
            let at = match op.mode {
                _ if op.align_corners => scale * number(o),
                InterpolateMode::Cubic => centre(),
                // Before the first element there is none.
                _ => centre().larger(T::ZERO),
            };
            let floor = at.floor().smaller(number(len - 1));
            let beyond = (at - floor).larger(T::ZERO).smaller(T::ONE);
            let index = |k: i64| (floor.to_f64() as i64 + k).clamp(0, len as i64 - 1) as usize;
            if axis.taps == 2 {
                axis.indices.extend((0..2).map(index));
                axis.weights.extend([T::ONE - beyond, beyond]);
            } else {
                axis.indices.extend((-1..3).map(index));
                axis.weights.extend(cubic(beyond));
            }
        }
        axis
    }

    fn taps(&self, o: usize) -> impl Iterator<Item = (usize, T)> + '_ {
        let range = o * self.taps..(o + 1) * self.taps;
        self.indices[range.clone()].iter().copied().zip(self.weights[range].iter().copied())
    }
}

/// The index of the element that output `o` takes, if there are so many. PyTorch rounds it to single precision first, and
/// multiplies and subtracts with one rounding.
fn nearest<T: Real>(mode: InterpolateMode, scale: T, o: usize) -> usize {
    let half = T::of(0.5);
    let at = match mode {
        InterpolateMode::Nearest => scale * number(o),
        _ => {
            let centre = T::of(scale.to_f64() * (number::<T>(o) + half).to_f64() - 0.5);
            centre.larger(T::ZERO) + half
        }
    };
    (at.to_f64() as f32).floor() as usize
}

fn number<T: Real>(n: usize) -> T {
    T::of(n as f64)
}

/// The weights of four neighbours of a point, `t` behind the second of them.
///
/// Keys: *Cubic Convolution Interpolation for Digital Image Processing*, 1981, with a = −¾.
fn cubic<T: Real>(t: T) -> [T; 4] {
    let a = T::of(-0.75);
    let near = |x: T| ((a + T::of(2.0)) * x - (a + T::of(3.0))) * x * x + T::ONE;
    let far = |x: T| ((a * x - T::of(5.0) * a) * x + T::of(8.0) * a) * x - T::of(4.0) * a;
    [far(t + T::ONE), near(t), near(T::ONE - t), far(T::of(2.0) - t)]
}

/// Tables for depth, height and width, from the lengths of input and output.
fn axes<T: Real>(op: &Interpolate, input: [usize; 3], output: [usize; 3]) -> [Axis<T>; 3] {
    let missing = 3 - op.size.len();
    std::array::from_fn(|i| match i.checked_sub(missing) {
        None => Axis::missing(),
        Some(dim) => Axis::new(op, op.factors[dim], input[i], output[i]),
    })
}

/// The input resampled.
pub(crate) fn interpolate(
    pool: &ThreadPool,
    op: &Interpolate,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let n = op.size.len();
    let (input, output) = (lengths(x.layout().dims(), n), lengths(out.layout().dims(), n));
    let [_, height, width] = input;
    let taps = op.mode.taps();
    dispatch_dtype!(x.dtype(), float, T => {
        let axes = axes::<<T as Wide>::Acc>(op, input, output);
        if taps == 1 {
            return for_output_rows(pool, x, out, n, output[2], &|plane: &[T], [d, h], out: &mut [T]| {
                let start = (axes[0].indices[d] * height + axes[1].indices[h]) * width;
                let row = &plane[start..start + width];
                for (out, &index) in out.iter_mut().zip(&axes[2].indices) {
                    *out = row[index];
                }
            });
        }
        let cost = axes[0].taps * axes[1].taps * width + taps * output[2];
        for_output_rows(pool, x, out, n, cost, &|plane: &[T], [d, h], out: &mut [T]| {
            let (mut line, mut wide, mut result) = (Vec::new(), Vec::new(), Vec::new());
            let line = zeros::<T>(&mut line, width);
            for (d, outer) in axes[0].taps(d) {
                for (h, inner) in axes[1].taps(h) {
                    let start = (d * height + h) * width;
                    let row = T::widen(&plane[start..start + width], &mut wide);
                    simd::run(AddScaled { sum: &mut *line, factor: outer * inner, row });
                }
            }
            T::narrow(out, &mut result, |out| simd::run(Resample { axis: &axes[2], line: &*line, out }));
        })
    }, _ => Err(unreachable_memory()))
}

/// `out[o] = Σ weight·line[index]`
struct Resample<'a, T> {
    axis: &'a Axis<T>,
    line: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Task for Resample<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Resample { axis, line, out } = self;
        let taps = axis.indices.chunks_exact(axis.taps).zip(axis.weights.chunks_exact(axis.taps));
        for (out, (indices, weights)) in out.iter_mut().zip(taps) {
            let mut total = weights[0] * line[indices[0]];
            for (&index, &weight) in indices[1..].iter().zip(&weights[1..]) {
                total = total + weight * line[index];
            }
            *out = total;
        }
    }
}

/// Each gradient shared out among the elements that made its output.
pub(crate) fn interpolate_backward(
    pool: &ThreadPool,
    op: &Interpolate,
    grad: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let n = op.size.len();
    let (input, output) = (lengths(out.layout().dims(), n), lengths(grad.layout().dims(), n));
    let [_, height, width] = input;
    let [depths, heights, widths] = output;
    dispatch_dtype!(grad.dtype(), float, T => {
        let axes = axes::<<T as Wide>::Acc>(op, input, output);
        let grads = planes::<T>(grad, n)?;
        let row = axes[0].taps * axes[1].taps * width + op.mode.taps() * widths;
        for_output_planes(pool, out, n, row.saturating_mul(depths * heights), &|i, out: &mut [T]| {
            let (mut gathered, mut wide, mut line, mut result) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            let grads = T::widen(grads.chunk(i, 0, grads.len(), &mut gathered), &mut wide);
            T::narrow(out, &mut result, |out| {
                out.fill(Default::default());
                for (i, grad) in grads.chunks_exact(widths).enumerate() {
                    let line = zeros::<T>(&mut line, width);
                    for (o, &g) in grad.iter().enumerate() {
                        for (index, weight) in axes[2].taps(o) {
                            line[index] += weight * g;
                        }
                    }
                    for (d, outer) in axes[0].taps(i / heights) {
                        for (h, inner) in axes[1].taps(i % heights) {
                            let start = (d * height + h) * width;
                            let sum = &mut out[start..start + width];
                            simd::run(AddScaled { sum, factor: outer * inner, row: &*line });
                        }
                    }
                }
            });
        })
    }, _ => Err(unreachable_memory()))
}

//! Layer and RMS normalisation.

use super::lanes::map_into;
use super::measure::{Measure, Moments};
use super::pointwise::add;
use super::strided::{self, Rows, RowsMut, for_rows, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, Level, Task};
use rustorch_core::{AddRmsNorm, Fault, LayerNorm, RmsNorm, Shape, View, ViewMut, dispatch_dtype};

/// `x / √(mean(x²) + eps) · weight`
pub(super) fn rms_norm(
    pool: &ThreadPool,
    norm: &RmsNorm,
    x: &View<'_>,
    affine: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    dispatch_dtype!(x.dtype(), float, T => {
        let weight = affine.first().map(wide::<T>).transpose()?;
        let axis = x.layout().ndim() - 1;
        for_rows(pool, x, out, axis, 2 * x.layout().dims()[axis], &|_, x: &[T], out: &mut [T]| {
            let (mut wide, mut result) = (Vec::new(), Vec::new());
            let x = T::widen(x, &mut wide);
            T::narrow(out, &mut result, |out| {
                simd::run(Rms { eps: norm.eps, x, weight: weight.as_deref(), out });
            });
        })
    }, _ => Err(unreachable_memory()))
}

/// `x + y`, and [`rms_norm`] of it.
pub(super) fn add_rms_norm(
    pool: &ThreadPool,
    norm: &AddRmsNorm,
    [x, y]: [&View<'_>; 2],
    affine: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let [sum, out] = outs else { return Err(unreachable_memory()) };
    dispatch_dtype!(x.dtype(), float, T => {
        let weight = affine.first().map(wide::<T>).transpose()?;
        let axis = x.layout().ndim() - 1;
        let (xs, ys) = (Rows::<T>::new(x, axis)?, Rows::<T>::new(y, axis)?);
        let (sums, outs) = (RowsMut::<T>::new(sum, axis)?, RowsMut::<T>::new(out, axis)?);
        let count = xs.count().min(ys.count()).min(sums.count()).min(outs.count());
        pool.ranges(count, (1 << 13) / (3 * xs.len()).max(1), |range| {
            let (mut gathered, mut gathered2) = (Vec::new(), Vec::new());
            let (mut scattered, mut scattered2) = (Vec::new(), Vec::new());
            let (mut wide, mut result) = (Vec::new(), Vec::new());
            for i in range {
                let (x, y) = (xs.row(i, &mut gathered), ys.row(i, &mut gathered2));
                let mut normalise = |sum: &mut [T], out: &mut [T]| {
                    add(x, y, sum);
                    let x = T::widen(sum, &mut wide);
                    T::narrow(out, &mut result, |out| {
                        simd::run(Rms { eps: norm.eps, x, weight: weight.as_deref(), out });
                    });
                };
                // SAFETY: each line belongs to one range; the sum is written before it is read, the result is not read.
                unsafe {
                    sums.with_row(i, &mut scattered, |sum| {
                        outs.with_row(i, &mut scattered2, |out| normalise(sum, out));
                    });
                }
            }
        });
        Ok(())
    }, _ => Err(unreachable_memory()))
}

/// `(x − mean) / √(variance + eps) · weight + bias` over the trailing dimensions.
pub(super) fn layer_norm(
    pool: &ThreadPool,
    norm: &LayerNorm,
    x: &View<'_>,
    affine: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    dispatch_dtype!(x.dtype(), float, T => {
        let weight = affine.first().map(wide::<T>).transpose()?;
        let bias = affine.get(1).map(wide::<T>).transpose()?;
        let row = |_: usize, x: &[T], out: &mut [T]| {
            let (mut wide, mut result) = (Vec::new(), Vec::new());
            let x = T::widen(x, &mut wide);
            T::narrow(out, &mut result, |out| {
                simd::run(Layer { eps: norm.eps, x, weight: weight.as_deref(), bias: bias.as_deref(), out });
            });
        };
        let merged = (strided::merge_last(x.layout(), norm.dims)?, strided::merge_last(out.layout(), norm.dims)?);
        if let (Some(from), Some(to)) = merged {
            let axis = from.ndim() - 1;
            let cost = 3 * from.dims()[axis];
            return for_rows(pool, &strided::part(x, &from), &mut strided::part_mut(out, &to), axis, cost, &row);
        }
        // The trailing dimensions are scattered: work on packed copies.
        let packed = strided::dense::<T>(x)?;
        let len = Shape::new(&x.layout().dims()[x.layout().ndim() - norm.dims..])?.numel();
        strided::with_slice(pool, out, |out: &mut [T]| {
            strided::par_units(pool, out, len, 1 << 12, |first, out| {
                for (i, out) in (first..).zip(out.chunks_exact_mut(len.max(1))) {
                    row(i, &packed[i * len..][..len], out);
                }
            });
            Ok(())
        })
    }, _ => Err(unreachable_memory()))
}

/// A weight or bias, as the kernels compute.
pub(super) fn wide<T: Wide>(x: &View<'_>) -> Result<Vec<T::Acc>, Fault> {
    let mut scratch = Vec::new();
    Ok(T::widen(&strided::dense::<T>(x)?, &mut scratch).to_vec())
}

struct Rms<'a, T> {
    eps: f64,
    x: &'a [T],
    weight: Option<&'a [T]>,
    out: &'a mut [T],
}

impl<T: Real> Task for Rms<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Rms { eps, x, weight, out } = self;
        let mean = T::of(squares(x) / x.len() as f64);
        let factor = T::ONE / (mean + T::of(eps)).sqrt();
        match weight {
            Some(weight) => {
                for ((out, &x), &w) in out.iter_mut().zip(x).zip(weight) {
                    *out = x * factor * w;
                }
            }
            None => {
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = x * factor;
                }
            }
        }
    }
}

/// The sum of squares, each rounded as an element is, in `f64`: so precise that the order does not matter.
#[inline(always)]
pub(super) fn squares<T: Real>(x: &[T]) -> f64 {
    let mut sums = [0.0; 16];
    let (chunks, rest) = x.as_chunks::<16>();
    for chunk in chunks {
        for (sum, &x) in sums.iter_mut().zip(chunk) {
            *sum += (x * x).to_f64();
        }
    }
    for (sum, &x) in sums.iter_mut().zip(rest) {
        *sum += (x * x).to_f64();
    }
    sums.iter().sum()
}

/// Bytes of rows during which the next one and the result's are prefetched: all of them, weight and bias are in the first-level cache then.
const NEAR: usize = 8 << 10;

struct Layer<'a, T> {
    eps: f64,
    x: &'a [T],
    weight: Option<&'a [T]>,
    bias: Option<&'a [T]>,
    out: &'a mut [T],
}

impl<T: Real> Task for Layer<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, level: L) {
        let Layer { eps, x, weight, bias, out } = self;
        let is_near = size_of_val(x) <= NEAR;
        let measure = Measure(x);
        let Moments { centre, rest, variance } = match is_near {
            true => measure.prefetching(out.as_ptr()),
            false => measure.run(level),
        };
        let factor = T::ONE / (variance + T::of(eps)).sqrt();
        let hat = |x: T| (x - centre - rest) * factor;
        match (weight, bias) {
            (None, _) => map_into([x], out, |[x]| hat(x), is_near),
            (Some(weight), None) => map_into([x, weight], out, |[x, w]| hat(x) * w, is_near),
            (Some(weight), Some(bias)) => {
                map_into([x, weight, bias], out, |[x, w, b]| hat(x) * w + b, is_near);
            }
        }
    }
}

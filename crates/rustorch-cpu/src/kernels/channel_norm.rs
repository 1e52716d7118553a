//! Batch and group normalisation: channels are dimension 1.

use super::measure::{Measure, Moments};
use super::strided::{self, Disjoint, Grid, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, Level, Task};
use rustorch_core::{BatchNorm, Fault, GroupNorm, View, ViewMut, dispatch_dtype};

/// Elements that are normalised at a time, where they could be more.
const CHUNK: usize = 1 << 16;

/// `(x − mean)·factor + bias`
#[derive(Clone, Copy)]
struct Affine<T> {
    mean: T,
    factor: T,
    bias: T,
}

impl<T: Real> Affine<T> {
    fn new(moments: Moments<T>, eps: f64, weight: Option<T>, bias: Option<T>) -> Affine<T> {
        let Moments { centre, rest, variance } = moments;
        let inverse = T::ONE / (variance + T::of(eps)).sqrt();
        let factor = weight.map_or(inverse, |w| w * inverse);
        Affine { mean: centre, factor, bias: bias.unwrap_or(T::ZERO) - rest * factor }
    }
}

/// A number for each channel, as the kernels compute.
pub(super) fn numbers<T: Real>(x: &View<'_>) -> Result<Vec<T>, Fault> {
    dispatch_dtype!(x.dtype(), float, U => {
        let mut scratch = Vec::new();
        let wide = <U as Wide>::widen(&strided::dense::<U>(x)?, &mut scratch).to_vec();
        Ok(wide.into_iter().map(|x| T::of(x.to_f64())).collect())
    }, _ => Err(unreachable_memory()))
}

/// Weight and bias, if given.
fn weight_and_bias<T: Real>(affine: &[View<'_>]) -> Result<[Option<Vec<T>>; 2], Fault> {
    Ok([affine.first().map(numbers).transpose()?, affine.get(1).map(numbers).transpose()?])
}

pub(super) fn at<T: Copy>(list: &Option<Vec<T>>, i: usize) -> Option<T> {
    list.as_ref().map(|list| list[i])
}

/// Batches, channels, and the elements of a channel of a sample.
pub(super) fn sizes(x: &View<'_>) -> [usize; 3] {
    let dims = x.layout().dims();
    [dims[0], dims[1], dims[2..].iter().product()]
}

/// The samples of a view.
pub(super) fn samples<'a, T: Wide>(x: &View<'a>) -> Result<Grid<'a, T>, Fault> {
    let axes: Vec<usize> = (0..x.layout().ndim()).collect();
    Grid::new(x, &axes[..1], &axes[1..])
}

/// Each channel normalised by given statistics.
pub(super) fn batch_norm(
    pool: &ThreadPool,
    norm: &BatchNorm,
    x: &View<'_>,
    [mean, variance]: [&View<'_>; 2],
    affine: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let [_, channels, len] = sizes(x);
    dispatch_dtype!(x.dtype(), float, T => {
        let [weight, bias] = weight_and_bias(affine)?;
        let (mean, variance) = (numbers(mean)?, numbers(variance)?);
        let affine: Vec<Affine<<T as Wide>::Acc>> = (0..channels)
            .map(|c| {
                let moments = Moments { centre: mean[c], rest: Real::ZERO, variance: variance[c] };
                Affine::new(moments, norm.eps, at(&weight, c), at(&bias, c))
            })
            .collect();
        let x = samples::<T>(x)?;
        let together = (CHUNK / len.max(1)).max(1);
        strided::with_slice(pool, out, |out: &mut [T]| {
            strided::par_units(pool, out, len, 1 << 13, |first, out| {
                let (mut gathered, mut wide, mut result) = (Vec::new(), Vec::new(), Vec::new());
                let (mut plane, mut rest) = (first, out);
                while !rest.is_empty() {
                    let (sample, channel) = (plane / channels, plane % channels);
                    let n = together.min(channels - channel).min(rest.len() / len);
                    let (part, others) = rest.split_at_mut(n * len);
                    let x = T::widen(x.chunk(sample, channel * len, n * len, &mut gathered), &mut wide);
                    let channels = &affine[channel..channel + n];
                    T::narrow(part, &mut result, |out| simd::run(Normalise { channels, x, out }));
                    (plane, rest) = (plane + n, others);
                }
            });
            Ok(())
        })
    }, _ => Err(unreachable_memory()))
}

/// Each channel normalised by its own statistics, which are returned, too.
pub(super) fn batch_norm_training(
    pool: &ThreadPool,
    norm: &BatchNorm,
    x: &View<'_>,
    affine: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let [out, mean, variance] = outs else { return Err(unreachable_memory()) };
    let [batches, channels, len] = sizes(x);
    let mut others: Vec<usize> = (0..x.layout().ndim()).collect();
    others.remove(1);
    if len == 1 {
        return batch_norm_rows(pool, norm, x, affine, [out, mean, variance]);
    }
    dispatch_dtype!(x.dtype(), float, T => {
        type Acc = <T as Wide>::Acc;
        let [weight, bias] = weight_and_bias::<Acc>(affine)?;
        let x = Grid::<T>::new(x, &[1], &others)?;
        strided::with_slice(pool, out, |out: &mut [T]| strided::with_slice(pool, mean, |mean: &mut [Acc]| {
            strided::with_slice(pool, variance, |variance: &mut [Acc]| {
                let out = Disjoint::new(out);
                let (means, variances) = (Disjoint::new(mean), Disjoint::new(variance));
                pool.ranges(channels, (1 << 12) / x.len().max(1), |range| {
                    let (mut gathered, mut wide, mut result) = (Vec::new(), Vec::new(), Vec::new());
                    let mut done = Vec::new();
                    for c in range {
                        let x = x.chunk(c, 0, x.len(), &mut gathered);
                        // Any number: all are overwritten.
                        done.clear();
                        done.extend_from_slice(x);
                        let x = T::widen(x, &mut wide);
                        let moments = simd::run(Measure(x));
                        let channel = Affine::new(moments, norm.eps, at(&weight, c), at(&bias, c));
                        T::narrow(&mut done, &mut result, |out| {
                            simd::run(Normalise { channels: &[channel], x, out });
                        });
                        // SAFETY: each channel belongs to one range.
                        unsafe {
                            means.slice(c, 1)[0] = moments.centre + moments.rest;
                            variances.slice(c, 1)[0] = moments.variance;
                        }
                        for batch in 0..batches {
                            // SAFETY: as above.
                            let place = unsafe { out.slice((batch * channels + c) * len, len) };
                            place.copy_from_slice(&done[batch * len..][..len]);
                        }
                    }
                });
                Ok(())
            })
        }))
    }, _ => Err(unreachable_memory()))
}

/// As [`batch_norm_training`] where a sample has one element of each channel: channels are contiguous, and samples are
/// added up row by row.
fn batch_norm_rows(
    pool: &ThreadPool,
    norm: &BatchNorm,
    x: &View<'_>,
    affine: &[View<'_>],
    [out, mean, variance]: [&mut ViewMut<'_>; 3],
) -> Result<(), Fault> {
    let [batches, channels, _] = sizes(x);
    dispatch_dtype!(x.dtype(), float, T => {
        type Acc = <T as Wide>::Acc;
        let [weight, bias] = weight_and_bias::<Acc>(affine)?;
        let x = samples::<T>(x)?;
        strided::with_slice(pool, out, |out: &mut [T]| strided::with_slice(pool, mean, |mean: &mut [Acc]| {
            strided::with_slice(pool, variance, |variance: &mut [Acc]| {
                let out = Disjoint::new(out);
                let (means, variances) = (Disjoint::new(mean), Disjoint::new(variance));
                // Several lines of a cache for each thread, so that none is written by two.
                pool.ranges(channels, (1 << 13) / batches.max(1) + 64, |range| {
                    let (start, n) = (range.start, range.len());
                    let (mut gathered, mut wide, mut result) = (Vec::new(), Vec::new(), Vec::new());
                    let mut columns = Columns {
                        centres: vec![<Acc as Real>::ZERO; n],
                        rests: vec![0.0; n],
                        squares: vec![0.0; n],
                    };
                    for batch in 0..batches {
                        let x = T::widen(x.chunk(batch, start, n, &mut gathered), &mut wide);
                        simd::run(AddRow { columns: &mut columns, x });
                    }
                    columns.centre(batches);
                    for batch in 0..batches {
                        let x = T::widen(x.chunk(batch, start, n, &mut gathered), &mut wide);
                        simd::run(Deviations { columns: &mut columns, x });
                    }
                    let moments: Vec<Moments<Acc>> = (0..n).map(|i| columns.moments(i, batches)).collect();
                    let affine: Vec<Affine<Acc>> = (start..)
                        .zip(&moments)
                        .map(|(c, &moments)| Affine::new(moments, norm.eps, at(&weight, c), at(&bias, c)))
                        .collect();
                    // SAFETY: each channel belongs to one range.
                    let (means, variances) = unsafe { (means.slice(start, n), variances.slice(start, n)) };
                    for ((moments, mean), variance) in moments.iter().zip(means).zip(variances) {
                        (*mean, *variance) = (moments.centre + moments.rest, moments.variance);
                    }
                    for batch in 0..batches {
                        let x = T::widen(x.chunk(batch, start, n, &mut gathered), &mut wide);
                        // SAFETY: as above.
                        let out = unsafe { out.slice(batch * channels + start, n) };
                        T::narrow(out, &mut result, |out| {
                            simd::run(Normalise { channels: &affine, x, out });
                        });
                    }
                });
                Ok(())
            })
        }))
    }, _ => Err(unreachable_memory()))
}

/// Sums over samples for contiguous channels.
struct Columns<T> {
    centres: Vec<T>,
    /// Of the elements, and later of their deviations.
    rests: Vec<f64>,
    /// Of the squares of the deviations.
    squares: Vec<f64>,
}

impl<T: Real> Columns<T> {
    /// Turns sums of `n` elements into means.
    fn centre(&mut self, n: usize) {
        for (centre, rest) in self.centres.iter_mut().zip(&mut self.rests) {
            *centre = T::of(*rest / n as f64);
            *rest = 0.0;
        }
    }

    /// The moments of channel `i`, of `n` elements.
    fn moments(&self, i: usize, n: usize) -> Moments<T> {
        Moments::new(self.centres[i], self.rests[i], self.squares[i], n)
    }
}

/// `rests += x`
struct AddRow<'a, T> {
    columns: &'a mut Columns<T>,
    x: &'a [T],
}

impl<T: Real> Task for AddRow<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        for (sum, &x) in self.columns.rests.iter_mut().zip(self.x) {
            *sum += x.to_f64();
        }
    }
}

/// `rests += x − centres` and `squares += (x − centres)²`
struct Deviations<'a, T> {
    columns: &'a mut Columns<T>,
    x: &'a [T],
}

impl<T: Real> Task for Deviations<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Columns { centres, rests, squares } = self.columns;
        for (((rest, square), &centre), &x) in rests.iter_mut().zip(squares).zip(&*centres).zip(self.x) {
            let deviation = (x - centre).to_f64();
            *rest += deviation;
            *square += deviation * deviation;
        }
    }
}

/// Groups of channels of each sample, normalised.
pub(super) fn group_norm(
    pool: &ThreadPool,
    norm: &GroupNorm,
    x: &View<'_>,
    affine: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let [_, channels, len] = sizes(x);
    let each = channels / norm.groups;
    dispatch_dtype!(x.dtype(), float, T => {
        let [weight, bias] = weight_and_bias(affine)?;
        let x = samples::<T>(x)?;
        let group = each * len;
        strided::with_slice(pool, out, |out: &mut [T]| {
            strided::par_units(pool, out, group, 1 << 12, |first, out| {
                let (mut gathered, mut wide, mut result) = (Vec::new(), Vec::new(), Vec::new());
                for (i, out) in (first..).zip(out.chunks_exact_mut(group)) {
                    let (sample, g) = (i / norm.groups, i % norm.groups);
                    let x = T::widen(x.chunk(sample, g * group, group, &mut gathered), &mut wide);
                    let moments = simd::run(Measure(x));
                    let channels: Vec<Affine<_>> = (g * each..(g + 1) * each)
                        .map(|c| Affine::new(moments, norm.eps, at(&weight, c), at(&bias, c)))
                        .collect();
                    T::narrow(out, &mut result, |out| simd::run(Normalise { channels: &channels, x, out }));
                }
            });
            Ok(())
        })
    }, _ => Err(unreachable_memory()))
}

/// Equally long runs of elements, one for each channel, normalised.
struct Normalise<'a, T> {
    channels: &'a [Affine<T>],
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Task for Normalise<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Normalise { channels, x, out } = self;
        if x.len() == channels.len() {
            for ((out, &x), &Affine { mean, factor, bias }) in out.iter_mut().zip(x).zip(channels) {
                *out = (x - mean) * factor + bias;
            }
            return;
        }
        let len = (x.len() / channels.len().max(1)).max(1);
        let runs = x.chunks_exact(len).zip(out.chunks_exact_mut(len));
        for ((x, out), &Affine { mean, factor, bias }) in runs.zip(channels) {
            for (out, &x) in out.iter_mut().zip(x) {
                *out = (x - mean) * factor + bias;
            }
        }
    }
}

//! Batch and group normalisation: channels are dimension 1.

use super::softmax::map_sum;
use super::strided::{self, Disjoint, Grid, unreachable_memory};
use crate::Pool;
use crate::math::{Real, Wide};
use crate::simd::{self, Level, Task};
use rustorch_core::{BatchNorm, Fault, GroupNorm, View, ViewMut, dispatch_dtype};

/// Elements summed in their own precision; sums of more are sums of such sums in `f64`.
const BLOCK: usize = 4096;
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
    fn new(mean: T, variance: T, eps: f64, weight: Option<T>, bias: Option<T>) -> Affine<T> {
        let inverse = T::ONE / (variance + T::of(eps)).sqrt();
        Affine { mean, factor: weight.map_or(inverse, |w| w * inverse), bias: bias.unwrap_or(T::ZERO) }
    }
}

/// A number for each channel, as the kernels compute.
fn numbers<T: Real>(x: &View<'_>) -> Result<Vec<T>, Fault> {
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

fn at<T: Copy>(list: &Option<Vec<T>>, i: usize) -> Option<T> {
    list.as_ref().map(|list| list[i])
}

/// Batches, channels, and the elements of a channel of a sample.
fn sizes(x: &View<'_>) -> [usize; 3] {
    let dims = x.layout().dims();
    [dims[0], dims[1], dims[2..].iter().product()]
}

/// The samples of a view.
fn samples<'a, T: Wide>(x: &View<'a>) -> Result<Grid<'a, T>, Fault> {
    let axes: Vec<usize> = (0..x.layout().rank()).collect();
    Grid::new(x, &axes[..1], &axes[1..])
}

/// Each channel normalised by given statistics.
pub(super) fn batch_norm(
    pool: &Pool,
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
            .map(|c| Affine::new(mean[c], variance[c], norm.eps, at(&weight, c), at(&bias, c)))
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
                    let x = T::widen(x.piece(sample, channel * len, n * len, &mut gathered), &mut wide);
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
    pool: &Pool,
    norm: &BatchNorm,
    x: &View<'_>,
    affine: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let [out, mean, variance] = outs else { return Err(unreachable_memory()) };
    let [batches, channels, len] = sizes(x);
    let mut others: Vec<usize> = (0..x.layout().rank()).collect();
    others.remove(1);
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
                        let x = x.piece(c, 0, x.len(), &mut gathered);
                        // Any number: all are overwritten.
                        done.clear();
                        done.extend_from_slice(x);
                        let x = T::widen(x, &mut wide);
                        let (mean, variance) = simd::run(Moments(x));
                        let channel = Affine::new(mean, variance, norm.eps, at(&weight, c), at(&bias, c));
                        T::narrow(&mut done, &mut result, |out| {
                            simd::run(Normalise { channels: &[channel], x, out });
                        });
                        // SAFETY: each channel belongs to one range.
                        unsafe {
                            means.slice(c, 1)[0] = mean;
                            variances.slice(c, 1)[0] = variance;
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

/// Groups of channels of each sample, normalised.
pub(super) fn group_norm(
    pool: &Pool,
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
                    let x = T::widen(x.piece(sample, g * group, group, &mut gathered), &mut wide);
                    let (mean, variance) = simd::run(Moments(x));
                    let channels: Vec<Affine<_>> = (g * each..(g + 1) * each)
                        .map(|c| Affine::new(mean, variance, norm.eps, at(&weight, c), at(&bias, c)))
                        .collect();
                    T::narrow(out, &mut result, |out| simd::run(Normalise { channels: &channels, x, out }));
                }
            });
            Ok(())
        })
    }, _ => Err(unreachable_memory()))
}

/// Mean and variance (divided by n), by a fixed order of additions.
struct Moments<'a, T>(&'a [T]);

impl<T: Real> Task for Moments<'_, T> {
    type Output = (T, T);
    #[inline(always)]
    fn run<L: Level>(self, _: L) -> (T, T) {
        let Moments(x) = self;
        let n = x.len() as f64;
        let mut total = 0.0;
        for block in x.chunks(BLOCK) {
            total += map_sum(block, |x| x).to_f64();
        }
        let mean = T::of(total / n);
        let mut squares = 0.0;
        for block in x.chunks(BLOCK) {
            squares += map_sum(block, |x| (x - mean) * (x - mean)).to_f64();
        }
        (mean, T::of(squares / n))
    }
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

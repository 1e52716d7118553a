//! Gradients of batch and group normalisation: a pass that sums over each channel, and one that writes, while its elements are in the
//! cache.

use super::channel_norm::{at, numbers, samples, sizes};
use super::lanes::weighted_deviations;
use super::measure::{Measure, Moments};
use super::strided::{self, Disjoint, Grid, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, Level, Task};
use rustorch_core::{BatchNormBackward, Fault, GroupNormBackward, View, ViewMut, dispatch_dtype};

/// Elements of a gradient that are read twice while they are in the cache, where they could be more.
const CHUNK: usize = 1 << 15;

/// Elements summed in their own precision; sums of more are sums of such sums in `f64`.
const RUN: usize = 4096;

/// Those gradients that are wanted, in the order of the results: of the input, the weight, the bias.
fn wanted<'a, 'v>(outs: &'a mut [ViewMut<'v>], wanted: [bool; 3]) -> [Option<&'a mut ViewMut<'v>>; 3] {
    let mut outs = outs.iter_mut();
    wanted.map(|wanted| if wanted { outs.next() } else { None })
}

/// Runs `fill` on the gradient of the input, if it is wanted.
fn with_place<T: Wide>(
    pool: &ThreadPool,
    out: Option<&mut ViewMut<'_>>,
    fill: impl FnOnce(Option<Disjoint<'_, T>>),
) -> Result<(), Fault> {
    match out {
        Some(out) => strided::with_slice(pool, out, |out: &mut [T]| {
            fill(Some(Disjoint::new(out)));
            Ok(())
        }),
        None => {
            fill(None);
            Ok(())
        }
    }
}

/// Writes sums over channels as the gradients of bias and weight.
fn write_sums<T: Real>(
    pool: &ThreadPool,
    [weight, bias]: [Option<&mut ViewMut<'_>>; 2],
    sums: &[[f64; 2]],
) -> Result<(), Fault> {
    for (out, which) in [(weight, 1), (bias, 0)] {
        let Some(out) = out else { continue };
        strided::with_slice(pool, out, |out: &mut [T]| {
            for (out, sums) in out.iter_mut().zip(sums) {
                *out = T::of(sums[which]);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// `grad · factor − level − (x − centre − rest) · inverse · along`: the gradient of the input of a channel.
#[derive(Clone, Copy)]
struct Channel<T> {
    centre: T,
    rest: T,
    factor: T,
    level: T,
    inverse: T,
    along: T,
}

pub(super) fn batch_norm(
    pool: &ThreadPool,
    op: &BatchNormBackward,
    [grad, x, mean, variance]: [&View<'_>; 4],
    weight: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let [dx, dweight, dbias] = wanted(outs, [op.x, op.weight, op.bias]);
    let [batches, channels, len] = sizes(x);
    let count = batches * len;
    dispatch_dtype!(x.dtype(), float, T => {
        type Acc = <T as Wide>::Acc;
        let weight = weight.first().map(numbers::<Acc>).transpose()?;
        let (mean, variance) = (numbers::<Acc>(mean)?, numbers::<Acc>(variance)?);
        let (grad, x) = (samples::<T>(grad)?, samples::<T>(x)?);
        let mut sums = vec![[0.0; 2]; channels];
        let all = Disjoint::new(&mut sums);
        // Several lines of a cache for each thread, where channels are interleaved, so that none is written by two.
        let least = if len == 1 { 64 } else { 1 };
        let together = (CHUNK / count.max(1)).max(least);
        with_place(pool, dx, |dx: Option<Disjoint<'_, T>>| {
            pool.ranges(if count == 0 { 0 } else { channels }, ((1 << 12) / count.max(1)).max(least), |range| {
                let (mut reader, mut result) = (Reader::new([&grad, &x]), Vec::new());
                for first in range.clone().step_by(together) {
                    let n = together.min(range.end - first);
                    // SAFETY: each channel belongs to one range.
                    let sums = unsafe { all.slice(first, n) };
                    let mut of: Vec<Channel<Acc>> = (first..first + n)
                        .map(|c| Channel { centre: mean[c], rest: Acc::ZERO, factor: Acc::ONE, level: Acc::ZERO, inverse: Acc::ONE, along: Acc::ZERO })
                        .collect();
                    for batch in 0..batches {
                        let [grad, x] = reader.read(batch, first * len, n * len);
                        simd::run(Sums { channels: &of, grad, x, sums });
                    }
                    for (i, (of, sums)) in of.iter_mut().zip(sums).enumerate() {
                        let inverse = Acc::ONE / (variance[first + i] + Acc::of(op.eps)).sqrt();
                        of.inverse = inverse;
                        of.factor = at(&weight, first + i).map_or(inverse, |w| w * inverse);
                        sums[1] *= inverse.to_f64();
                        if op.training {
                            of.level = of.factor * Acc::of(sums[0] / count as f64);
                            of.along = of.factor * Acc::of(sums[1] / count as f64);
                        }
                    }
                    let Some(dx) = &dx else { continue };
                    for batch in 0..batches {
                        let [grad, x] = reader.read(batch, first * len, n * len);
                        let x = op.training.then_some(x);
                        // SAFETY: as above.
                        let out = unsafe { dx.slice((batch * channels + first) * len, n * len) };
                        T::narrow(out, &mut result, |out| simd::run(Write { channels: &of, grad, x, out }));
                    }
                }
            });
        })?;
        write_sums::<Acc>(pool, [dweight, dbias], &sums)
    }, _ => Err(unreachable_memory()))
}

pub(super) fn group_norm(
    pool: &ThreadPool,
    op: &GroupNormBackward,
    [grad, x]: [&View<'_>; 2],
    weight: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let [dx, dweight, dbias] = wanted(outs, [op.x, op.weight, op.bias]);
    let [batches, channels, len] = sizes(x);
    let each = channels / op.groups;
    let group = each * len;
    dispatch_dtype!(x.dtype(), float, T => {
        type Acc = <T as Wide>::Acc;
        let weight = weight.first().map(numbers::<Acc>).transpose()?;
        let (grad, x) = (samples::<T>(grad)?, samples::<T>(x)?);
        let mut partial = vec![[0.0; 2]; batches * channels];
        let all = Disjoint::new(&mut partial);
        with_place(pool, dx, |dx: Option<Disjoint<'_, T>>| {
            pool.ranges(if group == 0 { 0 } else { batches * op.groups }, (1 << 12) / group.max(1), |range| {
                let (mut reader, mut result) = (Reader::new([&grad, &x]), Vec::new());
                let mut of: Vec<Channel<Acc>> = Vec::new();
                for i in range {
                    let (sample, first) = (i / op.groups, i % op.groups * each);
                    let [grad, x] = reader.read(sample, first * len, group);
                    let Moments { centre, rest, variance } = simd::run(Measure(x));
                    let inverse = Acc::ONE / (variance + Acc::of(op.eps)).sqrt();
                    of.clear();
                    of.extend((first..first + each).map(|c| {
                        let factor = at(&weight, c).unwrap_or(Acc::ONE);
                        Channel { centre, rest, factor, level: Acc::ZERO, inverse: Acc::ONE, along: Acc::ZERO }
                    }));
                    // SAFETY: each group of a sample belongs to one range.
                    let sums = unsafe { all.slice(sample * channels + first, each) };
                    simd::run(Sums { channels: &of, grad, x, sums });
                    let mut total = [0.0; 2];
                    for (of, sums) in of.iter().zip(&mut *sums) {
                        sums[1] *= inverse.to_f64();
                        total[0] += sums[0] * of.factor.to_f64();
                        total[1] += sums[1] * of.factor.to_f64();
                    }
                    let Some(dx) = &dx else { continue };
                    let [level, along] = total.map(|total| inverse * Acc::of(total / group as f64));
                    for of in &mut of {
                        (of.factor, of.inverse) = (of.factor * inverse, inverse);
                        (of.level, of.along) = (level, along);
                    }
                    // SAFETY: as above.
                    let out = unsafe { dx.slice((sample * channels + first) * len, group) };
                    T::narrow(out, &mut result, |out| {
                        simd::run(Write { channels: &of, grad, x: Some(x), out });
                    });
                }
            });
        })?;
        let mut sums = vec![[0.0; 2]; channels];
        for sample in partial.chunks_exact(channels.max(1)) {
            for (sum, part) in sums.iter_mut().zip(sample) {
                *sum = [sum[0] + part[0], sum[1] + part[1]];
            }
        }
        write_sums::<Acc>(pool, [dweight, dbias], &sums)
    }, _ => Err(unreachable_memory()))
}

/// Samples of the gradient and of what was normalised, and room where they are gathered and widened.
struct Reader<'a, T: Wide> {
    grids: [&'a Grid<'a, T>; 2],
    gathered: [Vec<T>; 2],
    wide: [Vec<T::Acc>; 2],
}

impl<'a, T: Wide> Reader<'a, T> {
    fn new(grids: [&'a Grid<'a, T>; 2]) -> Reader<'a, T> {
        Reader { grids, gathered: [Vec::new(), Vec::new()], wide: [Vec::new(), Vec::new()] }
    }

    /// `len` elements of a sample of each.
    fn read(&mut self, sample: usize, start: usize, len: usize) -> [&[T::Acc]; 2] {
        let ([grad, x], [grad_gathered, x_gathered]) = (self.grids, &mut self.gathered);
        let [grad_wide, x_wide] = &mut self.wide;
        [
            T::widen(grad.chunk(sample, start, len, grad_gathered), grad_wide),
            T::widen(x.chunk(sample, start, len, x_gathered), x_wide),
        ]
    }
}

/// Equally long runs of elements, one for each channel: sums of the gradient, and of its products with deviations.
struct Sums<'a, T> {
    channels: &'a [Channel<T>],
    grad: &'a [T],
    x: &'a [T],
    sums: &'a mut [[f64; 2]],
}

impl<T: Real> Task for Sums<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Sums { channels, grad, x, sums } = self;
        if x.len() == channels.len() {
            for (((sums, &grad), &x), of) in sums.iter_mut().zip(grad).zip(x).zip(channels) {
                sums[0] += grad.to_f64();
                sums[1] += (grad * (x - of.centre - of.rest)).to_f64();
            }
            return;
        }
        let len = (x.len() / channels.len().max(1)).max(1);
        let runs = grad.chunks_exact(len).zip(x.chunks_exact(len));
        for (((grad, x), of), sums) in runs.zip(channels).zip(sums) {
            for (grad, x) in grad.chunks(RUN).zip(x.chunks(RUN)) {
                let (sum, product) = weighted_deviations(grad, x, of.centre, of.rest);
                sums[0] += sum.to_f64();
                sums[1] += product.to_f64();
            }
        }
    }
}

/// Equally long runs of elements, one for each channel: the gradient of the input, which is a multiple of the result's where no input is
/// given.
struct Write<'a, T> {
    channels: &'a [Channel<T>],
    grad: &'a [T],
    x: Option<&'a [T]>,
    out: &'a mut [T],
}

impl<T: Real> Task for Write<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Write { channels, grad, x, out } = self;
        let len = (grad.len() / channels.len().max(1)).max(1);
        let Some(x) = x else {
            let runs = grad.chunks_exact(len).zip(out.chunks_exact_mut(len));
            for ((grad, out), of) in runs.zip(channels) {
                for (out, &grad) in out.iter_mut().zip(grad) {
                    *out = grad * of.factor;
                }
            }
            return;
        };
        let value = |of: &Channel<T>, grad: T, x: T| {
            grad * of.factor - of.level - (x - of.centre - of.rest) * of.inverse * of.along
        };
        if len == 1 {
            for (((out, &grad), &x), of) in out.iter_mut().zip(grad).zip(x).zip(channels) {
                *out = value(of, grad, x);
            }
            return;
        }
        let runs = grad.chunks_exact(len).zip(x.chunks_exact(len)).zip(out.chunks_exact_mut(len));
        for (((grad, x), out), of) in runs.zip(channels) {
            for ((out, &grad), &x) in out.iter_mut().zip(grad).zip(x) {
                *out = value(of, grad, x);
            }
        }
    }
}

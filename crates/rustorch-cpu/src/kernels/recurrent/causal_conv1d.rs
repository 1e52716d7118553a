//! Causal depthwise convolutions.

use super::vector::Vector;
use crate::ThreadPool;
use crate::kernels::strided::{Disjoint, Matrices, Matrix, dense, unreachable_memory, with_slice};
use crate::simd::{self, Level, Task};
use rustorch_core::{CausalConv1d, Fault, View, ViewMut, dispatch_dtype};
use std::ops::Range;

/// Channels that a task computes: rows of some cache lines.
const CHANNELS: usize = 256;
/// Positions that a task computes.
const POSITIONS: usize = 128;

pub(in crate::kernels) fn run(
    pool: &ThreadPool,
    op: &CausalConv1d,
    args: [&View<'_>; 3],
    bias: Option<&View<'_>>,
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    dispatch_dtype!(args[0].dtype(), [F32 F64], T => typed::<T>(pool, op, args, bias, outs), _ => Err(unreachable_memory()))
}

fn typed<T: Vector>(
    pool: &ThreadPool,
    op: &CausalConv1d,
    [x, weight, state]: [&View<'_>; 3],
    bias: Option<&View<'_>>,
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let [out, next] = outs else { return Err(unreachable_memory()) };
    let [batch, seq, channels] = *x.layout().dims() else { return Err(unreachable_memory()) };
    let (x, state) = (Matrices::<T>::new(x)?, Matrices::<T>::new(state)?);
    let (kernel, weight) = (weight.layout().dims()[1], dense::<T>(weight)?);
    let bias = bias.map(dense::<T>).transpose()?;
    let across = channels.div_ceil(CHANNELS);
    // One at least: it is the last that writes the next state.
    let along = seq.div_ceil(POSITIONS).max(1);
    with_slice(pool, out, |out: &mut [T]| {
        with_slice(pool, next, |next: &mut [T]| {
            let (out, next) = (Disjoint::new(out), Disjoint::new(next));
            let grain = (1 << 12) / (CHANNELS.min(channels) * POSITIONS.min(seq)).max(1);
            pool.ranges(batch * along * across, grain, |tasks| {
                for task in tasks {
                    let (unit, part) = (task / across, task % across);
                    let (sequence, chunk) = (unit / along, unit % along);
                    simd::run(Channels {
                        x: x.matrix(sequence),
                        state: state.matrix(sequence),
                        weight: &weight,
                        bias: bias.as_deref(),
                        silu: op.silu,
                        out: &out,
                        next: &next,
                        sizes: Sizes { seq, channels, kernel },
                        sequence,
                        positions: chunk * POSITIONS..seq.min((chunk + 1) * POSITIONS),
                        channels: part * CHANNELS..channels.min((part + 1) * CHANNELS),
                    });
                }
            });
            Ok(())
        })
    })
}

#[derive(Clone, Copy)]
struct Sizes {
    seq: usize,
    channels: usize,
    kernel: usize,
}

/// Some positions of some channels of one sequence.
struct Channels<'a, T> {
    x: Matrix<'a, T>,
    state: Matrix<'a, T>,
    /// `[channels, kernel]`
    weight: &'a [T],
    bias: Option<&'a [T]>,
    silu: bool,
    out: &'a Disjoint<'a, T>,
    next: &'a Disjoint<'a, T>,
    sizes: Sizes,
    sequence: usize,
    positions: Range<usize>,
    channels: Range<usize>,
}

impl<T: Vector> Channels<'_, T> {
    /// Row `i` of the state and the sequence behind it.
    #[inline(always)]
    fn row(&self, i: usize) -> &[T] {
        let before = self.sizes.kernel - 1;
        let row = if i < before { self.state.row(i) } else { self.x.row(i - before) };
        &row[self.channels.clone()]
    }

    /// Adds what position `t` has by `N` elements of the kernel from `first` on, one after the other.
    #[inline(always)]
    fn add_taps<L: Level, const N: usize>(&self, l: L, t: usize, first: usize, weights: &[T], out: &mut [T]) {
        let mut taps = [(&[][..], &[][..]); N];
        for i in 0..N {
            let weights = &weights[(first + i) * out.len()..][..out.len()];
            taps[i] = (&self.row(t + first + i)[..out.len()], weights);
        }
        for (c, out) in out.iter_mut().enumerate() {
            for (x, weight) in taps {
                *out = weight[c].fma(l, x[c], *out);
            }
        }
    }
}

impl<T: Vector> Task for Channels<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Sizes { seq, channels, kernel } = self.sizes;
        let width = self.channels.len();
        // A row for each element of the kernel.
        let mut weights = vec![T::ZERO; kernel * width];
        let from = &self.weight[self.channels.start * kernel..self.channels.end * kernel];
        match kernel {
            3 => transpose::<T, 3>(from, &mut weights),
            4 => transpose::<T, 4>(from, &mut weights),
            _ => {
                for (i, weights) in weights.chunks_exact_mut(width).enumerate() {
                    for (to, from) in weights.iter_mut().zip(from.chunks_exact(kernel)) {
                        *to = from[i];
                    }
                }
            }
        }
        for t in self.positions.clone() {
            let start = (self.sequence * seq + t) * channels + self.channels.start;
            // SAFETY: tasks have different positions or different channels.
            let out = unsafe { self.out.slice(start, width) };
            out.fill(T::ZERO);
            // Common kernels in one pass.
            match kernel {
                3 => self.add_taps::<L, 3>(l, t, 0, &weights, out),
                4 => self.add_taps::<L, 4>(l, t, 0, &weights, out),
                _ => {
                    for i in 0..kernel {
                        self.add_taps::<L, 1>(l, t, i, &weights, out);
                    }
                }
            }
            if let Some(bias) = self.bias {
                for (out, &bias) in out.iter_mut().zip(&bias[self.channels.clone()]) {
                    *out = *out + bias;
                }
            }
            if self.silu {
                for out in out {
                    *out = out.swish(l);
                }
            }
        }
        if self.positions.end == seq {
            for i in 0..kernel - 1 {
                let start = (self.sequence * (kernel - 1) + i) * channels + self.channels.start;
                // SAFETY: tasks that reach the end of a sequence have different channels.
                unsafe { self.next.slice(start, width) }.copy_from_slice(self.row(seq + i));
            }
        }
    }
}

/// `[channels, N]` to `[N, channels]`.
#[inline(always)]
fn transpose<T: Vector, const N: usize>(from: &[T], to: &mut [T]) {
    let (from, _) = from.as_chunks::<N>();
    for (i, to) in to.chunks_exact_mut(from.len()).enumerate() {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from[i];
        }
    }
}

//! Gradients of layer and RMS normalisation: one pass over each row while it is in the cache, which measures it again.

use super::lanes::total;
use super::measure::{Measure, Moments};
use super::norm::{squares, wide};
use super::strided::{self, Disjoint, Grid, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, LANES, Level, Task};
use rustorch_core::{Fault, LayerNormBackward, RmsNormBackward, View, ViewMut, dispatch_dtype};

/// The fewest rows whose gradients of weight and bias are added up by one thread, and the most such blocks: results depend on
/// the number of rows, not of threads.
const BLOCK: usize = 16;
const BLOCKS: usize = 64;

/// Elements summed in their own precision; sums of more are sums of such sums in `f64`.
const RUN: usize = 4096;

/// Lanes of sums over a row.
const WIDTH: usize = 2 * LANES;

/// What is differentiated, and which gradients are wanted.
#[derive(Clone, Copy)]
struct Norm {
    dims: usize,
    eps: f64,
    /// Whether the mean is subtracted.
    centred: bool,
    /// Those of the input, the weight, the bias.
    wanted: [bool; 3],
}

pub(super) fn layer_norm(
    pool: &ThreadPool,
    op: &LayerNormBackward,
    args: [&View<'_>; 2],
    weight: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let wanted = [op.x, op.weight, op.bias];
    backward(pool, Norm { dims: op.dims, eps: op.eps, centred: true, wanted }, args, weight, outs)
}

pub(super) fn rms_norm(
    pool: &ThreadPool,
    op: &RmsNormBackward,
    args: [&View<'_>; 2],
    weight: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let wanted = [op.x, op.weight, false];
    backward(pool, Norm { dims: 1, eps: op.eps, centred: false, wanted }, args, weight, outs)
}

fn backward(
    pool: &ThreadPool,
    norm: Norm,
    [grad, x]: [&View<'_>; 2],
    weight: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let mut outs = outs.iter_mut();
    let [dx, dweight, dbias] = norm.wanted.map(|wanted| if wanted { outs.next() } else { None });
    let axes: Vec<usize> = (0..x.layout().ndim()).collect();
    let (outer, inner) = axes.split_at(axes.len() - norm.dims);
    dispatch_dtype!(x.dtype(), float, T => {
        let (grad, x) = (Grid::<T>::new(grad, outer, inner)?, Grid::<T>::new(x, outer, inner)?);
        let weight = match weight.first() {
            Some(weight) => wide::<T>(weight)?,
            None => vec![<T as Wide>::Acc::ONE; x.len()],
        };
        let rows = Rows { norm, grad, x, weight: &weight };
        let mut sums = [Vec::new(), Vec::new()];
        match dx {
            Some(dx) => strided::with_slice(pool, dx, |dx: &mut [T]| {
                sums = rows.run(pool, Some(dx));
                Ok(())
            })?,
            None => sums = rows.run(pool, None),
        }
        for (sums, out) in sums.iter().zip([dweight, dbias]) {
            let Some(out) = out else { continue };
            strided::with_slice(pool, out, |out: &mut [T]| {
                T::narrow(out, &mut Vec::new(), |out| out.copy_from_slice(sums));
                Ok(())
            })?;
        }
        Ok(())
    }, _ => Err(unreachable_memory()))
}

/// The rows of a gradient and of what was normalised.
struct Rows<'a, T: Wide> {
    norm: Norm,
    grad: Grid<'a, T>,
    x: Grid<'a, T>,
    /// Ones where there is none.
    weight: &'a [T::Acc],
}

impl<T: Wide> Rows<'_, T> {
    /// Writes the gradient of the input, if there is room for it, and returns those of weight and bias, as they are wanted.
    fn run(&self, pool: &ThreadPool, dx: Option<&mut [T]>) -> [Vec<T::Acc>; 2] {
        let (rows, len) = (self.x.count(), self.x.len());
        let [_, weight, bias] = self.norm.wanted;
        let lists = usize::from(weight) + usize::from(bias);
        // Without sums over rows they do not depend on each other.
        let block = if lists == 0 { 1 } else { BLOCK.max(rows.div_ceil(BLOCKS)) };
        let blocks = rows.div_ceil(block);
        let mut partial = vec![T::Acc::ZERO; blocks * lists * len];
        let (sums, dx) = (Disjoint::new(&mut partial), dx.map(Disjoint::new));
        pool.ranges(blocks, (1 << 13) / (6 * block * len).max(1), |range| {
            let mut scratch = Scratch::default();
            let mut unread = [(); 2].map(|()| vec![T::Acc::ZERO; len]);
            for b in range {
                // SAFETY: each block belongs to one range.
                let sums = unsafe { sums.slice(b * lists * len, lists * len) };
                let (of_weight, of_bias) = sums.split_at_mut(if weight { len } else { 0 });
                let [unread, unread2] = &mut unread;
                let of_weight = if weight { of_weight } else { unread };
                let of_bias = if bias { of_bias } else { unread2 };
                for i in b * block..((b + 1) * block).min(rows) {
                    let Scratch { gathered, gathered2, wide, wide2, result } = &mut scratch;
                    let grad = T::widen(self.grad.chunk(i, 0, len, gathered), wide);
                    let x = T::widen(self.x.chunk(i, 0, len, gathered2), wide2);
                    let mut run = |out: &mut [T::Acc]| {
                        simd::run(Row {
                            norm: self.norm,
                            grad,
                            x,
                            weight: self.weight,
                            sums: [&mut *of_weight, &mut *of_bias],
                            out,
                        });
                    };
                    match &dx {
                        // SAFETY: as above; each row belongs to one block.
                        Some(dx) => T::narrow(unsafe { dx.slice(i * len, len) }, result, run),
                        None => run(&mut []),
                    }
                }
            }
        });
        let own = |first: usize| {
            let mut total = vec![0.0; len];
            for block in partial.chunks_exact((lists * len).max(1)) {
                for (total, part) in total.iter_mut().zip(&block[first..]) {
                    *total += part.to_f64();
                }
            }
            total.into_iter().map(T::Acc::of).collect()
        };
        [
            if weight { own(0) } else { Vec::new() },
            if bias { own(if weight { len } else { 0 }) } else { Vec::new() },
        ]
    }
}

/// Buffers of a thread.
struct Scratch<T: Wide> {
    gathered: Vec<T>,
    gathered2: Vec<T>,
    wide: Vec<T::Acc>,
    wide2: Vec<T::Acc>,
    result: Vec<T::Acc>,
}

impl<T: Wide> Default for Scratch<T> {
    fn default() -> Scratch<T> {
        let (gathered, gathered2) = (Vec::new(), Vec::new());
        Scratch { gathered, gathered2, wide: Vec::new(), wide2: Vec::new(), result: Vec::new() }
    }
}

struct Row<'a, T> {
    norm: Norm,
    grad: &'a [T],
    x: &'a [T],
    /// Ones where there is none.
    weight: &'a [T],
    /// What gradients are added to, of the weight and of the bias: rows that nobody reads where none is wanted.
    sums: [&'a mut [T]; 2],
    /// Empty where no gradient of the input is wanted.
    out: &'a mut [T],
}

impl<T: Real> Task for Row<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, level: L) {
        let Row { norm, grad, x, weight, sums: [of_weight, of_bias], out } = self;
        let n = x.len() as f64;
        let Moments { centre, rest, variance } = match norm.centred {
            true => Measure(x).run(level),
            false => Moments { centre: T::ZERO, rest: T::ZERO, variance: T::of(squares(x) / n) },
        };
        let factor = T::ONE / (variance + T::of(norm.eps)).sqrt();
        let deviation = |x: T| x - centre - rest;
        let mut sums = [0.0; 2];
        let runs = grad.chunks(RUN).zip(x.chunks(RUN)).zip(weight.chunks(RUN));
        for (((grad, x), weight), (of_weight, of_bias)) in
            runs.zip(of_weight.chunks_mut(RUN).zip(of_bias.chunks_mut(RUN)))
        {
            let mut whole = [[T::ZERO; WIDTH]; 2];
            let add = |[grad, x, weight]: [T; 3], of_weight: &mut T, of_bias: &mut T| {
                let deviation = deviation(x);
                let weighted = grad * weight;
                *of_weight = *of_weight + grad * (deviation * factor);
                *of_bias = *of_bias + grad;
                [weighted, weighted * deviation]
            };
            let ((grads, grad), (xs, x)) = (grad.as_chunks::<WIDTH>(), x.as_chunks::<WIDTH>());
            let (weights, weight) = weight.as_chunks::<WIDTH>();
            let (of_weights, of_weight) = of_weight.as_chunks_mut::<WIDTH>();
            let (of_biases, of_bias) = of_bias.as_chunks_mut::<WIDTH>();
            let chunks = grads.iter().zip(xs).zip(weights).zip(of_weights.iter_mut().zip(of_biases));
            for (((grad, x), weight), (of_weight, of_bias)) in chunks {
                // Copies overlap nothing, so that the compiler need not look.
                let (mut weight_sums, mut bias_sums) = (*of_weight, *of_bias);
                let (grad, x, weight) = (*grad, *x, *weight);
                for j in 0..WIDTH {
                    let terms = add([grad[j], x[j], weight[j]], &mut weight_sums[j], &mut bias_sums[j]);
                    whole[0][j] = whole[0][j] + terms[0];
                    whole[1][j] = whole[1][j] + terms[1];
                }
                (*of_weight, *of_bias) = (weight_sums, bias_sums);
            }
            // Others than those above, which so are kept in registers.
            let mut lanes = whole;
            let rest = grad.iter().zip(x).zip(weight).zip(of_weight.iter_mut().zip(of_bias));
            for (j, (((&grad, &x), &weight), (of_weight, of_bias))) in rest.enumerate() {
                let terms = add([grad, x, weight], of_weight, of_bias);
                lanes[0][j] = lanes[0][j] + terms[0];
                lanes[1][j] = lanes[1][j] + terms[1];
            }
            let [lanes, products] = lanes;
            sums = [sums[0] + total(lanes).to_f64(), sums[1] + total(products).to_f64()];
        }
        // `(weighted − mean − hat · along) · factor`, with `hat = (x − centre − rest) · factor`.
        let level = if norm.centred { T::of(sums[0] / n) * factor } else { T::ZERO };
        let along = T::of(sums[1] / n) * factor * factor;
        for (((out, &grad), &weight), &x) in out.iter_mut().zip(grad).zip(weight).zip(x) {
            *out = grad * weight * factor - level - deviation(x) * factor * along;
        }
    }
}

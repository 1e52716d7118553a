//! The gates of LSTM and GRU, and their gradients: all gates of some elements of a row go to buffers, where results take their places, in one pass over the operands.

use super::lanes::elements;
use super::strided::{self, Disjoint, Grid, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, LANES, Level, Task};
use rustorch_core::{Fault, RnnGates, RnnGatesBackward, View, ViewMut, dispatch_dtype};

/// Elements of a row that are computed together.
const BLOCK: usize = 8 * LANES;
/// Elements that make a thread worth its while.
const GRAIN: usize = 1 << 11;

/// Lists of what an element has: each gate, states and gradients, in the order of the arguments; afterwards the results, in
/// their order. At most eight are filled, for the gradients of a GRU.
type Buffers<T> = [[T; BLOCK]; 9];

/// What is computed of the buffers.
trait Step: Copy + Sync {
    /// Computes the first elements, so many of each buffer.
    fn run<T: Real, L: Level>(self, l: L, n: usize, buffers: &mut Buffers<T>);
}

pub(super) fn run(
    pool: &ThreadPool,
    op: RnnGates,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    by_dtype(pool, op, op, args, outs)
}

pub(super) fn backward(
    pool: &ThreadPool,
    op: RnnGatesBackward,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    by_dtype(pool, op.forward(), op, args, outs)
}

fn by_dtype(
    pool: &ThreadPool,
    cell: RnnGates,
    step: impl Step,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let state = args.get(cell.gate_args()).ok_or_else(unreachable_memory)?;
    let axes: Vec<usize> = (0..state.layout().ndim()).collect();
    let (outer, inner) = axes.split_at(axes.len() - 1);
    dispatch_dtype!(state.dtype(), float, T => {
        let args: Vec<_> = args.iter().map(|x| Grid::<T>::new(x, outer, inner)).collect::<Result<_, _>>()?;
        let rows = Rows { step, width: args[cell.gate_args()].len(), args };
        match outs {
            [a] => strided::with_slice(pool, a, |a| rows.run(pool, [a])),
            [a, b] => strided::with_slice(pool, a, |a| strided::with_slice(pool, b, |b| rows.run(pool, [a, b]))),
            [a, b, c] => strided::with_slice(pool, a, |a| {
                strided::with_slice(pool, b, |b| strided::with_slice(pool, c, |c| rows.run(pool, [a, b, c])))
            }),
            _ => Err(unreachable_memory()),
        }
    }, _ => Err(unreachable_memory()))
}

/// The rows of the arguments.
struct Rows<'a, T: Wide, S> {
    step: S,
    args: Vec<Grid<'a, T>>,
    /// Elements of a row of the state; rows of gates have several times as many.
    width: usize,
}

impl<T: Wide, S: Step> Rows<'_, T, S> {
    fn run<const N: usize>(&self, pool: &ThreadPool, outs: [&mut [T]; N]) -> Result<(), Fault> {
        let Some(rows) = self.args.last().map(Grid::count).filter(|_| self.width != 0) else { return Ok(()) };
        let wide = outs.each_ref().map(|out| out.len().checked_div(rows).unwrap_or(0));
        let outs = outs.map(Disjoint::new);
        let blocks = self.width.div_ceil(BLOCK);
        pool.ranges(rows * blocks, GRAIN.div_ceil(self.width.min(BLOCK)), |range| {
            let mut buffers: Buffers<T::Acc> = [[T::Acc::ZERO; BLOCK]; 9];
            let (mut gathered, mut scratch) = (Vec::new(), Vec::new());
            for i in range {
                let (row, start) = (i / blocks, i % blocks * BLOCK);
                let n = BLOCK.min(self.width - start);
                let mut next = buffers.iter_mut();
                for x in &self.args {
                    for at in (start..x.len()).step_by(self.width) {
                        let Some(buffer) = next.next() else { continue };
                        let x = T::widen(x.chunk(row, at, n, &mut gathered), &mut scratch);
                        buffer[..n].copy_from_slice(x);
                    }
                }
                simd::run(Block { step: self.step, n, buffers: &mut buffers });
                let mut results = buffers.iter();
                for (out, wide) in outs.iter().zip(wide) {
                    for at in (start..wide).step_by(self.width) {
                        let Some(result) = results.next() else { continue };
                        // SAFETY: each block of each row belongs to one range.
                        let out = unsafe { out.slice(row * wide + at, n) };
                        T::narrow(out, &mut scratch, |out| out.copy_from_slice(&result[..n]));
                    }
                }
            }
        });
        Ok(())
    }
}

/// A block of a row.
struct Block<'a, T, S> {
    step: S,
    n: usize,
    buffers: &'a mut Buffers<T>,
}

impl<T: Real, S: Step> Task for Block<'_, T, S> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        // Whole vectors: what is behind the last element is of an earlier block.
        self.step.run(l, self.n.next_multiple_of(LANES), self.buffers);
    }
}

/// `out = f(out, xs)`, elementwise.
#[inline(always)]
fn each<T: Real, const N: usize>(out: &mut [T], xs: [&[T]; N], f: impl Fn(T, [T; N]) -> T) {
    let xs = firsts(xs, out.len());
    for (i, out) in out.iter_mut().enumerate() {
        *out = f(*out, elements(xs, i));
    }
}

/// The first elements of each slice.
#[inline(always)]
fn firsts<T, const N: usize>(xs: [&[T]; N], n: usize) -> [&[T]; N] {
    xs.map(|x| &x[..n])
}

/// The derivative of a sigmoid by its value.
#[inline(always)]
fn slope<T: Real>(y: T) -> T {
    y * (T::ONE - y)
}

/// The derivative of a hyperbolic tangent by its value.
#[inline(always)]
fn tanh_slope<T: Real>(y: T) -> T {
    T::ONE - y * y
}

/// The gates of a GRU in the places of those of the input: reset, update and new state.
#[inline(always)]
fn gru<T: Real, L: Level>(l: L, [r, z, n]: [&mut [T]; 3], [hr, hz, hn]: [&[T]; 3]) {
    each(r, [hr], |x, [h]| (x + h).sigmoid(l));
    each(z, [hz], |x, [h]| (x + h).sigmoid(l));
    each(n, [r, hn], |x, [r, h]| (x + r * h).tanh(l));
}

impl Step for RnnGates {
    #[inline(always)]
    fn run<T: Real, L: Level>(self, l: L, n: usize, buffers: &mut Buffers<T>) {
        match self {
            RnnGates::Lstm => {
                let [i, f, g, o, c, ..] = buffers.each_mut().map(|x| &mut x[..n]);
                each(c, [f, i, g], |c, [f, i, g]| f.sigmoid(l) * c + i.sigmoid(l) * g.tanh(l));
                each(i, [o, c], |_, [o, c]| o.sigmoid(l) * c.tanh(l));
                f.copy_from_slice(c);
            }
            RnnGates::Gru => {
                let [r, z, n, hr, hz, hn, h, ..] = buffers.each_mut().map(|x| &mut x[..n]);
                gru(l, [r, z, n], [hr, hz, hn]);
                each(r, [z, n, h], |_, [z, n, h]| n + z * (h - n));
            }
        }
    }
}

impl Step for RnnGatesBackward {
    #[inline(always)]
    fn run<T: Real, L: Level>(self, l: L, n: usize, buffers: &mut Buffers<T>) {
        match self {
            RnnGatesBackward::Lstm => {
                // Zeros stay in the place of a gradient of the cell that is not given.
                let [i, f, g, o, c, of_hidden, of_next, t, of_cell] = buffers.each_mut().map(|x| &mut x[..n]);
                for gate in [&mut *i, f, o] {
                    each(gate, [], |x, []| x.sigmoid(l));
                }
                each(g, [], |x, []| x.tanh(l));
                each(t, [i, f, g, c], |_, [i, f, g, c]| (f * c + i * g).tanh(l));
                each(of_cell, [of_next, of_hidden, o, t], |_, [next, d, o, t]| next + d * o * tanh_slope(t));
                each(o, [of_hidden, t], |o, [d, t]| d * t * slope(o));
                each(t, [of_cell, g, i], |_, [d, g, i]| d * g * slope(i));
                each(g, [of_cell, i], |g, [d, i]| d * i * tanh_slope(g));
                i.copy_from_slice(t);
                each(t, [of_cell, f], |_, [d, f]| d * f);
                each(f, [of_cell, c], |f, [d, c]| d * c * slope(f));
                c.copy_from_slice(t);
            }
            RnnGatesBackward::Gru => {
                let [r, z, n, hr, hz, hn, h, grad, _] = buffers.each_mut().map(|x| &mut x[..n]);
                gru(l, [r, z, n], [hr, hz, hn]);
                each(hz, [grad, h, n, z], |_, [d, h, n, z]| d * (h - n) * slope(z));
                each(h, [grad, z], |_, [d, z]| d * z);
                each(n, [grad, z], |n, [d, z]| d * (T::ONE - z) * tanh_slope(n));
                z.copy_from_slice(hz);
                each(hr, [n, hn, r], |_, [d, hn, r]| d * hn * slope(r));
                each(hn, [n, r], |_, [d, r]| d * r);
                r.copy_from_slice(hr);
            }
        }
    }
}

//! Reductions.
//!
//! A sequence is reduced in pieces of fixed length, each in an order of its own, and pieces are merged in their order:
//! the result does not depend on the number of threads. Where the kept elements lie side by side, many outputs are
//! reduced together, row by row; else one sequence at a time.

mod extreme;
mod fold;
mod input;
mod moments;

use super::strided::{self, Grid, unreachable_memory};
use crate::Pool;
use crate::simd::{self, Level, Task};
use extreme::{ArgExtreme, Extreme};
use fold::{Folded, NonZero, Product, Sum};
use input::{Input, Output};
use moments::{LogSumExp, Moments};
use rustorch_core::{DTypeKind, Dims, Element, Fault, Reduce, ReduceOp, View, ViewMut, dispatch_dtype};

/// Elements of a sequence reduced as one piece.
const PIECE: usize = 4096;
/// Rows reduced together before merging, and rows that make up one unit of parallel work.
const ROWS: usize = 64;
const SLAB: usize = 1024;
/// Columns reduced together.
const COLUMNS: usize = 512;

/// How to reduce numbers of type `C`.
trait Reducer<C>: Copy + Sync {
    /// What is known of a part of a sequence.
    type State: Copy + Send + Sync;
    /// What is known of nothing.
    fn empty(self) -> Self::State;
    /// A piece of a sequence, whose first element is number `start`.
    fn piece<L: Level>(self, l: L, x: &[C], start: usize) -> Self::State;
    /// Takes rows of as many sequences as there are states; the first row is number `start`.
    fn rows<L: Level>(self, l: L, rows: &[&[C]], start: usize, states: &mut [Self::State]);
    /// Two neighbouring parts.
    fn merge(self, a: Self::State, b: Self::State) -> Self::State;
}

pub(super) fn run(pool: &Pool, reduce: &Reduce, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), Fault> {
    let axes = &reduce.axes[..];
    let n: usize = axes.iter().map(|&axis| x.layout().dims()[axis]).product();
    let problem = Problem { pool, x, axes, n };
    let kind = x.dtype().kind();
    match reduce.op {
        ReduceOp::Sum | ReduceOp::Mean => {
            let scale = if reduce.op == ReduceOp::Mean { 1.0 / n as f64 } else { 1.0 };
            dispatch_dtype!(x.dtype(), all, T => {
                problem.solve::<T, _, <T as Input>::Sum>(Folded(Sum), out, |s| <T as Input>::Sum::scaled(s, scale))
            }, _ => Err(unreachable_memory()))
        }
        ReduceOp::Prod => dispatch_dtype!(x.dtype(), all, T => {
            problem.solve::<T, _, <T as Input>::Sum>(Folded(Product), out, |s| <T as Input>::Sum::scaled(s, 1.0))
        }, _ => Err(unreachable_memory())),
        ReduceOp::Any | ReduceOp::All => {
            let any = reduce.op == ReduceOp::Any;
            dispatch_dtype!(x.dtype(), all, T => {
                problem.solve::<T, _, bool>(Folded(NonZero { any }), out, |s| s)
            }, _ => Err(unreachable_memory()))
        }
        _ if kind == DTypeKind::Complex => Err(unreachable_memory()),
        ReduceOp::Max | ReduceOp::Min => {
            let largest = reduce.op == ReduceOp::Max;
            dispatch_dtype!(x.dtype(), [Bool U8 I8 I16 I32 U32 I64 F16 BF16 F32 F64], T => {
                problem.solve::<T, _, T>(Extreme { largest }, out, <T as Input>::restore)
            }, _ => Err(unreachable_memory()))
        }
        ReduceOp::ArgMax | ReduceOp::ArgMin => {
            let largest = reduce.op == ReduceOp::ArgMax;
            dispatch_dtype!(x.dtype(), [U8 I8 I16 I32 U32 I64 F16 BF16 F32 F64], T => {
                problem.solve::<T, _, i64>(ArgExtreme { largest }, out, |s| s.index as i64)
            }, _ => Err(unreachable_memory()))
        }
        ReduceOp::LogSumExp => dispatch_dtype!(x.dtype(), float, T => {
            problem.solve::<T, _, T>(LogSumExp, out, |s| T::scaled(s.finish(), 1.0))
        }, _ => Err(unreachable_memory())),
        ReduceOp::Var { correction } => dispatch_dtype!(x.dtype(), float, T => {
            problem.solve::<T, _, T>(Moments, out, |s| T::scaled(s.variance(correction), 1.0))
        }, _ => Err(unreachable_memory())),
        ReduceOp::Std { correction } => dispatch_dtype!(x.dtype(), float, T => {
            problem.solve::<T, _, T>(Moments, out, |s| T::scaled(s.variance(correction).sqrt(), 1.0))
        }, _ => Err(unreachable_memory())),
    }
}

struct Problem<'a> {
    pool: &'a Pool,
    x: &'a View<'a>,
    axes: &'a [usize],
    /// Elements reduced to one.
    n: usize,
}

impl Problem<'_> {
    fn solve<T: Input, R: Reducer<T::Computed>, U: Element>(
        &self,
        reducer: R,
        out: &mut ViewMut<'_>,
        finish: impl Fn(R::State) -> U + Sync,
    ) -> Result<(), Fault> {
        let layout = self.x.layout();
        let kept: Dims = (0..layout.rank()).filter(|axis| !self.axes.contains(axis)).collect();
        let grid = Grid::<T>::new(self.x, &kept, self.axes)?;
        // The last kept axis that is one.
        let side = kept.iter().rposition(|&axis| layout.dims()[axis] != 1);
        let columns = side.filter(|&i| {
            layout.strides()[kept[i]] == 1 && layout.dims()[kept[i]] >= 8 && !(grid.is_packed() && self.n > 1)
        });
        strided::with_slice(self.pool, out, |out: &mut [U]| {
            if out.is_empty() {
                return Ok(());
            }
            if self.n == 0 {
                out.fill_with(|| finish(reducer.empty()));
                return Ok(());
            }
            match columns {
                Some(i) => {
                    let outer: Dims = kept[..i].iter().chain(self.axes).copied().collect();
                    let rows = Grid::<T>::new(self.x, &outer, &kept[i..=i])?;
                    self.by_columns(&rows, reducer, out, finish);
                }
                None => self.by_sequence(&grid, reducer, out, finish),
            }
            Ok(())
        })
    }

    /// One output after another.
    fn by_sequence<T: Input, R: Reducer<T::Computed>, U: Element>(
        &self,
        grid: &Grid<'_, T>,
        reducer: R,
        out: &mut [U],
        finish: impl Fn(R::State) -> U + Sync,
    ) {
        let n = self.n;
        let pieces = n.div_ceil(PIECE);
        let piece = |i: usize, gathered: &mut Vec<T>, wide: &mut Vec<T::Computed>| {
            let (sequence, start) = (i / pieces, i % pieces * PIECE);
            let x = grid.piece(sequence, start, PIECE.min(n - start), gathered);
            simd::run(Piece(reducer, T::compute(x, wide), start))
        };
        if pieces == 1 {
            strided::par_units(self.pool, out, 1, (1 << 14) / n, |first, out| {
                let (mut gathered, mut wide) = (Vec::new(), Vec::new());
                for (i, out) in (first..).zip(out) {
                    *out = finish(piece(i, &mut gathered, &mut wide));
                }
            });
            return;
        }
        let mut states = vec![reducer.empty(); out.len() * pieces];
        strided::par_units(self.pool, &mut states, 1, 4, |first, states| {
            let (mut gathered, mut wide) = (Vec::new(), Vec::new());
            for (i, state) in (first..).zip(states) {
                *state = piece(i, &mut gathered, &mut wide);
            }
        });
        for (states, out) in states.chunks_exact(pieces).zip(out) {
            *out = finish(merge(reducer, states.iter().copied()));
        }
    }

    /// Outputs side by side, together.
    fn by_columns<T: Input, R: Reducer<T::Computed>, U: Element>(
        &self,
        grid: &Grid<'_, T>,
        reducer: R,
        out: &mut [U],
        finish: impl Fn(R::State) -> U + Sync,
    ) {
        let (n, width) = (self.n, grid.len());
        let (slabs, tiles) = (n.div_ceil(SLAB), width.div_ceil(COLUMNS));
        let groups = out.len() / width;
        // By slab, then by output.
        let mut states = vec![reducer.empty(); slabs * out.len()];
        let shared = strided::Disjoint::new(&mut states);
        let tasks = slabs * groups * tiles;
        let grain = (1 << 14) / (n.min(SLAB) * width.min(COLUMNS));
        self.pool.ranges(tasks, grain, |range| {
            let mut wide = vec![Vec::new(); ROWS];
            for task in range {
                let (slab, group, tile) = (task / tiles / groups, task / tiles % groups, task % tiles);
                let (from, to) = (tile * COLUMNS, width.min((tile + 1) * COLUMNS));
                let place = slab * groups * width + group * width + from;
                // SAFETY: tasks have different slabs, groups or tiles.
                let states = unsafe { shared.slice(place, to - from) };
                let last = n.min((slab + 1) * SLAB);
                for start in (slab * SLAB..last).step_by(ROWS) {
                    let mut rows: [&[T::Computed]; ROWS] = [&[]; ROWS];
                    let count = ROWS.min(last - start);
                    for ((i, row), wide) in rows[..count].iter_mut().enumerate().zip(&mut wide) {
                        let x = grid.packed(group * n + start + i, from, to - from);
                        *row = T::compute(x, wide);
                    }
                    simd::run(RowsOf(reducer, &rows[..count], start, states));
                }
            }
        });
        let outputs = out.len();
        strided::par_units(self.pool, out, 1, 1 << 14, |first, out| {
            for (i, out) in (first..).zip(out) {
                *out = finish(merge(reducer, (0..slabs).map(|slab| states[slab * outputs + i])));
            }
        });
    }
}

/// Parts in their order.
fn merge<C, R: Reducer<C>>(reducer: R, mut states: impl Iterator<Item = R::State>) -> R::State {
    let first = states.next().unwrap_or_else(|| reducer.empty());
    states.fold(first, |a, b| reducer.merge(a, b))
}

struct Piece<'a, C, R>(R, &'a [C], usize);

impl<C, R: Reducer<C>> Task for Piece<'_, C, R> {
    type Output = R::State;
    #[inline(always)]
    fn run<L: Level>(self, l: L) -> R::State {
        self.0.piece(l, self.1, self.2)
    }
}

struct RowsOf<'a, C, R: Reducer<C>>(R, &'a [&'a [C]], usize, &'a mut [R::State]);

impl<C, R: Reducer<C>> Task for RowsOf<'_, C, R> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        self.0.rows(l, self.1, self.2, self.3);
    }
}

#[cfg(test)]
mod tests;

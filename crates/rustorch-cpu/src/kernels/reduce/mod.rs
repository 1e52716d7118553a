//! Reductions.
//!
//! A sequence is reduced in chunks of fixed length, each in an order of its own, and chunks are merged in their order:
//! the result does not depend on the number of threads. Where the kept elements are contiguous, many outputs are
//! reduced together, row by row; else one sequence at a time.

mod extreme;
mod fold;
mod input;
mod moments;

use super::strided::{self, Disjoint, Grid, unreachable_memory};
use crate::ThreadPool;
use crate::simd::{self, Level, Task};
use extreme::{ArgExtreme, Extreme};
use fold::{Fold, Folded, NonZero, Product, Squares, Sum};
use input::{As, Rounded, Source};
use moments::{LogSumExp, Moments};
use rustorch_core::{
    C64, C128, DType, Dims, Element, Fault, Reduce, ReduceOp, View, ViewMut, bf16, dispatch_dtype, f16,
};

/// Elements of a sequence reduced as one chunk.
const CHUNK: usize = 4096;
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
    /// A chunk of a sequence, whose first element is number `start`.
    fn chunk<L: Level>(self, l: L, x: &[C], start: usize) -> Self::State;
    /// Takes rows of as many sequences as there are states; the first row is number `start`.
    fn rows<L: Level>(self, l: L, rows: &[&[C]], start: usize, states: &mut [Self::State]);
    /// Two neighbouring parts.
    fn merge(self, a: Self::State, b: Self::State) -> Self::State;
}

pub(super) fn run(
    pool: &ThreadPool,
    reduce: &Reduce,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let axes = &reduce.axes[..];
    let n: usize = axes.iter().map(|&axis| x.layout().dims()[axis]).product();
    let reduction = Reduction { pool, x, axes, n };
    match reduce.op {
        ReduceOp::Sum => reduction.fold(Sum, out, 1.0),
        ReduceOp::Mean => reduction.fold(Sum, out, 1.0 / n as f64),
        ReduceOp::Prod => reduction.fold(Product, out, 1.0),
        ReduceOp::Any | ReduceOp::All => {
            let reducer = Folded(NonZero { any: reduce.op == ReduceOp::Any });
            dispatch_dtype!(x.dtype(), all, T => {
                reduction.solve::<T, bool, _, bool>(reducer, out, &|s| s)
            }, _ => Err(unreachable_memory()))
        }
        ReduceOp::Max | ReduceOp::Min => {
            let reducer = Extreme { largest: reduce.op == ReduceOp::Max };
            match x.dtype() {
                DType::F16 => {
                    reduction.solve::<f16, f32, _, f16>(reducer, out, &|s| Rounded::rounded(s, 1.0))
                }
                DType::BF16 => {
                    reduction.solve::<bf16, f32, _, bf16>(reducer, out, &|s| Rounded::rounded(s, 1.0))
                }
                DType::F32 => reduction.solve::<f32, f32, _, f32>(reducer, out, &|s| s),
                DType::F64 => reduction.solve::<f64, f64, _, f64>(reducer, out, &|s| s),
                integer => dispatch_dtype!(integer, [Bool U8 I8 I16 I32 U32 I64], T => {
                    reduction.solve::<T, i64, _, T>(reducer, out, &|s| Rounded::rounded(s, 1.0))
                }, _ => Err(unreachable_memory())),
            }
        }
        ReduceOp::ArgMax | ReduceOp::ArgMin => {
            let reducer = ArgExtreme { largest: reduce.op == ReduceOp::ArgMax };
            match x.dtype() {
                DType::F16 => reduction.solve::<f16, f32, _, i64>(reducer, out, &|s| s.index as i64),
                DType::BF16 => reduction.solve::<bf16, f32, _, i64>(reducer, out, &|s| s.index as i64),
                DType::F32 => reduction.solve::<f32, f32, _, i64>(reducer, out, &|s| s.index as i64),
                DType::F64 => reduction.solve::<f64, f64, _, i64>(reducer, out, &|s| s.index as i64),
                integer => dispatch_dtype!(integer, [U8 I8 I16 I32 U32 I64], T => {
                    reduction.solve::<T, i64, _, i64>(reducer, out, &|s| s.index as i64)
                }, _ => Err(unreachable_memory())),
            }
        }
        ReduceOp::LogSumExp => reduction.floats(LogSumExp, LogSumExp, out, |s| s.finish()),
        ReduceOp::Norm => reduction.floats(Folded(Squares), Folded(Squares), out, f64::sqrt),
        ReduceOp::Var { correction } => reduction.floats(Moments, Moments, out, |s| s.variance(correction)),
        ReduceOp::Std { correction } => {
            reduction.floats(Moments, Moments, out, |s| s.variance(correction).sqrt())
        }
    }
}

struct Reduction<'a> {
    pool: &'a ThreadPool,
    x: &'a View<'a>,
    axes: &'a [usize],
    /// Elements reduced to one.
    n: usize,
}

impl Reduction<'_> {
    /// Sums and products.
    fn fold<F>(&self, fold: F, out: &mut ViewMut<'_>, factor: f64) -> Result<(), Fault>
    where
        F: Fold<i64, Long = i64>
            + Fold<f32, Long = f64>
            + Fold<f64, Long = f64>
            + Fold<C64, Long = C128>
            + Fold<C128, Long = C128>,
    {
        let fold = Folded(fold);
        match self.x.dtype() {
            DType::F16 => self.solve::<f16, f32, _, f16>(fold, out, &|s| Rounded::rounded(s, factor)),
            DType::BF16 => self.solve::<bf16, f32, _, bf16>(fold, out, &|s| Rounded::rounded(s, factor)),
            DType::F32 => self.solve::<f32, f32, _, f32>(fold, out, &|s| Rounded::rounded(s, factor)),
            DType::F64 => self.solve::<f64, f64, _, f64>(fold, out, &|s| Rounded::rounded(s, factor)),
            DType::C64 => self.solve::<C64, C64, _, C64>(fold, out, &|s| Rounded::rounded(s, factor)),
            DType::C128 => self.solve::<C128, C128, _, C128>(fold, out, &|s| Rounded::rounded(s, factor)),
            integer => dispatch_dtype!(integer, [Bool U8 I8 I16 I32 U32 I64], T => {
                self.solve::<T, i64, _, i64>(fold, out, &|s| s)
            }, _ => Err(unreachable_memory())),
        }
    }

    /// Reductions of floats to a number.
    fn floats<S: Copy + Send + Sync, R: Reducer<f32, State = S>, D: Reducer<f64, State = S>>(
        &self,
        single: R,
        double: D,
        out: &mut ViewMut<'_>,
        finish: impl Fn(S) -> f64 + Sync,
    ) -> Result<(), Fault> {
        match self.x.dtype() {
            DType::F16 => self.solve::<f16, f32, _, f16>(single, out, &|s| Rounded::rounded(finish(s), 1.0)),
            DType::BF16 => {
                self.solve::<bf16, f32, _, bf16>(single, out, &|s| Rounded::rounded(finish(s), 1.0))
            }
            DType::F32 => self.solve::<f32, f32, _, f32>(single, out, &|s| Rounded::rounded(finish(s), 1.0)),
            DType::F64 => self.solve::<f64, f64, _, f64>(double, out, &|s| finish(s)),
            _ => Err(unreachable_memory()),
        }
    }

    fn solve<T: As<C>, C: Element, R: Reducer<C>, U: Element>(
        &self,
        reducer: R,
        out: &mut ViewMut<'_>,
        finish: &(dyn Fn(R::State) -> U + Sync),
    ) -> Result<(), Fault> {
        let kept = self.kept();
        let grid = Grid::<T>::new(self.x, &kept, self.axes)?;
        let columns = self.columns(&kept).filter(|_| !(grid.is_packed() && self.n > 1));
        strided::with_slice(self.pool, out, |out: &mut [U]| {
            let outputs = out.len();
            let shared = Disjoint::new(out);
            let emit = |i: usize, state: R::State| {
                // SAFETY: each output is emitted once.
                unsafe { shared.slice(i, 1)[0] = finish(state) };
            };
            if outputs == 0 {
                return Ok(());
            }
            if self.n == 0 {
                (0..outputs).for_each(|i| emit(i, reducer.empty()));
                return Ok(());
            }
            match columns {
                Some(i) => {
                    let rows = Grid::<T>::new(self.x, &self.outer(&kept[..i]), &kept[i..=i])?;
                    self.by_columns(&rows, rows.len(), outputs, reducer, &emit);
                }
                None => self.by_sequence(&grid, outputs, reducer, &emit),
            }
            Ok(())
        })
    }

    /// The axes that stay.
    // This and the next two are not part of `solve`, which is compiled for each dtype and reducer.
    fn kept(&self) -> Dims {
        (0..self.x.layout().ndim()).filter(|axis| !self.axes.contains(axis)).collect()
    }

    /// Which of the axes that stay has its elements contiguous, and enough of them to be reduced together.
    fn columns(&self, kept: &[usize]) -> Option<usize> {
        let layout = self.x.layout();
        // The last one that is an axis of more than one element.
        let side = kept.iter().rposition(|&axis| layout.dims()[axis] != 1);
        side.filter(|&i| layout.strides()[kept[i]] == 1 && layout.dims()[kept[i]] >= 8)
    }

    /// Some axes that stay, and those that are reduced.
    fn outer(&self, kept: &[usize]) -> Dims {
        kept.iter().chain(self.axes).copied().collect()
    }

    /// One output after another.
    fn by_sequence<C, R: Reducer<C>>(
        &self,
        source: &dyn Source<C>,
        outputs: usize,
        reducer: R,
        emit: &(dyn Fn(usize, R::State) + Sync),
    ) {
        let n = self.n;
        let chunks = n.div_ceil(CHUNK);
        let chunk = |i: usize, scratch: &mut Vec<C>| {
            let (sequence, start) = (i / chunks, i % chunks * CHUNK);
            simd::run(ReduceChunk(
                reducer,
                source.fetch(sequence, start, CHUNK.min(n - start), scratch),
                start,
            ))
        };
        if chunks == 1 {
            return self.pool.ranges(outputs, (1 << 14) / n, |range| {
                let mut scratch = Vec::new();
                range.for_each(|i| emit(i, chunk(i, &mut scratch)));
            });
        }
        let mut states = vec![reducer.empty(); outputs * chunks];
        strided::par_units(self.pool, &mut states, 1, 4, |first, states| {
            let mut scratch = Vec::new();
            for (i, state) in (first..).zip(states) {
                *state = chunk(i, &mut scratch);
            }
        });
        for (i, states) in states.chunks_exact(chunks).enumerate() {
            emit(i, merge(reducer, states.iter().copied()));
        }
    }

    /// `width` adjacent outputs, together.
    fn by_columns<C: Element, R: Reducer<C>>(
        &self,
        source: &dyn Source<C>,
        width: usize,
        outputs: usize,
        reducer: R,
        emit: &(dyn Fn(usize, R::State) + Sync),
    ) {
        let n = self.n;
        let (slabs, tiles) = (n.div_ceil(SLAB), width.div_ceil(COLUMNS));
        let groups = outputs / width;
        // By slab, then by output.
        let mut states = vec![reducer.empty(); slabs * outputs];
        let shared = Disjoint::new(&mut states);
        let grain = (1 << 14) / (n.min(SLAB) * width.min(COLUMNS));
        self.pool.ranges(slabs * groups * tiles, grain, |range| {
            let mut scratch = vec![Vec::new(); ROWS];
            for task in range {
                let (slab, group, tile) = (task / tiles / groups, task / tiles % groups, task % tiles);
                let (from, to) = (tile * COLUMNS, width.min((tile + 1) * COLUMNS));
                // SAFETY: tasks have different slabs, groups or tiles.
                let states = unsafe { shared.slice((slab * groups + group) * width + from, to - from) };
                let last = n.min((slab + 1) * SLAB);
                for start in (slab * SLAB..last).step_by(ROWS) {
                    let mut rows: [&[C]; ROWS] = [&[]; ROWS];
                    let count = ROWS.min(last - start);
                    for ((i, row), scratch) in rows[..count].iter_mut().enumerate().zip(&mut scratch) {
                        *row = source.fetch(group * n + start + i, from, to - from, scratch);
                    }
                    simd::run(RowsOf(reducer, &rows[..count], start, states));
                }
            }
        });
        self.pool.ranges(outputs, 1 << 14, |range| {
            for i in range {
                emit(i, merge(reducer, (0..slabs).map(|slab| states[slab * outputs + i])));
            }
        });
    }
}

/// Parts in their order.
fn merge<C, R: Reducer<C>>(reducer: R, mut states: impl Iterator<Item = R::State>) -> R::State {
    let first = states.next().unwrap_or_else(|| reducer.empty());
    states.fold(first, |a, b| reducer.merge(a, b))
}

struct ReduceChunk<'a, C, R>(R, &'a [C], usize);

impl<C, R: Reducer<C>> Task for ReduceChunk<'_, C, R> {
    type Output = R::State;
    #[inline(always)]
    fn run<L: Level>(self, l: L) -> R::State {
        self.0.chunk(l, self.1, self.2)
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

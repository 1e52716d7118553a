//! Recurrences whose state is keys × values: columns of a state do not depend on each other, and go to different threads.

use super::operand::{by_head, matrices};
use super::tile::{Lanes, Tile};
use super::vector::Vector;
use crate::ThreadPool;
use crate::kernels::strided::{Disjoint, Matrices, Matrix, unreachable_memory, with_slice};
use crate::simd::{self, LANES, Level, Task};
use rustorch_core::{Fault, View, ViewMut};

/// Columns that a task computes.
const COLUMNS: usize = 2 * LANES;

/// What happens to the state of a head of a sequence.
pub(super) trait Rule<T: Vector> {
    /// Moves some columns of the state to the next position, `t`, which has the values `v`. Returns its results.
    fn advance<L: Level, const N: usize>(
        &mut self,
        l: L,
        t: usize,
        v: &Lanes<T, N>,
        tile: &mut Tile<T, N>,
    ) -> [T::V<L>; N];
}

/// Computes the results `[batch, seq, heads, d_v]` and the next state, for values of their shape and `state: [batch, heads, d_k, d_v]`.
/// `rule` makes the rule of a head, by the sequence and the head.
pub(super) fn run<T: Vector, R: Rule<T>>(
    pool: &ThreadPool,
    v: &View<'_>,
    state: &View<'_>,
    outs: &mut [ViewMut<'_>],
    rule: impl Fn(usize, usize) -> R + Sync,
) -> Result<(), Fault> {
    let [out, next] = outs else { return Err(unreachable_memory()) };
    let [batch, heads, d_k, d_v] = *state.layout().dims() else { return Err(unreachable_memory()) };
    let (seq, layout) = (v.layout().dims()[1], by_head(v)?);
    let (v, state) = (matrices::<T>(v, &layout)?, Matrices::<T>::new(state)?);
    let tiles = d_v.div_ceil(COLUMNS);
    let grain = (1 << 14) / ((seq + 2) * d_k * COLUMNS).max(1);
    with_slice(pool, out, |out: &mut [T]| {
        with_slice(pool, next, |next: &mut [T]| {
            let (out, next) = (Disjoint::new(out), Disjoint::new(next));
            pool.ranges(batch * heads * tiles, grain, |tasks| {
                for task in tasks {
                    let (unit, tile) = (task / tiles, task % tiles);
                    simd::run(Columns {
                        rule: rule(unit / heads, unit % heads),
                        v: v.matrix(unit),
                        state: state.matrix(unit),
                        out: &out,
                        next: &next,
                        sizes: Sizes { seq, heads, d_k, d_v },
                        unit,
                        first: tile * COLUMNS,
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
    heads: usize,
    d_k: usize,
    d_v: usize,
}

/// [`COLUMNS`] columns of the state of a head of a sequence, through all positions.
struct Columns<'a, T, R> {
    rule: R,
    v: Matrix<'a, T>,
    state: Matrix<'a, T>,
    out: &'a Disjoint<'a, T>,
    next: &'a Disjoint<'a, T>,
    sizes: Sizes,
    /// The head, counted through all sequences.
    unit: usize,
    first: usize,
}

impl<T: Vector, R: Rule<T>> Task for Columns<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(mut self, l: L) {
        let end = self.sizes.d_v.min(self.first + COLUMNS);
        while self.first < end {
            // As many vectors as there are registers for.
            if L::WIDE && size_of::<T>() == 4 {
                self.tile::<L, 2>(l, end);
            } else {
                self.tile::<L, 1>(l, end);
            }
        }
    }
}

impl<T: Vector, R: Rule<T>> Columns<'_, T, R> {
    /// Computes the next columns.
    #[inline(always)]
    fn tile<L: Level, const N: usize>(&mut self, l: L, end: usize) {
        let Sizes { seq, heads, d_k, d_v } = self.sizes;
        let columns = self.first..end.min(self.first + N * LANES);
        self.first = columns.end;
        let (sequence, head) = (self.unit / heads, self.unit % heads);
        let mut tile = Tile::<T, N>::new(l, &self.state, d_k, columns.clone());
        for t in 0..seq {
            let v = Lanes::new(l, &self.v.row(t)[columns.clone()]);
            let results = self.rule.advance(l, t, &v, &mut tile);
            let mut out = Lanes::<T, N>::ZERO;
            for (out, &result) in out.0.iter_mut().zip(&results) {
                T::store(l, result, out);
            }
            let at = ((sequence * seq + t) * heads + head) * d_v + columns.start;
            // SAFETY: tasks have different heads or different columns.
            out.store(l, unsafe { self.out.slice(at, columns.len()) });
        }
        for (i, row) in tile.rows.iter().enumerate() {
            let at = (self.unit * d_k + i) * d_v + columns.start;
            // SAFETY: as above.
            row.store(l, unsafe { self.next.slice(at, columns.len()) });
        }
    }
}

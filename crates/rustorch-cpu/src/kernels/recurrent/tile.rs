//! Some columns of a state of keys × values, packed so that they stay in the first-level cache.

use super::vector::{Vector, copy};
use crate::kernels::strided::Matrix;
use crate::simd::{LANES, Level};
use std::ops::Range;

/// `N` vectors of elements, in lines of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Lanes<T, const N: usize>(pub(super) [[T; LANES]; N]);

impl<T: Vector, const N: usize> Lanes<T, N> {
    pub(super) const ZERO: Lanes<T, N> = Lanes([[T::ZERO; LANES]; N]);

    /// Elements, with zeros behind them.
    #[inline(always)]
    pub(super) fn new<L: Level>(l: L, x: &[T]) -> Lanes<T, N> {
        let mut lanes = Lanes::ZERO;
        for (to, from) in lanes.0.iter_mut().zip(x.chunks(LANES)) {
            copy(l, from, &mut to[..from.len()]);
        }
        lanes
    }

    /// The first elements.
    #[inline(always)]
    pub(super) fn store<L: Level>(&self, l: L, out: &mut [T]) {
        for (from, to) in self.0.iter().zip(out.chunks_mut(LANES)) {
            copy(l, &from[..to.len()], to);
        }
    }
}

/// Up to `N · LANES` columns of a state. What is beyond its last column is zero, and nothing comes of it.
pub(super) struct Tile<T, const N: usize> {
    pub(super) rows: Vec<Lanes<T, N>>,
}

impl<T: Vector, const N: usize> Tile<T, N> {
    #[inline(always)]
    pub(super) fn new<L: Level>(
        l: L,
        state: &Matrix<'_, T>,
        d_k: usize,
        columns: Range<usize>,
    ) -> Tile<T, N> {
        let mut rows = Vec::with_capacity(d_k);
        for i in 0..d_k {
            rows.push(Lanes::new(l, &state.row(i)[columns.clone()]));
        }
        Tile { rows }
    }

    /// `xᵀ S`: four sums over every fourth row, of which the first two and the last two are added first.
    #[inline(always)]
    pub(super) fn gemv<L: Level>(&self, l: L, x: &[T]) -> [T::V<L>; N] {
        let mut sums = [[T::splat(l, T::ZERO); N]; 4];
        let (rows, rows_rest) = self.rows.as_chunks::<4>();
        let (xs, xs_rest) = x.as_chunks::<4>();
        for (rows, x) in rows.iter().zip(xs) {
            for ((sums, row), &x) in sums.iter_mut().zip(rows).zip(x) {
                add_scaled(l, x, row, sums);
            }
        }
        for (row, &x) in rows_rest.iter().zip(xs_rest) {
            add_scaled(l, x, row, &mut sums[0]);
        }
        let [mut total, second, third, fourth] = sums;
        for c in 0..N {
            total[c] = T::plus(l, T::plus(l, total[c], second[c]), T::plus(l, third[c], fourth[c]));
        }
        total
    }
}

/// Adds a factor times a row to the sums.
#[inline(always)]
fn add_scaled<T: Vector, L: Level, const N: usize>(
    l: L,
    factor: T,
    row: &Lanes<T, N>,
    sums: &mut [T::V<L>; N],
) {
    let factor = T::splat(l, factor);
    for (sum, row) in sums.iter_mut().zip(&row.0) {
        *sum = T::mul_add(l, factor, T::load(l, row), *sum);
    }
}

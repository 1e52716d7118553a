//! Some columns of a state of keys × values, packed so that they stay in the first-level cache.

use super::vector::Vector;
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
    pub(super) fn new(x: &[T]) -> Lanes<T, N> {
        if let Ok(whole) = <&[[T; LANES]; N]>::try_from(x.as_chunks().0) {
            return Lanes(*whole);
        }
        let mut lanes = Lanes::ZERO;
        lanes.0.as_flattened_mut()[..x.len()].copy_from_slice(x);
        lanes
    }

    /// The first elements.
    #[inline(always)]
    pub(super) fn store(&self, out: &mut [T]) {
        match <&mut [[T; LANES]; N]>::try_from(out.as_chunks_mut().0) {
            Ok(whole) => *whole = self.0,
            Err(_) => out.copy_from_slice(&self.0.as_flattened()[..out.len()]),
        }
    }
}

/// Up to `N · LANES` columns of a state. What is beyond its last column is zero, and nothing comes of it.
pub(super) struct Tile<T, const N: usize> {
    pub(super) rows: Vec<Lanes<T, N>>,
}

impl<T: Vector, const N: usize> Tile<T, N> {
    #[inline(always)]
    pub(super) fn new(state: &Matrix<'_, T>, d_k: usize, columns: Range<usize>) -> Tile<T, N> {
        let mut rows = Vec::with_capacity(d_k);
        for i in 0..d_k {
            rows.push(Lanes::new(&state.row(i)[columns.clone()]));
        }
        Tile { rows }
    }

    /// `xᵀ S`: sums over rows `i` with `i mod 4` equal, in order, of which the first two and the last two are added first.
    #[inline(always)]
    pub(super) fn product<L: Level>(&self, l: L, x: &[T]) -> [T::V<L>; N] {
        let mut sums = [[T::splat(l, T::ZERO); N]; 4];
        let (rows, rows_rest) = self.rows.as_chunks::<4>();
        let (xs, xs_rest) = x.as_chunks::<4>();
        for (rows, x) in rows.iter().zip(xs) {
            for ((sums, row), &x) in sums.iter_mut().zip(rows).zip(x) {
                add_product(l, x, row, sums);
            }
        }
        for (row, &x) in rows_rest.iter().zip(xs_rest) {
            add_product(l, x, row, &mut sums[0]);
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
fn add_product<T: Vector, L: Level, const N: usize>(
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

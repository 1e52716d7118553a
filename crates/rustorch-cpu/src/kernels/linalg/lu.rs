//! Elimination with partial pivoting, recursively by columns (Toledo): the left half, then the right half less its
//! product with it.

use super::number::{Divisor, Number};
use super::triangular::{Triangle, solve};
use super::{Place, with_room};
use crate::ThreadPool;
use crate::kernels::matmul::{Left, subtract_matmul};
use crate::simd::{self, Level, Task};
use rustorch_core::MatrixDefect;

/// Columns that are eliminated one after the other.
pub(super) const WIDTH: usize = 16;

/// The factors of a matrix in one: `U` from the diagonal on, `L` without its ones below it.
pub(super) struct Factors<'a, T> {
    /// Both, in rows of `n`.
    pub(super) matrix: &'a mut [T],
    pub(super) m: usize,
    pub(super) n: usize,
    /// With which row each one was swapped, in order.
    pub(super) pivots: Vec<usize>,
}

impl<'a, T: Number> Factors<'a, T> {
    /// Factors a matrix of `m` rows and `n` columns in its place.
    pub(super) fn new(pool: &ThreadPool, matrix: &'a mut [T], m: usize, n: usize) -> Factors<'a, T> {
        assert_eq!(matrix.len(), m * n);
        let k = m.min(n);
        let mut pivots = vec![0; k];
        let a = Place { at: matrix.as_mut_ptr(), row: n };
        // SAFETY: `matrix` has these rows and columns, and is borrowed.
        unsafe {
            eliminate(pool, a, m, k, 0, &mut pivots);
            swap_rows(a.block(0, k), n - k, 0, &pivots);
            solve(pool, lower(a), k, a.block(0, k), n - k);
        }
        Factors { matrix, m, n, pivots }
    }

    /// Row `i` of the product of the factors is row `permutation()[i]` of the matrix.
    pub(super) fn permutation(&self) -> Vec<usize> {
        let mut rows: Vec<usize> = (0..self.m).collect();
        for (i, &pivot) in self.pivots.iter().enumerate() {
            rows.swap(i, pivot);
        }
        rows
    }

    /// Whether the permutation is an odd one.
    pub(super) fn is_odd(&self) -> bool {
        self.pivots.iter().enumerate().filter(|&(i, &pivot)| i != pivot).count() % 2 == 1
    }

    /// The diagonal of `U`.
    pub(super) fn diagonal(&self) -> impl Iterator<Item = T> {
        (0..self.pivots.len()).map(|i| self.matrix[i * self.n + i])
    }

    /// An error if the matrix, which is square, is singular.
    pub(super) fn regular(&self) -> Result<(), MatrixDefect> {
        match self.diagonal().position(|pivot| pivot == T::ZERO) {
            None => Ok(()),
            Some(i) => Err(MatrixDefect::Singular { pivot: i + 1 }),
        }
    }

    /// Replaces permuted right sides, rows of `columns` for each unknown, by the solutions.
    pub(super) fn solve(&self, pool: &ThreadPool, x: &mut [T], columns: usize) {
        assert!(self.m == self.n && x.len() == self.n * columns);
        let a = Place { at: self.matrix.as_ptr().cast_mut(), row: self.n };
        let x = Place { at: x.as_mut_ptr(), row: columns };
        let upper = Triangle { lower: false, unit: false, ..lower(a) };
        // SAFETY: both have these rows and columns; the factors are only read, the right sides are borrowed.
        unsafe {
            solve(pool, lower(a), self.n, x, columns);
            solve(pool, upper, self.n, x, columns);
        }
    }
}

/// The factor `L` of a matrix that holds both.
fn lower<T>(a: Place<T>) -> Triangle<T> {
    let elements = Left { at: a.at.cast_const(), strides: [a.row, 1], conj: false };
    Triangle { elements, lower: true, unit: true }
}

/// Factors `n` columns of `m ≥ n` rows; `pivots` gets numbers of rows, counted from `before` on.
///
/// # Safety
/// `a` has these rows and columns, which are the caller's alone.
unsafe fn eliminate<T: Number>(
    pool: &ThreadPool,
    a: Place<T>,
    m: usize,
    n: usize,
    before: usize,
    pivots: &mut [usize],
) {
    if n <= WIDTH {
        // SAFETY: this function's contract.
        return unsafe { eliminate_panel(a, m, n, before, pivots) };
    }
    let half = (n / 2).next_multiple_of(WIDTH);
    let (left, right) = pivots.split_at_mut(half);
    let (beside, below, trailing) = (a.block(0, half), a.block(half, 0), a.block(half, half));
    // SAFETY: this function's contract; the blocks are disjoint.
    unsafe {
        eliminate(pool, a, m, half, before, left);
        swap_rows(beside, n - half, before, left);
        solve(pool, lower(a), half, beside, n - half);
        let sizes = [m - half, n - half, half];
        let factor = Left { at: below.at.cast_const(), strides: [a.row, 1], conj: false };
        subtract_matmul(pool, sizes, factor, beside.read(), trailing.write());
        eliminate(pool, trailing, m - half, n - half, before + half, right);
        swap_rows(below, half, before + half, right);
    }
}

/// Swaps rows as `pivots` say; row 0 of `a` has the number `before`.
///
/// # Safety
/// `a` has all rows that are named, with so many columns, and they are the caller's alone.
unsafe fn swap_rows<T: Number>(a: Place<T>, columns: usize, before: usize, pivots: &[usize]) {
    for (i, &pivot) in pivots.iter().enumerate() {
        if pivot != before + i {
            // SAFETY: two rows, which do not overlap.
            unsafe {
                std::ptr::swap_nonoverlapping(a.block(i, 0).at, a.block(pivot - before, 0).at, columns);
            }
        }
    }
}

/// [`eliminate`] for up to [`WIDTH`] columns, gathered so that a row is a vector or a few.
///
/// # Safety
/// As there.
unsafe fn eliminate_panel<T: Number>(a: Place<T>, m: usize, n: usize, before: usize, pivots: &mut [usize]) {
    with_room(m * WIDTH, |room: &mut [T]| {
        let (rows, _) = room.as_chunks_mut::<WIDTH>();
        for (i, row) in rows.iter_mut().enumerate() {
            // SAFETY: a row of the block.
            row[..n].copy_from_slice(unsafe { std::slice::from_raw_parts(a.block(i, 0).at, n) });
            row[n..].fill(T::ZERO);
        }
        simd::run(Panel { rows, pivots });
        for pivot in pivots {
            *pivot += before;
        }
        for (i, row) in rows.iter().enumerate() {
            // SAFETY: as above, and nobody else uses it.
            unsafe { std::slice::from_raw_parts_mut(a.block(i, 0).at, n) }.copy_from_slice(&row[..n]);
        }
    });
}

/// Columns as many as pivots are eliminated.
struct Panel<'a, T> {
    rows: &'a mut [[T; WIDTH]],
    pivots: &'a mut [usize],
}

impl<T: Number> Task for Panel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let mut found = largest(self.rows, 0);
        for (j, chosen) in self.pivots.iter_mut().enumerate() {
            let best = found;
            *chosen = best;
            self.rows.swap(j, best);
            let pivot = self.rows[j][j];
            if pivot == T::ZERO {
                // The whole column is zero.
                found = largest(self.rows, j + 1);
                continue;
            }
            let divisor = Divisor::new(pivot);
            let mut above = self.rows[j];
            above[..=j].fill(T::ZERO);
            // The next pivot is looked for in the same pass.
            let (next, mut most) = ((j + 1).min(WIDTH - 1), None);
            for (i, row) in self.rows.iter_mut().enumerate().skip(j + 1) {
                let factor = divisor.divide(row[j]);
                for (value, known) in row.iter_mut().zip(above) {
                    *value = *value - factor * known;
                }
                row[j] = factor;
                let size = row[next].size();
                if most.is_none_or(|most| size > most) {
                    (found, most) = (i, Some(size));
                }
            }
        }
    }
}

/// The row of the largest element of column `j`, of those from row `j` on; the first of several.
#[inline(always)]
fn largest<T: Number, const W: usize>(rows: &[[T; W]], j: usize) -> usize {
    let Some(first) = rows.get(j) else { return j };
    let (mut best, mut most) = (j, first[j.min(W - 1)].size());
    for (i, row) in rows.iter().enumerate().skip(j + 1) {
        let size = row[j.min(W - 1)].size();
        if size > most {
            (best, most) = (i, size);
        }
    }
    best
}

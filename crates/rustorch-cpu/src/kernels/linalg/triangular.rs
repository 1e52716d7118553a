//! Triangular solve.

use super::Place;
use super::number::Number;
use crate::ThreadPool;
use crate::kernels::matmul::{Left, subtract_matmul};
use crate::simd::{self, Level, Task};
use std::ops::Range;

/// A triangular matrix somewhere in memory.
#[derive(Clone, Copy)]
pub(super) struct Triangle<T> {
    /// Its elements, conjugated or not.
    pub(super) elements: Left<T>,
    /// Whether it is the lower triangle that counts.
    pub(super) lower: bool,
    /// Whether its diagonal counts as ones.
    pub(super) unit: bool,
}

impl<T> Triangle<T> {
    /// The block that begins at this row and column.
    fn block(&self, row: usize, column: usize) -> Left<T> {
        let Left { at, strides, conj } = self.elements;
        Left { at: at.wrapping_add(row * strides[0] + column * strides[1]), strides, conj }
    }
}

/// Unknowns that are solved for one after the other.
const BASE: usize = 32;
/// Columns of a right side for a thread to solve for at least.
const GRAIN: usize = 64;

/// Replaces the rows of `x` (`n` rows of `columns`) by the solution of `t · solution = x`.
///
/// # Safety
/// `t` has `n` rows and columns, `x` has these rows; those are the caller's alone, and none of `t` is among them.
pub(super) unsafe fn solve<T: Number>(
    pool: &ThreadPool,
    t: Triangle<T>,
    n: usize,
    x: Place<T>,
    columns: usize,
) {
    if n <= BASE {
        // SAFETY: this function's contract.
        return unsafe { solve_base(pool, t, n, x, columns) };
    }
    let half = (n / 2).next_multiple_of(BASE);
    let below = x.block(half, 0);
    // SAFETY: this function's contract; the halves of `x` are disjoint.
    unsafe {
        let second = Triangle { elements: t.block(half, half), ..t };
        if t.lower {
            solve(pool, t, half, x, columns);
            subtract_matmul(pool, [n - half, columns, half], t.block(half, 0), x.read(), below.write());
            solve(pool, second, n - half, below, columns);
        } else {
            solve(pool, second, n - half, below, columns);
            subtract_matmul(pool, [half, columns, n - half], t.block(0, half), below.read(), x.write());
            solve(pool, t, half, x, columns);
        }
    }
}

/// [`solve`] for up to [`BASE`] unknowns.
///
/// # Safety
/// As there.
unsafe fn solve_base<T: Number>(pool: &ThreadPool, t: Triangle<T>, n: usize, x: Place<T>, columns: usize) {
    let Triangle { lower, unit, .. } = t;
    let mut packed = [T::ZERO; BASE * BASE];
    let Left { at, strides, conj } = t.elements;
    for i in 0..n {
        for j in if lower { 0..i + 1 } else { i..n } {
            // SAFETY: an element of the triangle.
            let value = unsafe { *at.add(i * strides[0] + j * strides[1]) };
            packed[i * BASE + j] = if conj { value.conj() } else { value };
        }
    }
    pool.ranges(columns, GRAIN, |columns| {
        // SAFETY: this function's contract; ranges of columns are disjoint.
        simd::run(unsafe { Columns::new(&packed, n, [lower, unit], x, columns) });
    });
}

/// Some columns of a right side.
struct Columns<'a, T> {
    t: &'a [T; BASE * BASE],
    n: usize,
    lower: bool,
    unit: bool,
    x: Place<T>,
    columns: Range<usize>,
}

impl<'a, T: Number> Columns<'a, T> {
    /// # Safety
    /// `x` has `n` rows with these columns, and they are the caller's alone while this is.
    unsafe fn new(
        t: &'a [T; BASE * BASE],
        n: usize,
        [lower, unit]: [bool; 2],
        x: Place<T>,
        columns: Range<usize>,
    ) -> Columns<'a, T> {
        Columns { t, n, lower, unit, x, columns }
    }

    /// `W` columns from `first` on. Sums stay in registers while the solved rows pass by.
    #[inline(always)]
    fn solve<const W: usize>(&self, first: usize) {
        for step in 0..self.n {
            let (i, solved) = match self.lower {
                true => (step, 0..step),
                false => (self.n - 1 - step, self.n - step..self.n),
            };
            let row = |i: usize| self.x.block(i, first).at.cast::<[T; W]>();
            // SAFETY: by the contract of `new`; arrays of elements are as aligned as they.
            let mut sums = unsafe { *row(i) };
            for p in solved {
                let factor = self.t[i * BASE + p];
                // SAFETY: as above.
                let known = unsafe { &*row(p) };
                for c in 0..W {
                    sums[c] = sums[c] - factor * known[c];
                }
            }
            if !self.unit {
                let diagonal = self.t[i * BASE + i];
                for sum in &mut sums {
                    *sum = sum.over(diagonal);
                }
            }
            // SAFETY: as above.
            unsafe { *row(i) = sums };
        }
    }
}

impl<T: Number> Task for Columns<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let Range { start: mut first, end } = self.columns;
        // Four vectors of the widest instruction set hide each other's latencies.
        while size_of::<T>() == 4 && end - first >= 64 {
            self.solve::<64>(first);
            first += 64;
        }
        while end - first >= 16 {
            self.solve::<16>(first);
            first += 16;
        }
        for column in first..end {
            self.solve::<1>(column);
        }
    }
}

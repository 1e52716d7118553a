//! Cholesky's factor, recursively: the factor of the leading half, the solution for the block beside it, and the
//! trailing half less that block's product with itself.

use super::number::{Number, Real as _};
use super::triangular::{Triangle, solve};
use super::{Place, Stack, each_matrix, with_room};
use crate::ThreadPool;
use crate::kernels::matmul::{Left, Scalar, subtract_matmul};
use crate::kernels::strided::{self, Disjoint};
use crate::simd::{self, Level, Task};
use rustorch_core::{Fault, MatrixDefect, View, ViewMut};
use std::cmp::Ordering;

/// Rows that are factored one after the other.
const BASE: usize = 32;
/// Rows and columns of a block on the diagonal that is updated as a whole, although half of it is not needed.
const SQUARE: usize = 128;

/// The operation. Everything is computed as `Uᴴ·U`, whose rows are contiguous.
pub(super) fn run<T: Number>(
    pool: &ThreadPool,
    upper: bool,
    a: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let stack = Stack::<T>::new(a)?;
    let n = stack.columns();
    strided::with_slice(pool, out, |out: &mut [T]| {
        let out = Disjoint::new(out);
        each_matrix("linalg.cholesky", pool, &stack, n * n * n / 3, |i| {
            // SAFETY: each matrix of the results is written by one thread.
            let out = unsafe { out.slice(i * n * n, n * n) };
            if upper {
                stack.read(i, out, n);
                // SAFETY: the matrix is this thread's.
                unsafe { factor(pool, Place { at: out.as_mut_ptr(), row: n }, n, 0) }?;
                for (row, line) in out.chunks_exact_mut(n.max(1)).enumerate() {
                    line[..row].fill(T::ZERO);
                }
                return Ok(());
            }
            with_room(n * n, |work: &mut [T]| {
                stack.read_adjoint(i, work, n);
                // SAFETY: the room is this thread's.
                unsafe { factor(pool, Place { at: work.as_mut_ptr(), row: n }, n, 0) }?;
                super::transpose(work, n, out, n, T::conj);
                for (row, line) in out.chunks_exact_mut(n.max(1)).enumerate() {
                    line[row + 1..].fill(T::ZERO);
                }
                Ok(())
            })
        })
    })
}

/// Replaces the upper triangle of a Hermitian matrix by `U`; what stands below it is spoilt. `before` is its order in
/// front of this block.
///
/// # Safety
/// `a` has `n` rows and columns, which are the caller's alone.
unsafe fn factor<T: Number>(
    pool: &ThreadPool,
    a: Place<T>,
    n: usize,
    before: usize,
) -> Result<(), MatrixDefect> {
    if n <= BASE {
        // SAFETY: this function's contract.
        let failed = unsafe { factor_base(a, n) };
        return match failed {
            None => Ok(()),
            Some(row) => Err(MatrixDefect::NotPositiveDefinite { minor: before + row + 1 }),
        };
    }
    let half = (n / 2).next_multiple_of(BASE);
    let (beside, trailing) = (a.block(0, half), a.block(half, half));
    // SAFETY: this function's contract; the blocks are disjoint.
    unsafe {
        factor(pool, a, half, before)?;
        // The adjoint of U is a lower triangle.
        let elements = Left { at: a.at.cast_const(), strides: [1, a.row], conj: true };
        solve(pool, Triangle { elements, lower: true, unit: false }, half, beside, n - half);
        subtract_square(pool, beside, half, trailing, n - half);
        factor(pool, trailing, n - half, before + half)
    }
}

/// `c −= bᴴ·b` for `b: [k, n]`, of which the upper triangle counts.
///
/// # Safety
/// The elements exist; `c` is the caller's alone and none of `b` is in it.
unsafe fn subtract_square<T: Number>(pool: &ThreadPool, b: Place<T>, k: usize, c: Place<T>, n: usize) {
    let adjoint = Left { at: b.at.cast_const(), strides: [1, b.row], conj: true };
    // SAFETY: this function's contract.
    unsafe {
        if n <= SQUARE {
            return subtract_matmul(pool, [n, n, k], adjoint, b.read(), c.write());
        }
        let half = (n / 2).next_multiple_of(BASE);
        let right = b.block(0, half);
        subtract_square(pool, b, k, c, half);
        subtract_matmul(pool, [half, n - half, k], adjoint, right.read(), c.block(0, half).write());
        subtract_square(pool, right, k, c.block(half, half), n - half);
    }
}

/// [`factor`] for up to [`BASE`] rows: the row at which it failed, if any.
///
/// # Safety
/// As there.
unsafe fn factor_base<T: Number>(a: Place<T>, n: usize) -> Option<usize> {
    let mut packed = [[T::ZERO; BASE]; BASE];
    for (i, row) in packed[..n].iter_mut().enumerate() {
        // SAFETY: a row of the matrix.
        row[..n].copy_from_slice(unsafe { std::slice::from_raw_parts(a.block(i, 0).at, n) });
    }
    let failed = simd::run(Base { rows: &mut packed, n });
    for (i, row) in packed[..n].iter().enumerate() {
        // SAFETY: as above, and nobody else uses it.
        unsafe { std::slice::from_raw_parts_mut(a.block(i, 0).at, n) }.copy_from_slice(&row[..n]);
    }
    failed
}

/// Whole rows are computed, so that loops have a fixed length; what is below the diagonal is never read.
struct Base<'a, T> {
    rows: &'a mut [[T; BASE]; BASE],
    n: usize,
}

impl<T: Number> Task for Base<'_, T> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<L: Level>(self, _level: L) -> Option<usize> {
        for j in 0..self.n {
            let square = self.rows[j][j].re();
            // NaN fails, too.
            if square.partial_cmp(&T::Real::ZERO) != Some(Ordering::Greater) {
                return Some(j);
            }
            let root = square.sqrt();
            let mut row = self.rows[j];
            for value in &mut row {
                *value = value.over_real(root);
            }
            row[j] = T::from_real(root);
            self.rows[j] = row;
            for i in j + 1..self.n {
                let factor = row[i].conj();
                for (value, known) in self.rows[i].iter_mut().zip(row) {
                    *value = *value - factor * known;
                }
            }
        }
        None
    }
}

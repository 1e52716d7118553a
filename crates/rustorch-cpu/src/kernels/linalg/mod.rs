//! Decompositions of matrices, over contiguous rows: recursive, so that nearly all the work is matmuls.
//!
//! Cuts depend on sizes alone, every matmul sums in the order of its inner dimension, and the small kernels at the
//! leaves run on one thread, or on columns that do not know of each other: results do not depend on the number of threads.
//! Many matrices go to as many threads; one alone has its matmuls and solutions shared.

#![allow(clippy::needless_range_loop, reason = "vectors are indexed by column")]

mod cholesky;
mod lu;
mod number;
mod qr;
#[cfg(feature = "linalg")]
mod spectral;
mod triangular;
#[cfg(feature = "linalg")]
mod tridiagonal;

use super::strided::{self, Disjoint, unreachable_memory};
use crate::ThreadPool;
use crate::kernels::matmul::Left;
use lu::Factors;
use number::Number;
use rustorch_core::{Dims, Error, Fault, Layout, Linalg, MatrixDefect, Shape, View, ViewMut, dispatch_dtype};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use triangular::Triangle;

/// Any operation of the family.
pub(super) fn run(
    pool: &ThreadPool,
    op: Linalg,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let Some(first) = args.first() else { return Err(unreachable_memory()) };
    dispatch_dtype!(
        first.dtype(),
        [F32 F64 C64 C128],
        T => run_typed::<T>(pool, op, args, outs),
        _ => Err(unreachable_memory())
    )
}

fn run_typed<T: Number>(
    pool: &ThreadPool,
    op: Linalg,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    match (op, args, outs) {
        (Linalg::Cholesky { upper }, [a], [out]) => cholesky::run::<T>(pool, upper, a, out),
        (Linalg::SolveTriangular { upper, unit }, [a, b], [out]) => {
            solve_triangular::<T>(pool, upper, unit, [a, b], out)
        }
        (Linalg::Lu, [a], [matrix, pivots, permutation]) => {
            decompose::<T>(pool, a, matrix, pivots, permutation)
        }
        (Linalg::Solve, [a, b], [out]) => solve::<T>(pool, [a, b], out),
        (Linalg::Inverse, [a], [out]) => inverse::<T>(pool, a, out),
        (Linalg::Det, [a], [out]) => det::<T>(pool, a, out),
        (Linalg::SlogDet, [a], [sign, logarithm]) => slogdet::<T>(pool, a, sign, logarithm),
        (Linalg::Qr { .. }, [a], [q, r]) => qr_factors::<T>(pool, a, q, r),
        #[cfg(feature = "linalg")]
        (Linalg::Svd { .. } | Linalg::Eigh { .. } | Linalg::Eig { .. }, [a], outs) => {
            spectral::run(pool, op, a, outs)
        }
        _ => Err(Error::argument("linalg", format!("has no kernel for {} arguments", args.len())).into()),
    }
}

fn solve_triangular<T: Number>(
    pool: &ThreadPool,
    upper: bool,
    unit: bool,
    [a, b]: [&View<'_>; 2],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let batch = leading(out.layout())?;
    let (a, b) = (Stack::<T>::broadcast(a, &batch)?, Stack::<T>::broadcast(b, &batch)?);
    let [n, columns] = b.size;
    strided::with_slice(pool, out, |out: &mut [T]| {
        let out = Disjoint::new(out);
        each_matrix("linalg.solve_triangular", pool, &b, n * n * columns, |i| {
            // SAFETY: each matrix of the results is written by one thread.
            let x = unsafe { out.slice(i * n * columns, n * columns) };
            b.read(i, x, columns);
            let triangle = Triangle { elements: a.elements(i), lower: !upper, unit };
            // SAFETY: the argument has `n` rows and columns, and no argument is in the results.
            unsafe {
                triangular::solve(pool, triangle, n, Place { at: x.as_mut_ptr(), row: columns }, columns)
            };
            Ok(())
        })
    })
}

fn decompose<T: Number>(
    pool: &ThreadPool,
    a: &View<'_>,
    matrix: &mut ViewMut<'_>,
    pivots: &mut ViewMut<'_>,
    permutation: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let stack = Stack::<T>::new(a)?;
    let [m, n] = stack.size;
    let k = m.min(n);
    strided::with_slice(pool, matrix, |matrix: &mut [T]| {
        strided::with_slice(pool, pivots, |pivots: &mut [i32]| {
            strided::with_slice(pool, permutation, |permutation: &mut [i64]| {
                let (matrix, pivots, permutation) =
                    (Disjoint::new(matrix), Disjoint::new(pivots), Disjoint::new(permutation));
                each_matrix("linalg.lu", pool, &stack, m * n * k, |i| {
                    // SAFETY: the results of each matrix are written by one thread.
                    let (matrix, pivots, permutation) = unsafe {
                        (matrix.slice(i * m * n, m * n), pivots.slice(i * k, k), permutation.slice(i * m, m))
                    };
                    stack.read(i, matrix, n);
                    let factors = Factors::new(pool, matrix, m, n);
                    for (to, &from) in pivots.iter_mut().zip(&factors.pivots) {
                        *to = from as i32 + 1;
                    }
                    for (to, from) in permutation.iter_mut().zip(factors.permutation()) {
                        *to = from as i64;
                    }
                    Ok(())
                })
            })
        })
    })
}

fn solve<T: Number>(pool: &ThreadPool, [a, b]: [&View<'_>; 2], out: &mut ViewMut<'_>) -> Result<(), Fault> {
    let batch = leading(out.layout())?;
    let (a, b) = (Stack::<T>::broadcast(a, &batch)?, Stack::<T>::broadcast(b, &batch)?);
    let [n, columns] = b.size;
    strided::with_slice(pool, out, |out: &mut [T]| {
        let out = Disjoint::new(out);
        each_range("linalg.solve", pool, &b, n * n * (n + columns), |range| {
            with_room(n * n, |work: &mut [T]| {
                let mut next = range.start;
                while next < range.end {
                    let (first, start) = (next, a.starts[next]);
                    a.read(first, work, n);
                    let factors = Factors::new(pool, work, n, n);
                    factors.regular().map_err(|defect| (first, defect))?;
                    let permutation = factors.permutation();
                    // A matrix that is the same for several right sides is factored once.
                    while next < range.end && a.starts[next] == start {
                        // SAFETY: each matrix of the results is written by one thread.
                        let x = unsafe { out.slice(next * n * columns, n * columns) };
                        b.read_rows(next, permutation.iter().copied(), x, columns);
                        factors.solve(pool, x, columns);
                        next += 1;
                    }
                }
                Ok(())
            })
        })
    })
}

fn inverse<T: Number>(pool: &ThreadPool, a: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), Fault> {
    let stack = Stack::<T>::new(a)?;
    let n = stack.columns();
    strided::with_slice(pool, out, |out: &mut [T]| {
        let out = Disjoint::new(out);
        each_matrix("linalg.inv", pool, &stack, 2 * n * n * n, |i| {
            with_room(n * n, |work: &mut [T]| {
                stack.read(i, work, n);
                let factors = Factors::new(pool, work, n, n);
                factors.regular()?;
                // SAFETY: each matrix of the results is written by one thread.
                let x = unsafe { out.slice(i * n * n, n * n) };
                x.fill(T::ZERO);
                for (row, column) in factors.permutation().into_iter().enumerate() {
                    x[row * n + column] = T::ONE;
                }
                factors.solve(pool, x, n);
                Ok(())
            })
        })
    })
}

fn det<T: Number>(pool: &ThreadPool, a: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), Fault> {
    let stack = Stack::<T>::new(a)?;
    strided::with_slice(pool, out, |out: &mut [T]| {
        let out = Disjoint::new(out);
        each_elimination("linalg.det", pool, &stack, |i, factors| {
            let product = factors.diagonal().fold(T::ONE, |product, pivot| product * pivot);
            // SAFETY: each result is written by one thread.
            let out = unsafe { out.slice(i, 1) };
            out[0] = if factors.is_odd() { -product } else { product };
        })
    })
}

fn slogdet<T: Number>(
    pool: &ThreadPool,
    a: &View<'_>,
    sign: &mut ViewMut<'_>,
    logarithm: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let stack = Stack::<T>::new(a)?;
    strided::with_slice(pool, sign, |sign: &mut [T]| {
        strided::with_slice(pool, logarithm, |logarithm: &mut [T::Real]| {
            let (sign, logarithm) = (Disjoint::new(sign), Disjoint::new(logarithm));
            each_elimination("linalg.slogdet", pool, &stack, |i, factors| {
                // In f64, so that neither has rounding errors of its own to speak of.
                let (mut direction, mut sum) = ((if factors.is_odd() { -1.0 } else { 1.0 }, 0.0), 0.0);
                for pivot in factors.diagonal() {
                    let modulus = pivot.modulus();
                    sum += modulus.ln();
                    let (re, im) = pivot.parts();
                    let unit = if modulus == 0.0 { (0.0, 0.0) } else { (re / modulus, im / modulus) };
                    direction = (
                        direction.0 * unit.0 - direction.1 * unit.1,
                        direction.0 * unit.1 + direction.1 * unit.0,
                    );
                }
                // SAFETY: each result is written by one thread.
                unsafe {
                    sign.slice(i, 1)[0] = T::from_parts(direction.0, direction.1);
                    logarithm.slice(i, 1)[0] = T::Real::from_parts(sum, 0.0);
                }
            })
        })
    })
}

fn qr_factors<T: Number>(
    pool: &ThreadPool,
    a: &View<'_>,
    q: &mut ViewMut<'_>,
    r: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let stack = Stack::<T>::new(a)?;
    let [m, n] = stack.size;
    let k = r.layout().dims()[r.layout().ndim() - 2];
    strided::with_slice(pool, q, |q: &mut [T]| {
        strided::with_slice(pool, r, |r: &mut [T]| {
            let (q, r) = (Disjoint::new(q), Disjoint::new(r));
            each_matrix("linalg.qr", pool, &stack, 4 * m * n * m.min(n), |i| {
                // SAFETY: the results of each matrix are written by one thread.
                let (q, r) = unsafe { (q.slice(i * m * k, m * k), r.slice(i * k * n, k * n)) };
                with_room(m * n + qr::room(m, n, k), |work: &mut [T]| {
                    let (a, work) = work.split_at_mut(m * n);
                    stack.read(i, a, n);
                    qr::factor(pool, a, [m, n, k], q, work);
                    let rows = r.chunks_exact_mut(n.max(1)).zip(a.chunks_exact(n.max(1)));
                    for (row, (to, from)) in rows.enumerate() {
                        let zeros = row.min(n);
                        to[..zeros].fill(T::ZERO);
                        to[zeros..].copy_from_slice(&from[zeros..]);
                    }
                    Ok(())
                })
            })
        })
    })
}

/// The factors of every matrix, singular or not, for what follows from them.
fn each_elimination<T: Number>(
    op: &'static str,
    pool: &ThreadPool,
    stack: &Stack<'_, T>,
    run: impl Fn(usize, &Factors<'_, T>) + Sync,
) -> Result<(), Fault> {
    let n = stack.columns();
    each_matrix(op, pool, stack, n * n * n, |i| {
        with_room(n * n, |work: &mut [T]| {
            stack.read(i, work, n);
            run(i, &Factors::new(pool, work, n, n));
            Ok(())
        })
    })
}

/// The shape of the dimensions before the last two.
fn leading(layout: &Layout) -> Result<Shape, Error> {
    Shape::new(&layout.dims()[..layout.ndim() - 2])
}

/// Operations that make a thread worth its while.
const GRAIN: usize = 1 << 14;

/// Runs `run` for every matrix of a stack, many at a time; `cost` is the work of one, in operations.
fn each_matrix<T>(
    op: &'static str,
    pool: &ThreadPool,
    stack: &Stack<'_, T>,
    cost: usize,
    run: impl Fn(usize) -> Result<(), MatrixDefect> + Sync,
) -> Result<(), Fault> {
    each_range(op, pool, stack, cost, |range| {
        range.into_iter().try_for_each(|i| run(i).map_err(|defect| (i, defect)))
    })
}

/// Runs `run` for ranges of the matrices of a stack. Of several defects, that of the first matrix is reported.
fn each_range<T>(
    op: &'static str,
    pool: &ThreadPool,
    stack: &Stack<'_, T>,
    cost: usize,
    run: impl Fn(Range<usize>) -> Result<(), (usize, MatrixDefect)> + Sync,
) -> Result<(), Fault> {
    let first: Mutex<Option<(usize, MatrixDefect)>> = Mutex::new(None);
    pool.ranges(stack.starts.len(), GRAIN.div_ceil(cost.max(1)), |range| {
        if let Err(found) = run(range) {
            let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
            if first.is_none_or(|(i, _)| found.0 < i) {
                *first = Some(found);
            }
        }
    });
    match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(()),
        Some((i, defect)) => {
            let mut rest = i;
            let mut batch = vec![0; stack.batch.ndim()];
            for (place, &len) in batch.iter_mut().zip(stack.batch.dims()).rev() {
                *place = rest % len;
                rest /= len;
            }
            Err(Error::Matrix { op, batch, defect }.into())
        }
    }
}

/// The matrices of a view.
struct Stack<'a, T> {
    base: *const T,
    /// The shape of the dimensions before the last two.
    batch: Shape,
    /// Where each matrix begins.
    starts: Vec<usize>,
    /// Rows and columns of each.
    size: [usize; 2],
    /// Elements from one row to the next, and from one column to the next.
    strides: [usize; 2],
    life: PhantomData<&'a [T]>,
}

// SAFETY: reads elements of a view that outlives this value; see the documentation of `strided`.
unsafe impl<T: Sync> Sync for Stack<'_, T> {}

impl<'a, T: Number> Stack<'a, T> {
    fn new(x: &View<'a>) -> Result<Stack<'a, T>, Fault> {
        Stack::broadcast(x, &leading(x.layout())?)
    }

    /// As many matrices as `batch` has places.
    fn broadcast(x: &View<'a>, batch: &Shape) -> Result<Stack<'a, T>, Fault> {
        let base = x.address::<T>().ok_or_else(unreachable_memory)?;
        let layout = x.layout();
        let lead = layout.ndim() - 2;
        let (dims, strides) = (layout.dims(), layout.strides());
        let own = Layout::new(Shape::new(&dims[..lead])?, Dims::from_slice(&strides[..lead]), 0)?;
        let starts = own.broadcast_to(batch, "linalg")?.indices().collect();
        let (size, strides) = ([dims[lead], dims[lead + 1]], [strides[lead], strides[lead + 1]]);
        Ok(Stack { base, batch: batch.clone(), starts, size, strides, life: PhantomData })
    }

    fn columns(&self) -> usize {
        self.size[1]
    }

    /// The elements of matrix `i`.
    fn elements(&self, i: usize) -> Left<T> {
        Left { at: self.base.wrapping_add(self.starts[i]), strides: self.strides, conj: false }
    }

    /// Matrix `i`, in rows of `row` elements.
    fn read(&self, i: usize, to: &mut [T], row: usize) {
        self.read_rows(i, 0..self.size[0], to, row);
    }

    /// Some rows of matrix `i` in another order.
    fn read_rows(&self, i: usize, rows: impl Iterator<Item = usize>, to: &mut [T], row: usize) {
        let [_, columns] = self.size;
        let [down, across] = self.strides;
        if columns == 0 {
            return;
        }
        for (from, to) in rows.zip(to.chunks_exact_mut(row)) {
            assert!(from < self.size[0], "row outside the matrix");
            let from = self.base.wrapping_add(self.starts[i] + from * down);
            let to = &mut to[..columns];
            // SAFETY: elements of the view; see the documentation of `strided`.
            unsafe {
                if across == 1 {
                    to.copy_from_slice(std::slice::from_raw_parts(from, columns));
                } else {
                    for (j, to) in to.iter_mut().enumerate() {
                        *to = *from.add(j * across);
                    }
                }
            }
        }
    }

    /// The adjoint of matrix `i`, in rows of `row` elements.
    fn read_adjoint(&self, i: usize, to: &mut [T], row: usize) {
        let [rows, columns] = self.size;
        if self.strides[1] == 1 && rows != 0 && columns != 0 {
            let from = self.base.wrapping_add(self.starts[i]);
            let reached = (rows - 1) * self.strides[0] + columns;
            // SAFETY: from the first to the last element of a matrix of the view, whose rows are contiguous. Between
            // rows there may be other elements of the buffer, which are not read.
            let from = unsafe { std::slice::from_raw_parts(from, reached) };
            return transpose_from(from, self.strides[0], [rows, columns], to, row, T::conj);
        }
        let swapped = Stack {
            base: self.base,
            batch: self.batch.clone(),
            starts: vec![self.starts[i]],
            size: [columns, rows],
            strides: [self.strides[1], self.strides[0]],
            life: PhantomData,
        };
        swapped.read(0, to, row);
        to.iter_mut().for_each(|x| *x = x.conj());
    }
}

/// The transpose of a square matrix in rows of `n`, each element changed by `each`.
fn transpose<T: Copy>(from: &[T], n: usize, to: &mut [T], row: usize, each: impl Fn(T) -> T) {
    transpose_from(from, n, [n, n], to, row, each);
}

/// Rows and columns that are transposed together, so that both sides stay in the first-level cache.
const TILE: usize = 16;

fn transpose_from<T: Copy>(
    from: &[T],
    from_row: usize,
    [rows, columns]: [usize; 2],
    to: &mut [T],
    to_row: usize,
    each: impl Fn(T) -> T,
) {
    for i in (0..rows).step_by(TILE) {
        for j in (0..columns).step_by(TILE) {
            for c in j..columns.min(j + TILE) {
                for r in i..rows.min(i + TILE) {
                    to[c * to_row + r] = each(from[r * from_row + c]);
                }
            }
        }
    }
}

/// A block of a matrix in memory, whose rows are contiguous.
#[derive(Clone, Copy)]
struct Place<T> {
    /// Its first element.
    at: *mut T,
    /// Elements from one row to the next.
    row: usize,
}

// SAFETY: an address; what is done with it is argued where it is done.
unsafe impl<T: Send> Sync for Place<T> {}

impl<T: Number> Place<T> {
    /// The block that begins at this row and column.
    fn block(self, row: usize, column: usize) -> Place<T> {
        Place { at: self.at.wrapping_add(row * self.row + column), row: self.row }
    }

    /// As the right factor of a matmul.
    fn read(self) -> (*const T, usize) {
        (self.at.cast_const(), self.row)
    }

    /// As the result of a matmul.
    fn write(self) -> (*mut T, usize) {
        (self.at, self.row)
    }

    /// Fills rows that follow each other with zeros.
    ///
    /// # Safety
    /// There are so many rows, of so many columns each, and they are the caller's alone; `columns` is the row's length.
    unsafe fn clear(self, rows: usize, columns: usize) {
        // SAFETY: this function's contract.
        unsafe { std::slice::from_raw_parts_mut(self.at, rows * columns) }.fill(T::ZERO);
    }
}

/// Bytes of work space that a thread keeps.
const KEPT: usize = 8 << 20;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; 64]);

thread_local! {
    /// Memory kept from matrix to matrix.
    static ROOM: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Calls `run` with room for `len` elements, of unspecified values.
fn with_room<T: Number, R>(len: usize, run: impl FnOnce(&mut [T]) -> R) -> R {
    let mut room = ROOM.take();
    let lines = (len * size_of::<T>()).div_ceil(size_of::<Line>());
    if room.len() < lines {
        room = vec![Line([0; 64]); lines];
    }
    // SAFETY: lines are initialised bytes, aligned for every number, of which every pattern is one; nothing else refers to
    // them.
    let result = run(unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast(), len) });
    // A call inside this one had room of its own; the larger one is kept.
    let other = ROOM.take();
    let kept = if other.len() > room.len() { other } else { room };
    if size_of_val(&kept[..]) <= KEPT {
        ROOM.set(kept);
    }
    result
}

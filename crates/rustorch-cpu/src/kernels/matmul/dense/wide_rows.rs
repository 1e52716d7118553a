//! A GEMM of few rows whose right operand has contiguous rows, too: it is read where it stands, row after row, as far as the sums stay in the
//! first-level cache. To pack it would take longer than to multiply it.

use super::Arithmetic;
use super::gemm::{SMALL, with_scratch};
use super::scaled_rows::{add_scaled, add_scaled_rows};
use super::vector::{GRAIN, TOGETHER, Values};
use crate::kernels::matmul::gemm_args::GemmArgs;
use crate::kernels::matmul::rows::{GemmOutput, Parts};
use crate::math::Real;
use crate::simd::{self, Level, Task};
use crate::{Isa, ThreadPool};
use std::ops::Range;

/// Rows up to which their sums, [`SEGMENT`] bytes each, stay in the cache.
const MOST_ROWS: usize = 16;
/// Bytes of a row of sums.
const SEGMENT: usize = 1 << 10;
/// Columns from which rows of the right operand are long enough to be read as such.
const LEAST_COLUMNS: usize = 64;

/// Whether a GEMM is one of these. Results are the bits of others: one chain of multiply-adds in order, fused as vector instructions do.
pub(super) fn fits(gemm: &GemmArgs) -> bool {
    gemm.is_single()
        && (2..=MOST_ROWS).contains(&gemm.m)
        && gemm.n >= LEAST_COLUMNS
        && gemm.b_strides[1] == 1
        && gemm.m.saturating_mul(gemm.n).saturating_mul(gemm.k) > SMALL
        && Isa::detect() > Isa::Portable
}

/// Runs a GEMM that [`fits`].
///
/// # Safety
/// The operands have the elements that `gemm` describes, from `a` and `b` on; so has the result, which nobody else uses, and the bias.
pub(super) unsafe fn run<A>(
    pool: &ThreadPool,
    gemm: &GemmArgs,
    [a, b]: [*const A::X; 2],
    out: &GemmOutput<'_, A::X>,
) where
    A: Arithmetic,
    A::X: Values<A::E>,
    A::E: Real,
{
    let width = SEGMENT / size_of::<A::E>();
    let (a, b) = (Parts::new(a.cast_mut()), Parts::new(b.cast_mut()));
    pool.ranges(gemm.n.div_ceil(width), (GRAIN / (gemm.k * SEGMENT)).max(1), |segments| {
        with_scratch(gemm.m * width, |sums: *mut A::E| {
            for segment in segments {
                let columns = segment * width..gemm.n.min((segment + 1) * width);
                // SAFETY: the operands' first elements.
                let (a, b) = unsafe { (a.address(0).cast_const(), b.address(0).cast_const()) };
                simd::run(WideRows::<A> { gemm, a, b, columns: columns.clone(), sums });
                for i in 0..gemm.m {
                    // SAFETY: this function's contract; the sums were written.
                    unsafe {
                        let sums = std::slice::from_raw_parts(sums.add(i * columns.len()), columns.len());
                        out.store(i, columns.start, sums, A::out);
                    }
                }
                // SAFETY: as above; the results are stored.
                unsafe { out.activate(0..gemm.m, columns) };
            }
        });
    });
}

/// Sums of all rows for some columns.
struct WideRows<'a, A: Arithmetic> {
    gemm: &'a GemmArgs,
    a: *const A::X,
    b: *const A::X,
    columns: Range<usize>,
    sums: *mut A::E,
}

impl<A> Task for WideRows<'_, A>
where
    A: Arithmetic,
    A::X: Values<A::E>,
    A::E: Real,
{
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let (m, k, n) = (self.gemm.m, self.gemm.k, self.columns.len());
        // SAFETY: the contract of `super::run`.
        unsafe {
            for i in 0..m * n {
                self.sums.add(i).write(<A::E as Real>::ZERO);
            }
            let mut p = 0;
            while p < k {
                p += match k - p {
                    TOGETHER.. => self.values::<L, TOGETHER>(l, p),
                    _ => self.values::<L, 1>(l, p),
                };
            }
        }
    }
}

impl<A> WideRows<'_, A>
where
    A: Arithmetic,
    A::X: Values<A::E>,
    A::E: Real,
{
    /// Adds products of `N` values to the sums of all rows; returns how many.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn values<L: Level, const N: usize>(&self, l: L, p: usize) -> usize {
        let (m, n, [row, value]) = (self.gemm.m, self.columns.len(), self.gemm.a_strides);
        // SAFETY: this function's contract.
        unsafe {
            let mut rows = [self.b; N];
            for v in 0..N {
                rows[v] = self.b.add((p + v) * self.gemm.b_strides[0] + self.columns.start);
            }
            let mut i = 0;
            while i < m {
                let together = if m - i >= TOGETHER { TOGETHER } else { 1 };
                let mut factors = [[<A::E as Real>::ZERO; N]; TOGETHER];
                let mut sums = [self.sums; TOGETHER];
                for t in 0..together {
                    for v in 0..N {
                        factors[t][v] = A::x(*self.a.add((i + t) * row + (p + v) * value));
                    }
                    sums[t] = self.sums.add((i + t) * n);
                }
                if together == TOGETHER {
                    add_scaled_rows::<L, A, N, TOGETHER>(l, factors, rows, sums, n);
                } else {
                    add_scaled::<L, A, N>(l, factors[0], rows, sums[0], n);
                }
                i += together;
            }
        }
        N
    }
}

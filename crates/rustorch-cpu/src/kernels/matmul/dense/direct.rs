//! Small GEMMs of `f32` and `f64`, computed from where their operands are: to pack them would take longer than to multiply them.

use crate::kernels::matmul::gemm_args::{GemmArgs, Target};
use crate::kernels::matmul::rows::{GemmOutput, Parts};
use crate::kernels::pointwise::Pointwise;
use crate::math::Real;
use crate::simd::{self, Level, Task};
use crate::{Isa, ThreadPool};

/// Multiply-adds up to which operands are not packed: of whole blocks of results, and of any.
const MOST: usize = 32 << 10;
const MOST_OF_ANY: usize = 4 << 10;

/// Multiply-adds for a thread to compute at least.
const GRAIN: usize = 64 << 10;

/// Rows and columns of a block of results, which are in registers.
const ROWS: usize = 4;
const COLUMNS: usize = 16;

/// Whether a GEMM, or each of a batch, is one of these: of few multiply-adds, with contiguous rows of the right operand and of the result.
///
/// Results are the bits of packed GEMMs: one chain of multiply-adds in order, fused as vector instructions do.
pub(super) fn fits(gemm: &GemmArgs) -> bool {
    let most = if gemm.m >= ROWS && gemm.n >= COLUMNS { MOST } else { MOST_OF_ANY };
    multiply_adds(gemm) <= most
        && gemm.b_strides[1] == 1
        && gemm.out_strides[1] == 1
        && Isa::detect() > Isa::Portable
}

fn multiply_adds(gemm: &GemmArgs) -> usize {
    gemm.m.saturating_mul(gemm.n).saturating_mul(gemm.k)
}

/// Computes GEMMs that [`fits`] says are small.
///
/// # Safety
/// The operands have the elements that `gemm` describes, from `a` and `b` on; so has the target, which nobody else uses.
pub(super) unsafe fn run<T: Real + Pointwise>(
    pool: &ThreadPool,
    gemm: &GemmArgs,
    [a, b]: [*const T; 2],
    target: &Target<T>,
) {
    let (a, b) = (Parts::new(a.cast_mut()), Parts::new(b.cast_mut()));
    pool.ranges(gemm.batches(), GRAIN / multiply_adds(gemm).max(1), |batches| {
        for batch in batches {
            let [a_start, b_start, _] = gemm.batch_starts(batch);
            let out = gemm.output(target, &gemm.batch(batch));
            // SAFETY: this function's contract: where the operands of a batch begin; activated is what was written.
            unsafe {
                simd::run(Direct { gemm, a: a.address(a_start), b: b.address(b_start), out: &out });
                out.activate(0..gemm.m, 0..gemm.n);
            }
        }
    });
}

struct Direct<'a, T> {
    gemm: &'a GemmArgs,
    a: *const T,
    b: *const T,
    out: &'a GemmOutput<'a, T>,
}

impl<T: Real> Task for Direct<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, level: L) {
        let mut column = 0;
        while column < self.gemm.n {
            column += match self.gemm.n - column {
                COLUMNS.. => self.columns::<L, COLUMNS>(level, column),
                8.. => self.columns::<L, 8>(level, column),
                4.. => self.columns::<L, 4>(level, column),
                _ => self.columns::<L, 1>(level, column),
            };
        }
    }
}

impl<T: Real> Direct<'_, T> {
    /// `C` columns of all rows; returns how many they are.
    #[inline(always)]
    fn columns<L: Level, const C: usize>(&self, level: L, column: usize) -> usize {
        let mut row = 0;
        while row + ROWS <= self.gemm.m {
            self.block::<L, ROWS, C>(level, row, column);
            row += ROWS;
        }
        while row < self.gemm.m {
            self.block::<L, 1, C>(level, row, column);
            row += 1;
        }
        C
    }

    #[inline(always)]
    fn block<L: Level, const R: usize, const C: usize>(&self, level: L, row: usize, column: usize) {
        let [a_row, a_inner] = self.gemm.a_strides;
        let mut sums = [[T::ZERO; C]; R];
        for p in 0..self.gemm.k {
            // SAFETY: by the contract of `run`; the block is inside of the result.
            let right =
                unsafe { self.b.add(p * self.gemm.b_strides[0] + column).cast::<[T; C]>().read_unaligned() };
            for (i, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let left = unsafe { *self.a.add((row + i) * a_row + p * a_inner) };
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = left.fused(level, right, *sum);
                }
            }
        }
        if let Some((bias, stride)) = self.out.bias {
            for c in 0..C {
                // SAFETY: as above.
                let bias = unsafe { *bias.add((column + c) * stride) };
                sums.iter_mut().for_each(|sums| sums[c] = sums[c] + bias);
            }
        }
        for (i, sums) in sums.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe {
                let to = self.out.base.add((row + i) * self.gemm.out_strides[0] + column);
                to.cast::<[T; C]>().write_unaligned(sums);
            }
        }
    }
}

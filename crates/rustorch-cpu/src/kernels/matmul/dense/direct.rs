//! A small GEMM of `f32`, computed from where its operands are: to pack them would take longer than to multiply them.

use crate::Isa;
use crate::kernels::matmul::gemm_args::GemmArgs;
use crate::kernels::matmul::rows::GemmOutput;
use crate::simd::{self, Level, Task};

/// Multiply-adds up to which operands are not packed.
const MOST: usize = 4 << 10;

/// Rows of a block of results, which are in registers.
const ROWS: usize = 4;

/// Whether a GEMM is one of these: of few multiply-adds, with contiguous rows of the right operand and of the result.
///
/// Results are the bits of packed GEMMs: one chain of multiply-adds in order, fused as vector instructions do.
pub(super) fn fits(gemm: &GemmArgs) -> bool {
    let is_small = gemm.m.saturating_mul(gemm.n).saturating_mul(gemm.k) <= MOST;
    is_small
        && gemm.is_single()
        && gemm.b_strides[1] == 1
        && gemm.out_strides[1] == 1
        && Isa::detect() > Isa::Portable
}

/// Computes a GEMM that [`fits`].
///
/// # Safety
/// The operands have the elements that `gemm` describes, from `a` and `b` on; so have the result from `out.base` on, which nobody else
/// uses, and the bias.
pub(super) unsafe fn run(gemm: &GemmArgs, a: *const f32, b: *const f32, out: &GemmOutput<'_, f32>) {
    simd::run(Direct { gemm, a, b, out });
    // SAFETY: all was written.
    unsafe { out.activate(0..gemm.m, 0..gemm.n) };
}

struct Direct<'a> {
    gemm: &'a GemmArgs,
    a: *const f32,
    b: *const f32,
    out: &'a GemmOutput<'a, f32>,
}

impl Task for Direct<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, level: L) {
        let mut column = 0;
        while column < self.gemm.n {
            column += match self.gemm.n - column {
                8.. => self.columns::<L, 8>(level, column),
                4.. => self.columns::<L, 4>(level, column),
                _ => self.columns::<L, 1>(level, column),
            };
        }
    }
}

impl Direct<'_> {
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
        let mut sums = [[0.0f32; C]; R];
        for p in 0..self.gemm.k {
            // SAFETY: by the contract of `run`; the block is inside of the result.
            let right = unsafe {
                self.b.add(p * self.gemm.b_strides[0] + column).cast::<[f32; C]>().read_unaligned()
            };
            for (i, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let left = unsafe { *self.a.add((row + i) * a_row + p * a_inner) };
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = level.fma(left, right, *sum);
                }
            }
        }
        if let Some((bias, stride)) = self.out.bias {
            for c in 0..C {
                // SAFETY: as above.
                let bias = unsafe { *bias.add((column + c) * stride) };
                sums.iter_mut().for_each(|sums| sums[c] += bias);
            }
        }
        for (i, sums) in sums.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe {
                let to = self.out.base.add((row + i) * self.gemm.out_strides[0] + column);
                to.cast::<[f32; C]>().write_unaligned(sums);
            }
        }
    }
}

//! Split-K: matmuls of few results, each of which sums many products, are sums of matmuls of chunks of the inner dimension.
//!
//! Chunks are of one length, and their results are added in order, so that sums depend neither on threads nor on the other results; but they
//! are not the one chain that other kernels have.

use super::gemm::{self, Strided};
use super::{Arithmetic, Same};
use crate::kernels::matmul::gemm_args::{GemmArgs, Target};
use crate::kernels::matmul::rows::GroupedGemm;
use crate::kernels::pointwise::Pointwise;
use crate::math::Real;
use crate::{Isa, ThreadPool};
use smallvec::SmallVec;

/// Values of a chunk.
const CHUNK: usize = 1024;
/// Chunks from which on it pays.
const FEWEST: usize = 8;
/// Results, at most: those of several stacks of rows are shared by threads as they are.
const RESULTS: usize = 32 * 32;

/// Whether a matmul has few results with long sums.
pub(super) fn fits(gemm: &GemmArgs) -> bool {
    gemm.is_single() && gemm.k >= FEWEST * CHUNK && gemm.m * gemm.n <= RESULTS
}

/// Runs a matmul that [`fits`].
///
/// # Safety
/// The operands have the elements that `gemm` describes, from `a` and `b` on; nobody else uses those of the target.
pub(super) unsafe fn run<T: Real + Pointwise>(
    pool: &ThreadPool,
    gemm: &GemmArgs,
    [a, b]: [*const T; 2],
    target: &Target<T>,
) where
    Same<T>: Arithmetic<X = T, W = T, E = T>,
{
    let (m, n, chunks) = (gemm.m, gemm.n, gemm.k.div_ceil(CHUNK));
    let mut partial = vec![<T as Real>::ZERO; chunks * m * n];
    let to = Target::of(&mut partial);
    let [k_stride, n_stride] = gemm.b_strides;
    let mut first = 0;
    // Those of the whole length, then the rest.
    for (count, k) in [(gemm.k / CHUNK, CHUNK), (1, gemm.k % CHUNK)] {
        if k == 0 {
            continue;
        }
        let starts =
            (first..first + count).map(|i| [i * CHUNK * gemm.a_strides[1], i * CHUNK * k_stride, i * m * n]);
        let parts =
            GemmArgs::with_batches((m, n, k), (gemm.a_strides, gemm.b_strides, [n, 1]), starts.collect());
        let gemms: SmallVec<[_; 1]> = (0..count)
            .map(|i| parts.batch(i))
            .map(|rows| GroupedGemm {
                w: b.wrapping_add(rows.b_start).cast(),
                // SAFETY: this function's contract; the rows are parts of the operand's.
                x: unsafe { parts.rows(a, &rows) },
                out: parts.output(&to, &rows),
            })
            .collect();
        // SAFETY: this function's contract; each chunk has its own results.
        unsafe { gemm::run::<Same<T>>(pool, Isa::detect(), Strided { n, k, k_stride, n_stride }, &gemms) };
        first += count;
    }
    let out = gemm.output(target, &gemm.batch(0));
    let (sums, others) = partial.split_at_mut(m * n);
    for part in others.chunks_exact(m * n) {
        for (sum, &x) in sums.iter_mut().zip(part) {
            *sum = *sum + x;
        }
    }
    for (i, row) in sums.chunks_exact(n).enumerate() {
        // SAFETY: this function's contract.
        unsafe { out.store(i, 0, row, Same::<T>::out) };
    }
    // SAFETY: this function's contract; they are stored.
    unsafe { out.activate(0..m, 0..n) };
}

//! Split-K: matmuls of few results, each of which sums many products, are sums of matmuls of chunks of the inner dimension.
//!
//! Chunks are of one length, and their results are added in order, so that sums depend neither on threads nor on the other results; but they
//! are not the one chain that other kernels have.

use super::gemm::{DEPTH, with_scratch};
use super::kernel::{Pitched, Scalar, Tiles};
use super::pack::{pack_columns, pack_rows};
use super::{Arithmetic, Same};
use crate::kernels::matmul::gemm_args::{GemmArgs, Target};
use crate::kernels::matmul::rows::Parts;
use crate::kernels::pointwise::Pointwise;
use crate::math::Real;
use crate::{Isa, ThreadPool};
use std::ops::Range;

/// Values of a chunk.
const CHUNK: usize = 4 * DEPTH;
/// Chunks from which on it pays.
const FEWEST: usize = 8;
/// Rows and columns of results, at most.
const MOST: usize = 32;
/// Rows of a tile: as many as keep the CPU busy, and two make the sixteen of a common shape.
const ROWS: usize = 8;

/// Whether a matmul has few results with long sums.
pub(super) fn fits(gemm: &GemmArgs) -> bool {
    gemm.is_single() && gemm.k >= FEWEST * CHUNK && gemm.m.max(gemm.n) <= MOST
}

/// Runs a matmul that [`fits`].
///
/// # Safety
/// The operands have the elements that `gemm` describes, from `a` and `b` on; nobody else uses those of the target.
pub(super) unsafe fn run<T: Real + Scalar + Pointwise>(
    pool: &ThreadPool,
    gemm: &GemmArgs,
    [a, b]: [*const T; 2],
    target: &Target<T>,
) where
    Same<T>: Arithmetic<X = T, W = T, E = T>,
{
    let isa = Isa::detect();
    let tiles = T::narrow_tiles(isa).filter(|tiles| gemm.n <= tiles.columns).unwrap_or_else(|| T::tiles(isa));
    let (m, n, chunks) = (gemm.m, gemm.n, gemm.k.div_ceil(CHUNK));
    // Rows of whole panels, for each chunk.
    let pitch = n.next_multiple_of(tiles.columns);
    let mut sums = vec![<T as Real>::ZERO; chunks * m * pitch];
    let (a, b) = (Parts::new(a.cast_mut()), Parts::new(b.cast_mut()));
    let to = Parts::new(sums.as_mut_ptr());
    pool.run(chunks, |i| {
        let values = i * CHUNK..gemm.k.min((i + 1) * CHUNK);
        // SAFETY: this function's contract; each chunk has its own results, of which there are as many.
        unsafe {
            let to = Pitched { first: to.address(i * m * pitch), pitch };
            multiply(isa, tiles, gemm, [a.address(0), b.address(0)], values, to);
        }
    });
    let (sums, others) = sums.split_at_mut(m * pitch);
    for part in others.chunks_exact(m * pitch) {
        for (sum, &x) in sums.iter_mut().zip(part) {
            *sum = *sum + x;
        }
    }
    let out = gemm.output(target, &gemm.batch(0));
    for (i, row) in sums.chunks_exact(pitch).enumerate() {
        // SAFETY: this function's contract.
        unsafe { out.store(i, 0, &row[..n], Same::<T>::out) };
    }
    // SAFETY: this function's contract; they are stored.
    unsafe { out.activate(0..m, 0..n) };
}

/// Writes the sums over some values, of which there is one at least.
///
/// # Safety
/// As [`run`]; there is room for rows of whole panels.
unsafe fn multiply<T: Real + Scalar>(
    isa: Isa,
    tiles: &Tiles<T>,
    gemm: &GemmArgs,
    [a, b]: [*const T; 2],
    values: Range<usize>,
    to: Pitched<*mut T>,
) where
    Same<T>: Arithmetic<X = T, W = T, E = T>,
{
    let ([row, value], [k_stride, n_stride], columns) = (gemm.a_strides, gemm.b_strides, tiles.columns);
    let is_panel = gemm.n == columns && [k_stride, n_stride] == [columns, 1];
    let in_place = value == 1 && !tiles.strided.is_empty();
    with_scratch(DEPTH * (columns + ROWS), |panel: *mut T| {
        let packed = panel.wrapping_add(DEPTH * columns);
        for p in values.clone().step_by(DEPTH) {
            let depth = DEPTH.min(values.end - p);
            for j in (0..gemm.n).step_by(columns) {
                let width = columns.min(gemm.n - j);
                let right = b.wrapping_add(p * k_stride + j * n_stride);
                let mut i = 0;
                while i < gemm.m {
                    let (height, tile) = tiles.at_most(ROWS.min(gemm.m - i));
                    let left = a.wrapping_add(i * row + p * value);
                    let to = Pitched { first: to.first.wrapping_add(i * to.pitch + j), ..to };
                    let from = (p > values.start).then(|| to.to_read());
                    // SAFETY: this function's contract; there is memory for a panel and for packed rows.
                    unsafe {
                        if i == 0 && !is_panel {
                            pack_columns::<Same<T>>(
                                isa,
                                right,
                                (depth, width),
                                (k_stride, n_stride),
                                columns,
                                panel,
                            );
                        }
                        let right = if is_panel { right } else { panel.cast_const() };
                        if in_place {
                            let (_, tile) =
                                tiles.strided_over(0..height).next().expect("a tile of so many rows");
                            tile(depth, Pitched { first: left, pitch: row }, right, from, to);
                        } else {
                            let rows: [*const T; ROWS] = std::array::from_fn(|r| left.wrapping_add(r * row));
                            pack_rows::<Same<T>>(&rows[..height], depth, value, packed);
                            tile(depth, packed, right, from, to);
                        }
                    }
                    i += height;
                }
            }
        }
    });
}

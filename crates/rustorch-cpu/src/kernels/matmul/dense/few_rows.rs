//! A GEMM whose left operand has few rows: to pack the right operand would take long beside multiplying it. The operands are exchanged: rows
//! of the left one are packed as columns, the right one is read where it stands, and sums are transposed on their way to the result.

use super::Arithmetic;
use super::gemm::{DEPTH, PACK_GRAIN, Strided, multiply_ns, with_packed, with_scratch};
use super::kernel::{Pitched, Scalar, Tiles};
use super::pack::pack_columns;
use crate::kernels::matmul::rows::{GemmOutput, GroupedGemm, Parts, RowOffsets, StridedRows};
use crate::kernels::matmul::tasks::WORTH;
use crate::{Isa, ThreadPool};
use std::ops::Range;

/// Panels of rows up to which this takes less time than to pack the right operand.
const MOST_PANELS: usize = 2;
/// The highest tiles whose sums are transposed at once.
const TOGETHER: usize = 4;

/// Runs a GEMM whose right operand has its columns' values contiguous, if its rows fill three quarters of their panels or are in one narrow
/// one, and its type has strided tiles; else returns `false` and does nothing.
///
/// Results are the bits of other ways: the same chain of multiply-adds.
///
/// # Safety
/// As [`run`](super::gemm::run).
pub(super) unsafe fn run<A: Arithmetic>(
    pool: &ThreadPool,
    isa: Isa,
    w: Strided,
    gemm: &GroupedGemm<'_, StridedRows<'_, A::X>, A::X>,
) -> bool {
    let rows = gemm.x.count;
    let narrow = A::E::narrow_tiles(isa).filter(|tiles| rows <= tiles.columns);
    let tiles = narrow.unwrap_or_else(|| A::E::tiles(isa));
    let panel = tiles.columns;
    let panels = rows.div_ceil(panel);
    let is_full = narrow.is_some() || 4 * (panels * panel - rows) <= panels * panel;
    let Some(pitch) = gemm.x.pitch() else { return false };
    if tiles.strided.is_empty()
        || !A::IS_PLAIN
        || A::ADDS
        || w.k_stride != 1
        || w.k == 0
        || panels > MOST_PANELS
        || !is_full
    {
        return false;
    }
    // As many blocks for each thread.
    let stacks = w.n.div_ceil(tiles.most_rows());
    let blocks = stacks.div_ceil(TOGETHER).next_multiple_of(pool.threads());
    let width = stacks.div_ceil(blocks.max(1)) * tiles.most_rows();
    with_packed(panels * panel * w.k, |packed: *mut A::E| {
        let packed = Parts::new(packed);
        let parts = w.k.div_ceil(DEPTH);
        pool.ranges(panels * parts, PACK_GRAIN / (DEPTH * panel), |units| {
            for unit in units {
                let (first, p) = (unit / parts * panel, unit % parts * DEPTH);
                let (depth, n) = (DEPTH.min(w.k - p), panel.min(rows - first));
                // SAFETY: this function's contract; there is room for all panels, and each part of one is one thread's.
                unsafe {
                    let from = gemm.x.address(first).add(p * gemm.x.stride()).cast::<A::W>();
                    let to = packed.address(first * w.k + p * panel);
                    pack_columns::<A>(isa, from, (depth, n), (gemm.x.stride(), pitch), panel, to);
                }
            }
        });
        let block_ns = width as f64 * multiply_ns::<A::E>(w.k, rows);
        pool.ranges(w.n.div_ceil(width.max(1)), (WORTH / block_ns).ceil() as usize, |blocks| {
            for block in blocks {
                let columns = block * width..w.n.min((block + 1) * width);
                // SAFETY: this function's contract; the panels are packed, and a block of results is one thread's.
                unsafe { multiply::<A>(isa, w, tiles, gemm, packed.address(0), columns) }
            }
        });
    });
    true
}

/// [`run`] of a GEMM whose right operand has few columns and whose left one has many rows of contiguous values: the product of the transposed
/// operands, transposed.
///
/// # Safety
/// As [`run`](super::gemm::run).
pub(super) unsafe fn run_exchanged<A: Arithmetic>(
    pool: &ThreadPool,
    isa: Isa,
    w: Strided,
    gemm: &GroupedGemm<'_, StridedRows<'_, A::X>, A::X>,
) -> bool {
    let GroupedGemm { w: matrix, x, out } = gemm;
    let is_narrow = A::E::narrow_tiles(isa).is_some_and(|tiles| w.n <= tiles.columns);
    let (Some(pitch), Some(to)) = (x.pitch(), out.pitched(0)) else { return false };
    if !A::IS_PLAIN || !is_narrow || out.bias.is_some() || x.stride() != 1 || x.count < w.n {
        return false;
    }
    let transposed = Strided { n: x.count, k: w.k, k_stride: 1, n_stride: pitch };
    // SAFETY: this function's contract. Elements of both operands are of one type, by `IS_PLAIN`.
    unsafe {
        let columns =
            StridedRows::new(matrix.cast(), RowOffsets::Strided(w.n_stride), w.n, (w.k, w.k_stride));
        let out = GemmOutput { offsets: RowOffsets::Strided(1), stride: to.pitch, ..*out };
        run::<A>(pool, isa, transposed, &GroupedGemm { w: x.address(0).cast(), x: columns, out })
    }
}

/// Columns of all rows of the result, at most as many as [`TOGETHER`] tiles have.
///
/// # Safety
/// As [`run`]; the rows are packed, panel after panel, and nobody else uses these results.
unsafe fn multiply<A: Arithmetic>(
    isa: Isa,
    w: Strided,
    tiles: &Tiles<A::E>,
    GroupedGemm { w: matrix, x, out }: &GroupedGemm<'_, StridedRows<'_, A::X>, A::X>,
    packed: *const A::E,
    columns: Range<usize>,
) {
    let (panel, width) = (tiles.columns, TOGETHER * tiles.most_rows());
    with_scratch::<A::E>(2 * width * panel, |sums| {
        // SAFETY: this function's contract. Factors are elements as they stand, by `IS_PLAIN`.
        unsafe {
            let transposed = sums.add(width * panel);
            let matrix = matrix.cast::<A::E>();
            for first in (0..x.count).step_by(panel) {
                let packed = packed.add(first * w.k);
                for p in (0..w.k).step_by(DEPTH) {
                    for (j, tile) in tiles.strided_over(0..columns.len()) {
                        let left = matrix.add((columns.start + j) * w.n_stride + p);
                        let left = Pitched { first: left, pitch: w.n_stride };
                        let to = Pitched { first: sums.add(j * panel), pitch: panel };
                        let from = (p > 0).then(|| to.to_read());
                        tile(DEPTH.min(w.k - p), left, packed.add(p * panel), from, to);
                    }
                }
                let (rows, n) = (panel.min(x.count - first), columns.len());
                pack_columns::<A>(isa, sums.cast(), (rows, n), (1, panel), width, transposed);
                for i in 0..rows {
                    let sums = std::slice::from_raw_parts(transposed.add(i * width), n);
                    out.store(first + i, columns.start, sums, A::out);
                }
            }
            // They are stored.
            out.activate(0..x.count, columns);
        }
    });
}

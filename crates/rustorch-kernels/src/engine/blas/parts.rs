//! From layouts to BLAS descriptors: leading dimensions and strided batches.

use super::GemmDTypes;
use crate::driver::{BatchedGemm, MatrixBatch};
use crate::family::matmul::leading;
use crate::library::strided::Grid;
use rustorch_core::{DType, Layout};

/// A matmul as calls of a library.
#[derive(Debug)]
pub(super) struct Parts {
    /// What every call does.
    pub(super) product: BatchedGemm,
    /// Of each call, the bytes at which its left, its right and its resulting matrices begin.
    pub(super) starts: Vec<[usize; 3]>,
}

/// More calls than this for one operation are no gain over one launch.
const MOST: usize = 64;

impl Parts {
    /// A matmul `a · b` of dense matrices; `None` if it multiplies nothing, or if operands lie otherwise.
    pub(super) fn of(GemmDTypes { factors, result }: GemmDTypes, [a, b, out]: [&Layout; 3]) -> Option<Parts> {
        let last_two = |numbers: &[usize]| [numbers[numbers.len() - 2], numbers[numbers.len() - 1]];
        let ([m, k], [_, n]) = (last_two(a.dims()), last_two(b.dims()));
        if m == 0 || n == 0 || k == 0 || out.numel() == 0 {
            return None;
        }
        let batch = leading(out, 2).ok()?;
        let repeated = |x: &Layout| leading(x, 2).ok()?.broadcast_to(batch.shape(), "matmul").ok();
        let grid = Grid::new(&[&repeated(a)?, &repeated(b)?, &batch]);
        // The longest dimension is the batch of a call, the others are calls.
        let longest = (0..grid.ndim()).max_by_key(|&d| grid.dims[d]);
        let along = |operand: usize| longest.map_or(0, |d| grid.strides[operand][d]);
        let matrices = |layout: &Layout, rows, columns, operand| {
            let (pitch, transposed) = lines(rows, columns, last_two(layout.strides()))?;
            Some(MatrixBatch { pitch, transposed, step: along(operand) })
        };
        let product = BatchedGemm {
            dtype: factors,
            out_dtype: result,
            m,
            n,
            k,
            batch: longest.map_or(1, |d| grid.dims[d]),
            a: matrices(a, m, k, 0)?,
            b: matrices(b, k, n, 1)?,
            out: matrices(out, m, n, 2).filter(|out| !out.transposed)?,
            accumulate: false,
        };
        let others: Vec<usize> = (0..grid.ndim()).filter(|&d| Some(d) != longest).collect();
        let calls: usize = others.iter().map(|&d| grid.dims[d]).product();
        if calls > MOST {
            return None;
        }
        let first = [a.offset(), b.offset(), out.offset()];
        let start = |mut call: usize| {
            let mut places = first;
            for &d in &others {
                let i = call % grid.dims[d];
                call /= grid.dims[d];
                (0..3).for_each(|operand| places[operand] += i * grid.strides[operand][d]);
            }
            let bytes = [factors, factors, result].map(DType::block_bytes);
            std::array::from_fn(|operand| places[operand] * bytes[operand])
        };
        Some(Parts { product, starts: (0..calls).map(start).collect() })
    }
}

/// The pitch of a matrix of these strides, and whether it is transposed; `None` if neither rows nor columns are contiguous, or
/// if they overlap.
fn lines(rows: usize, columns: usize, [row, column]: [usize; 2]) -> Option<(usize, bool)> {
    let pitch = |count: usize, len: usize, step: usize| if count == 1 { len } else { step };
    let together = |len: usize, step: usize| len == 1 || step == 1;
    let (across, down) = (pitch(rows, columns, row), pitch(columns, rows, column));
    if together(columns, column) && across >= columns {
        Some((across, false))
    } else if together(rows, row) && down >= rows {
        Some((down, true))
    } else {
        None
    }
}

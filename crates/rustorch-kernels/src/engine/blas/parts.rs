//! From layouts to BLAS descriptors: leading dimensions and strided batches.

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
    /// A matmul `a · b` of dense matrices of a dtype; `None` if it multiplies nothing, or if operands lie otherwise.
    pub(super) fn of(dtype: DType, [a, b, out]: [&Layout; 3]) -> Option<Parts> {
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
            dtype,
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
            places.map(|place| place * dtype.block_bytes())
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustorch_core::{Device, MatMul, Op, Shape, TensorMeta};

    fn layout(dims: &[usize], strides: &[usize], offset: usize) -> Layout {
        Layout::new(Shape::new(dims).unwrap(), strides, offset).unwrap()
    }

    /// The parts of `a · b`, of which the result is contiguous.
    fn parts(a: &Layout, b: &Layout) -> Option<Parts> {
        let meta = |layout| TensorMeta { dtype: DType::F16, layout, device: Device::cuda(0) };
        let outs = Op::MatMul(MatMul::default()).infer(&[meta(a), meta(b)]).unwrap();
        Parts::of(DType::F16, [a, b, &Layout::contiguous(outs[0].shape.clone())])
    }

    #[test]
    fn rows_or_columns_lie_together() {
        assert_eq!(lines(3, 5, [5, 1]), Some((5, false)));
        assert_eq!(lines(3, 5, [9, 1]), Some((9, false)));
        assert_eq!(lines(3, 5, [1, 4]), Some((4, true)));
        // One row or column: steps that are never made do not matter.
        assert_eq!(lines(1, 5, [0, 1]), Some((5, false)));
        assert_eq!(lines(1, 5, [7, 2]), Some((2, true)));
        assert_eq!(lines(3, 1, [2, 77]), Some((2, false)));
        assert_eq!(lines(1, 1, [0, 0]), Some((1, false)));
        // Repeated, overlapping and stepped ones.
        assert_eq!(lines(3, 5, [0, 1]), None);
        assert_eq!(lines(3, 5, [1, 0]), None);
        assert_eq!(lines(3, 5, [2, 1]), None);
        assert_eq!(lines(3, 5, [10, 2]), None);
        assert_eq!(lines(3, 1, [0, 1]), None);
    }

    #[test]
    fn batches_become_steps_and_calls() {
        // [6, 4] batches, of which those of b are repeated over the first dimension.
        let a = layout(&[6, 4, 3, 5], &[60, 15, 5, 1], 2);
        let b = layout(&[4, 5, 7], &[35, 1, 5], 0);
        let found = parts(&a, &b).unwrap();
        let BatchedGemm { m, n, k, batch, a, b, out, .. } = found.product;
        assert_eq!([m, n, k, batch], [3, 7, 5, 6]);
        assert_eq!(a, MatrixBatch { pitch: 5, transposed: false, step: 60 });
        assert_eq!(b, MatrixBatch { pitch: 5, transposed: true, step: 0 });
        assert_eq!(out, MatrixBatch { pitch: 7, transposed: false, step: 84 });
        let bytes = |call: usize| [2 * (2 + 15 * call), 2 * 35 * call, 2 * 21 * call];
        assert_eq!(found.starts, [bytes(0), bytes(1), bytes(2), bytes(3)]);
    }

    #[test]
    fn what_libraries_do_not_know_stays() {
        let b = layout(&[5, 7], &[7, 1], 0);
        assert!(parts(&layout(&[3, 5], &[10, 2], 0), &b).is_none(), "stepped");
        assert!(parts(&layout(&[3, 5], &[0, 1], 0), &b).is_none(), "repeated");
        assert!(parts(&layout(&[3, 0], &[1, 1], 0), &layout(&[0, 7], &[7, 1], 0)).is_none(), "empty");
        // 65 times 66 matrices that merge into no even step.
        let a = layout(&[65, 66, 2, 2], &[1000, 4, 2, 1], 0);
        assert!(parts(&a, &layout(&[2, 2], &[2, 1], 0)).is_none(), "too many calls");
    }
}

//! Dense GEMM by the device vendor's BLAS library.

use rustorch_core::{DType, Fault};

/// A vendor's BLAS library, [verified](crate::Engine) on the device before its results are used.
pub trait BlasLibrary<M> {
    /// Name and version.
    fn name(&self) -> &str;

    /// Whether a GEMM should use the library rather than the engine's kernels: a question of speed, decided from sizes.
    fn takes(&self, product: &BatchedGemm) -> bool;

    /// Submits a GEMM to this thread's stream: `out = a · b` (plus `out` if it accumulates), each operand a buffer and the byte
    /// offset of its first matrix. Accumulates in `f32` (`f64` for `F64`) without rounding the factors, in any order, and rounds
    /// once.
    ///
    /// Unless the outcome is [`Given`](GemmOutcome::Given), `out` is undefined afterwards.
    ///
    /// # Errors
    /// As for [`Driver::launch`](super::Driver::launch).
    fn multiply(
        &self,
        product: &BatchedGemm,
        a: (&M, usize),
        b: (&M, usize),
        out: (&M, usize),
    ) -> Result<GemmOutcome, Fault>;
}

/// The outcome of a GEMM call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GemmOutcome {
    /// It was submitted.
    Given,
    /// The library does not support it.
    Refused,
    /// Out of memory; a later call may succeed.
    NotNow,
}

/// A batch of matmuls `[m, k] · [k, n]` of dense matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchedGemm {
    /// The dtype of `a` and `b`.
    pub dtype: DType,
    /// The dtype of the result: that of the factors, or `F32` where these have 16 bits.
    pub out_dtype: DType,
    /// Rows of `a` and of the result; not 0.
    pub m: usize,
    /// Columns of `b` and of the result; not 0.
    pub n: usize,
    /// Columns of `a` and rows of `b`; not 0.
    pub k: usize,
    /// Batch size; not 0.
    pub batch: usize,
    /// Layout of `a`.
    pub a: MatrixBatch,
    /// Layout of `b`.
    pub b: MatrixBatch,
    /// Layout of `out`; never transposed, and no two matrices overlap.
    pub out: MatrixBatch,
    /// Whether the matmul is added to `out`.
    pub accumulate: bool,
}

/// The layout of a batch of matrices, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixBatch {
    /// Leading dimension: the distance between rows (between columns if transposed), at least a row's length. Elements of a row
    /// (column) are contiguous.
    pub pitch: usize,
    /// Whether it is stored column-major.
    pub transposed: bool,
    /// Distance between matrices of the batch; 0 if all are the same.
    pub step: usize,
}

impl MatrixBatch {
    /// Elements from the first of a batch of `[rows, columns]` matrices to the end of the last.
    pub fn extent(&self, rows: usize, columns: usize, batch: usize) -> usize {
        let (lines, len) = if self.transposed { (columns, rows) } else { (rows, columns) };
        (batch - 1) * self.step + (lines - 1) * self.pitch + len
    }

    /// The element in a row and a column of a matrix of the batch.
    pub fn at(&self, matrix: usize, row: usize, column: usize) -> usize {
        let (line, place) = if self.transposed { (column, row) } else { (row, column) };
        matrix * self.step + line * self.pitch + place
    }
}

//! Matmuls in which `f32` activations meet the values of a block type as they are.
//!
//! The weight's rows are dequantized while they are packed, a few hundred values at a time, so a result is the one of the
//! weight cast to `f32`, bit for bit, and nowhere does the weight lie dequantized as a whole.

use super::Same;
use super::gemm::{Columns, run_packing};
use crate::kernels::matmul::rows::{GroupedGemm, StridedRows};
use crate::kernels::matmul::weight::Matrix;
use crate::{Isa, ThreadPool};
use rustorch_core::QuantType;

/// The rows of a matrix of a block type as columns.
struct Dequantized {
    quant: QuantType,
    matrix: Matrix,
}

/// The most values that are packed at a time, a multiple of every block length.
const MOST: usize = 256;
const _: () = {
    let mut i = 0;
    while i < QuantType::ALL.len() {
        assert!(MOST.is_multiple_of(QuantType::ALL[i].block_len()));
        i += 1;
    }
};

impl Columns<f32> for Dequantized {
    fn size(&self) -> (usize, usize) {
        (self.matrix.n, self.matrix.k)
    }

    unsafe fn pack(
        &self,
        _isa: Isa,
        w: *const u8,
        (p, depth): (usize, usize),
        (j, n): (usize, usize),
        columns: usize,
        out: *mut f32,
    ) {
        let mut values = [0f32; MOST];
        let values = &mut values[..depth];
        let bytes = |count: usize| count / self.quant.block_len() * self.quant.block_bytes();
        for column in 0..columns {
            if column < n {
                // SAFETY: the row has these values, which fill whole blocks: `p` and the row's length are multiples of
                // the block length.
                let blocks = unsafe {
                    let row = w.add((j + column) * self.matrix.row_bytes);
                    std::slice::from_raw_parts(row.add(bytes(p)), bytes(depth))
                };
                rustorch_quant::dequantize(self.quant, blocks, values)
                    .expect("as many values as the blocks have, by their sizes");
            } else {
                values.fill(0.0);
            }
            for (i, &value) in values.iter().enumerate() {
                // SAFETY: this function's contract.
                unsafe { *out.add(i * columns + column) = value };
            }
        }
    }
}

/// Runs GEMMs with matrices of a block type.
///
/// # Safety
/// Every matrix has `matrix.n` rows of `matrix.k` values in blocks of `quant`; the outputs have a row for each row of the left
/// operands, `n` columns each, and nobody else uses them.
pub(in crate::kernels::matmul) unsafe fn run_dequantized(
    pool: &ThreadPool,
    quant: QuantType,
    matrix: Matrix,
    gemms: &[GroupedGemm<'_, StridedRows<'_, f32>, f32>],
) {
    // SAFETY: this function's contract; the instruction set was detected.
    unsafe { run_packing::<Same<f32>, _>(pool, Isa::detect(), &Dequantized { quant, matrix }, gemms) }
}

//! Products in which `f32` activations meet the values of a block type as they are.
//!
//! The weight's rows are decoded while they are packed, a few hundred values at a time, so a result is the one of the
//! weight cast to `f32`, bit for bit, and nowhere does the weight lie decoded as a whole.

use super::Same;
use super::gemm::{Columns, product_of};
use crate::kernels::matmul::rows::{Job, Matrix, Results, Rows};
use crate::{Isa, Pool};
use rustorch_core::QuantType;

/// The rows of a matrix of a block type as columns.
#[derive(Clone, Copy)]
struct Decoded {
    quant: QuantType,
    matrix: Matrix,
}

/// The most values that are packed at a time, a multiple of every block length.
const MOST: usize = 256;

impl Columns<f32> for Decoded {
    fn matrix(&self) -> Matrix {
        self.matrix
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
                rustorch_quant::decode(self.quant, blocks, values)
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

/// Multiplies, for each job, its matrix of a block type with its rows of `x`, and writes the results.
///
/// # Safety
/// Every job's matrix has `matrix.n` rows of `matrix.k` values in blocks of `quant`; `out` has the rows of the jobs, `n`
/// columns each, and nobody else uses them.
pub(in crate::kernels::matmul) unsafe fn product_exact(
    pool: &Pool,
    quant: QuantType,
    matrix: Matrix,
    jobs: &[Job<'_>],
    x: &Rows<'_, f32>,
    out: &Results<'_, f32>,
) {
    // SAFETY: this function's contract; the instruction set was detected.
    unsafe { product_of::<Same<f32>, _>(pool, Isa::detect(), Decoded { quant, matrix }, jobs, x, out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_blocks_of_every_type() {
        for quant in QuantType::ALL {
            assert!(MOST.is_multiple_of(quant.block_len()), "{quant:?}");
        }
    }
}

//! Matrix multiplication.
//!
//! Every matmul is one of rows: row `i` of the left operand times the *columns* of the right one, seen as rows of its
//! transpose. A plain GEMM has rows evenly apart; batches and experts are several of them, whose rows may be listed.
//! Each result depends on its own row and column only, by an order of summation that is the same for any number of rows,
//! any tile and any number of threads.

#![allow(clippy::needless_range_loop, reason = "tiles of registers are indexed by row and column")]

mod dense;
mod gemm_args;
mod mul_mat_id;
mod rows;
mod tasks;
mod weight;

pub(crate) use dense::{
    Arithmetic, Field, HIGHEST, Left, Pitched, Same, Scalar, StridedTile, Tile, Tiles, pack_columns,
    pack_rows, subtract_matmul, with_scratch,
};
pub(crate) use mul_mat_id::run_mul_mat_id;
pub(crate) use rows::Parts;

use crate::ThreadPool;
use gemm_args::{GemmArgs, Target, address, weight_address};
use rows::GroupedGemm;
use rustorch_core::{DType, Fault, MatMul, Numerics, QuantType, View, ViewMut};
use weight::{Activations, Kernels, Matrix, RowIds};

/// `a × b (+ bias)`, activated; see [`MatMul`].
pub(crate) fn run(
    pool: &ThreadPool,
    op: &MatMul,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let out = &mut outs[0];
    let gemm = GemmArgs::new(args, out)?;
    if gemm.is_empty() {
        return Ok(());
    }
    match (args[0].dtype(), args[1].dtype()) {
        (DType::F32, DType::Quant(quant)) => run_quantized(pool, op, quant, &gemm, args, out),
        _ => dense::run(pool, op, &gemm, args, out),
    }
}

/// `a × b` of `i8`, summed in `i32`; see [`IntMm`](rustorch_core::IntMm).
pub(crate) fn run_int_mm(pool: &ThreadPool, args: &[View<'_>], out: &mut ViewMut<'_>) -> Result<(), Fault> {
    dense::run_int_mm(pool, args, out)
}

/// Activations times a block-quantized weight.
fn run_quantized(
    pool: &ThreadPool,
    op: &MatMul,
    quant: QuantType,
    gemm: &GemmArgs,
    args: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let kernels = Kernels::get(quant, op.numerics, crate::Isa::detect());
    let x = address::<f32>(&args[0])?;
    let w = weight_address(&args[1])?;
    let target = Target::<f32>::new(out, args.get(2), op.activation)?;
    let bytes = |elements: usize| elements / quant.block_len() * quant.block_bytes();
    let matrix = Matrix { n: gemm.n, k: gemm.k, row_bytes: bytes(gemm.b_strides[1]) };
    let shared = gemm.shared_rows();
    for rows in gemm.gemms(&shared) {
        let (w, out) = (w.wrapping_add(bytes(rows.b_start)), gemm.output(&target, &rows));
        // SAFETY: the operands' views are valid, and the rows are theirs.
        unsafe {
            let x = gemm.rows(x, &rows);
            if op.numerics == Numerics::F32 {
                dense::run_dequantized(pool, quant, matrix, &[GroupedGemm { w, x, out }]);
                continue;
            }
            let activations = Activations::new(pool, kernels.activation_quant(), &x);
            let gemm = GroupedGemm { w, x: RowIds::All(rows.m), out };
            weight::matmul(pool, &kernels, matrix, &[gemm], &activations);
        }
    }
    Ok(())
}

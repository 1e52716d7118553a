//! Matrix multiplication.
//!
//! Every matmul is one of rows: row `i` of the left operand times the *columns* of the right one, seen as rows of its
//! transpose. A plain GEMM has rows evenly apart; batches and experts are several of them, whose rows may be listed.
//! Each result depends on its own row and column only, by an order of summation that is the same for any number of rows,
//! any tile and any number of threads.

#![allow(clippy::needless_range_loop, reason = "tiles of registers are indexed by row and column")]

#[cfg(target_arch = "x86_64")]
mod amx;
mod dense;
mod gemm_args;
mod mul_mat_id;
mod quantized;
mod rows;
mod tasks;
mod weight;

pub(crate) use dense::{
    Arithmetic, Field, HIGHEST, Left, Pitched, Same, Scalar, StridedTile, Tile, Tiles, pack_columns,
    pack_rows, subtract_matmul, with_packed, with_scratch,
};
#[cfg(target_arch = "x86_64")]
pub(crate) use dense::{Bf16Tiles, Entered, Words};
pub(crate) use mul_mat_id::run_mul_mat_id;
pub(crate) use quantized::run_together;
pub(crate) use rows::Parts;

use crate::ThreadPool;
use gemm_args::GemmArgs;
use quantized::QuantMatMul;
use rustorch_core::{DType, Fault, MatMul, View, ViewMut};

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
        (DType::F32, DType::Quant(quant)) => {
            QuantMatMul::new(op, quant, gemm, args, out)?.run(pool);
            Ok(())
        }
        _ => dense::run(pool, op, &gemm, args, out),
    }
}

/// `a × b` of `i8`, summed in `i32`; see [`IntMm`](rustorch_core::IntMm).
pub(crate) fn run_int_mm(pool: &ThreadPool, args: &[View<'_>], out: &mut ViewMut<'_>) -> Result<(), Fault> {
    dense::run_int_mm(pool, args, out)
}

//! Matrix products.
//!
//! Every product is one of rows: row `i` of the left operand times the *columns* of the right one, seen as rows of its
//! transpose. Leading dimensions are lists of row addresses, so strides and broadcasting cost nothing inside kernels.
//! Each result depends on its own row and column only, by an order of summation that is the same for any number of rows,
//! any tile and any number of threads.

#![allow(clippy::needless_range_loop, reason = "tiles of registers are indexed by row and column")]

mod dense;
mod experts;
mod problem;
mod rows;
mod weight;

pub(crate) use dense::{
    Arithmetic, Field, Left, Same, Scalar, Tile, pack_columns, subtract_product, with_scratch,
};
pub(crate) use experts::run_experts;
pub(crate) use problem::finish;
pub(crate) use rows::Parts;

use crate::Pool;
use problem::{Problem, weight_address};
use rows::{Job, Matrix, Results, Rows};
use rustorch_core::{DType, Fault, MatMul, QuantType, View, ViewMut};
use weight::{Activations, Kernels};

/// `a × b (+ bias)`, activated; see [`MatMul`].
pub(crate) fn run(
    pool: &Pool,
    op: &MatMul,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    finish(pool, op.activation, &mut outs[0], |out| {
        let problem = Problem::new(args, out)?;
        if problem.is_empty() {
            return Ok(());
        }
        match (args[0].dtype(), args[1].dtype()) {
            (DType::F32, DType::Quant(quant)) => run_quantized(pool, op.exact, quant, &problem, args, out),
            _ => dense::run(pool, op.exact, &problem, args, out),
        }
    })
}

/// Activations times a block-quantized weight.
fn run_quantized(
    pool: &Pool,
    exact: bool,
    quant: QuantType,
    problem: &Problem,
    args: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let kernels = Kernels::get(quant, crate::Isa::detect());
    let k = problem.k;
    let x = problem::address::<f32>(&args[0])?;
    let w = weight_address(&args[1])?;
    let bias = problem::bias::<f32>(args.get(2))?;
    let base = problem::address_mut::<f32>(out)?;
    let bytes = |elements: usize| elements / quant.block_len() * quant.block_bytes();
    let matrix = Matrix { n: problem.n, k, row_bytes: bytes(problem.b_strides[1]) };
    for group in problem.groups() {
        // SAFETY: the operands' views are valid, and the group's rows are theirs.
        unsafe {
            let rows = Rows::new(x, &group.a_rows, k, problem.a_strides[1]);
            let ids: Vec<u32> = (0..group.a_rows.len() as u32).collect();
            let job = Job { w: w.wrapping_add(bytes(group.b_start)), x: &ids, out: &ids };
            let results = Results { base, starts: &group.out_rows, stride: problem.out_strides[1], bias };
            if exact {
                dense::product_exact(pool, quant, matrix, &[job], &rows, &results);
                continue;
            }
            let activations = Activations::new(pool, kernels.companion(), &rows);
            weight::product(pool, &kernels, matrix, &[job], &activations, &results);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

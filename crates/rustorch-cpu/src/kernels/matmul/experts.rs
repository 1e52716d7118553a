//! Products in which each row chooses its matrix.

use super::dense;
use super::problem::{address, address_mut, weight_address};
use super::rows::{Job, Matrix, Results, Rows};
use super::weight::{self, Activations, Kernels};
use crate::Pool;
use rustorch_core::{DType, Error, Fault, View, ViewMut};

/// `x: [t, k or 1, in]` times the transposed matrix `ids[t, k]` of `weights: [e, out, in]`, for each `(t, k)`.
///
/// `exact`: as for [`MatMul`](rustorch_core::MatMul).
pub(crate) fn run_experts(
    pool: &Pool,
    exact: bool,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let (x, w, ids, out) = (&args[0], &args[1], &args[2], &mut outs[0]);
    let (&[t, slots, k], &[experts, n, _]) = (x.layout().dims(), w.layout().dims()) else {
        return Err(Error::argument("expert_matmul", "takes x [t, k, in] and weights [e, out, in]").into());
    };
    let chosen = ids.layout().dims()[1];
    if t == 0 || chosen == 0 || n == 0 {
        return Ok(());
    }
    // The rows that each expert has to do, as pairs: row of x, row of the output.
    let mut rows: Vec<(Vec<u32>, Vec<u32>)> = vec![Default::default(); experts];
    for (i, id) in read_ids(ids)?.into_iter().enumerate() {
        let expert = usize::try_from(id).ok().and_then(|id| rows.get_mut(id));
        let (from, to) = expert.ok_or(Error::Index { op: "expert_matmul", index: id, len: experts })?;
        from.push(if slots == 1 { i / chosen } else { i } as u32);
        to.push(i as u32);
    }
    let (xs, ws, os) = (x.layout().strides(), w.layout().strides(), out.layout().strides());
    let x_rows: Vec<usize> = (0..t * slots).map(|i| i / slots * xs[0] + i % slots * xs[1]).collect();
    let out_rows: Vec<usize> = (0..t * chosen).map(|i| i / chosen * os[0] + i % chosen * os[1]).collect();
    let base = weight_address(w)?;
    let bytes = |elements: usize| elements / w.dtype().block_len() * w.dtype().block_bytes();
    let jobs: Vec<Job<'_>> = rows
        .iter()
        .enumerate()
        .filter(|(_, (from, _))| !from.is_empty())
        .map(|(expert, (from, to))| Job { w: base.wrapping_add(bytes(expert * ws[0])), x: from, out: to })
        .collect();
    let DType::Quant(quant) = w.dtype() else {
        let strides = dense::Strides { n, k, x: xs[2], w: [ws[2], ws[1]], out: os[2] };
        return dense::run_experts(pool, exact, &strides, &jobs, (x, &x_rows), w, (out, &out_rows));
    };
    let kernels = Kernels::get(quant, crate::Isa::detect());
    let matrix = Matrix { n, k, row_bytes: bytes(ws[1]) };
    let results = Results { base: address_mut::<f32>(out)?, starts: &out_rows, stride: os[2], bias: None };
    // SAFETY: the views are valid; rows, matrices and results are theirs, and each result is written once.
    unsafe {
        let rows = Rows::new(address::<f32>(x)?, &x_rows, k, xs[2]);
        if exact {
            dense::product_exact(pool, quant, matrix, &jobs, &rows, &results);
            return Ok(());
        }
        let activations = Activations::new(pool, kernels.companion(), &rows);
        weight::product(pool, &kernels, matrix, &jobs, &activations, &results);
    }
    Ok(())
}

/// The ids in row-major order.
fn read_ids(ids: &View<'_>) -> Result<Vec<i64>, Fault> {
    let layout = ids.layout();
    let at = layout.indices().map(|i| i - layout.offset());
    Ok(match ids.dtype() {
        DType::I32 => {
            let base = address::<i32>(ids)?;
            // SAFETY: an index of the view's layout.
            at.map(|i| i64::from(unsafe { *base.add(i) })).collect()
        }
        _ => {
            let base = address::<i64>(ids)?;
            // SAFETY: as above.
            at.map(|i| unsafe { *base.add(i) }).collect()
        }
    })
}

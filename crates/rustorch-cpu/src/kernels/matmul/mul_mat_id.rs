//! Grouped GEMM (ggml's `mul_mat_id`): each row chooses its matrix.

use super::dense;
use super::gemm_args::{address, address_mut, weight_address};
use super::rows::{GemmOutput, GroupedGemm, RowOffsets, StridedRows};
use super::weight::{self, Activations, Kernels, Matrix, Product, RowIds};
use crate::ThreadPool;
use crate::kernels::pointwise::Pointwise;
use rustorch_core::{DType, Error, Fault, Numerics, View, ViewMut};
use std::ops::Range;

/// `x: [t, k or 1, in]` times the transposed matrix `ids[t, k]` of `weights: [e, out, in]`, for each `(t, k)`.
///
/// `numerics`: as for [`MatMul`](rustorch_core::MatMul).
pub(crate) fn run_mul_mat_id(
    pool: &ThreadPool,
    numerics: Numerics,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let (x, w, ids, out) = (&args[0], &args[1], &args[2], &mut outs[0]);
    let choices = ExpertRows::new([x, w, ids], out)?;
    if choices.x_rows.is_empty() || w.layout().dims()[1] == 0 {
        return Ok(());
    }
    let DType::Quant(quant) = w.dtype() else {
        return dense::run_mul_mat_id(pool, numerics, &choices, [x, w], out);
    };
    let [_, n, k] = [0, 1, 2].map(|axis| w.layout().dims()[axis]);
    let matrix = Matrix { n, k, row_bytes: bytes(w, w.layout().strides()[1]) };
    // SAFETY: the views are valid; rows, matrices and results are theirs, and each result is written once.
    unsafe {
        if numerics == Numerics::F32 {
            dense::run_dequantized(pool, quant, matrix, &choices.strided::<f32>([x, w], out)?);
            return Ok(());
        }
        let kernels = Kernels::get(quant, numerics, crate::Isa::detect());
        let gemms = choices.gemms::<_, f32>(w, out, |rows| RowIds::Listed(&choices.x_rows[rows]))?;
        let offsets = RowOffsets::Listed(&choices.x_offsets);
        let inner = (k, x.layout().strides()[2]);
        let rows = StridedRows::new(address::<f32>(x)?, offsets, choices.x_offsets.len(), inner);
        let activations = Activations::new(pool, kernels.activation_quant(), &rows);
        let product = Product { kernels: &kernels, w: matrix, gemms: &gemms, x: &activations };
        weight::matmul(pool, &[product]);
    }
    Ok(())
}

/// The bytes of so many elements of a weight.
fn bytes(w: &View<'_>, elements: usize) -> usize {
    elements / w.dtype().block_len() * w.dtype().block_bytes()
}

/// Which row meets which expert: the choices in the order of their experts.
pub(super) struct ExpertRows {
    /// Where the rows of x begin.
    x_offsets: Vec<usize>,
    /// The row of x of each choice, and where it begins.
    x_rows: Vec<u32>,
    x_starts: Vec<usize>,
    /// Where the row of the output begins.
    out_starts: Vec<usize>,
    /// Where the choices of each expert begin, and the end.
    bounds: Vec<usize>,
}

impl ExpertRows {
    fn new([x, w, ids]: [&View<'_>; 3], out: &ViewMut<'_>) -> Result<ExpertRows, Fault> {
        let (&[t, slots, _], &[experts, ..]) = (x.layout().dims(), w.layout().dims()) else {
            return Err(Error::argument("mul_mat_id", "takes x [t, k, in] and weights [e, out, in]").into());
        };
        let chosen = ids.layout().dims()[1];
        let ids = read_ids(ids)?;
        let mut bounds = vec![0; experts + 1];
        for &id in &ids {
            let after = usize::try_from(id).ok().and_then(|id| bounds.get_mut(id + 1));
            *after.ok_or(Error::Index { op: "mul_mat_id", index: id, len: experts })? += 1;
        }
        for expert in 0..experts {
            bounds[expert + 1] += bounds[expert];
        }
        let (mut next, mut order) = (bounds.clone(), vec![0; ids.len()]);
        for (choice, &id) in ids.iter().enumerate() {
            order[next[id as usize]] = choice;
            next[id as usize] += 1;
        }
        let (xs, os) = (x.layout().strides(), out.layout().strides());
        let x_offsets: Vec<usize> = (0..t * slots).map(|i| i / slots * xs[0] + i % slots * xs[1]).collect();
        let row = |&choice: &usize| if slots == 1 { choice / chosen } else { choice };
        Ok(ExpertRows {
            x_rows: order.iter().map(|choice| row(choice) as u32).collect(),
            x_starts: order.iter().map(|choice| x_offsets[row(choice)]).collect(),
            out_starts: order.iter().map(|i| i / chosen * os[0] + i % chosen * os[1]).collect(),
            x_offsets,
            bounds,
        })
    }

    /// One GEMM for each expert that was chosen, whose rows `rows` makes of its choices.
    fn gemms<'a, X, T: Pointwise>(
        &'a self,
        w: &View<'_>,
        out: &mut ViewMut<'_>,
        rows: impl Fn(Range<usize>) -> X,
    ) -> Result<Vec<GroupedGemm<'a, X, T>>, Fault> {
        let (first, step) = (weight_address(w)?, bytes(w, w.layout().strides()[0]));
        let (base, stride) = (address_mut::<T>(out)?, out.layout().strides()[2]);
        let experts = self.bounds.windows(2).enumerate().filter(|(_, bounds)| bounds[0] < bounds[1]);
        let gemm = |(expert, bounds): (usize, &[usize])| {
            let choices = bounds[0]..bounds[1];
            let offsets = RowOffsets::Listed(&self.out_starts[choices.clone()]);
            GroupedGemm {
                w: first.wrapping_add(expert * step),
                x: rows(choices),
                out: GemmOutput { base, offsets, stride, bias: None, activation: None },
            }
        };
        Ok(experts.map(gemm).collect())
    }

    /// These, with the rows as they are in memory.
    ///
    /// # Safety
    /// The views are valid and unchanging while the GEMMs live.
    pub(super) unsafe fn strided<T: Pointwise>(
        &self,
        [x, w]: [&View<'_>; 2],
        out: &mut ViewMut<'_>,
    ) -> Result<Vec<GroupedGemm<'_, StridedRows<'_, T>, T>>, Fault> {
        let base = address::<T>(x)?;
        let inner = (x.layout().dims()[2], x.layout().strides()[2]);
        self.gemms(w, out, |choices| {
            let count = choices.len();
            let offsets = RowOffsets::Listed(&self.x_starts[choices]);
            // SAFETY: this function's contract.
            unsafe { StridedRows::new(base, offsets, count, inner) }
        })
    }
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

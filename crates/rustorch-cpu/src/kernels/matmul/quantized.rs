//! Matmuls of `f32` rows with block-quantized weights, one or several that have their rows in common.

use super::dense;
use super::gemm_args::{BatchRows, GemmArgs, Target, address, weight_address};
use super::rows::{GroupedGemm, StridedRows};
use super::weight::{self, Activations, Kernels, Matrix, Product, RowIds};
use crate::{Isa, ThreadPool};
use rustorch_core::{Call, DType, Fault, MatMul, Numerics, Op, QuantType, View, ViewMut};
use smallvec::SmallVec;
use std::marker::PhantomData;

/// A matmul with a block-quantized weight, from its views, which it borrows.
pub(super) struct QuantMatMul<'a> {
    quant: QuantType,
    numerics: Numerics,
    kernels: Kernels,
    gemm: GemmArgs,
    x: *const f32,
    w: *const u8,
    matrix: Matrix,
    target: Target<f32>,
    views: PhantomData<&'a mut ()>,
}

impl<'a> QuantMatMul<'a> {
    /// Of views that `Op::infer` accepted: `f32` rows and a weight of `quant`.
    pub(super) fn new(
        op: &MatMul,
        quant: QuantType,
        gemm: GemmArgs,
        args: &'a [View<'_>],
        out: &'a mut ViewMut<'_>,
    ) -> Result<QuantMatMul<'a>, Fault> {
        let row_bytes = bytes(quant, gemm.b_strides[1]);
        Ok(QuantMatMul {
            quant,
            numerics: op.numerics,
            kernels: Kernels::get(quant, op.numerics, Isa::detect()),
            x: address::<f32>(&args[0])?,
            w: weight_address(&args[1])?,
            matrix: Matrix { n: gemm.n, k: gemm.k, row_bytes },
            target: Target::<f32>::new(out, args.get(2), op.activation)?,
            gemm,
            views: PhantomData,
        })
    }

    /// One GEMM after the other: of each matrix of the weight with its rows.
    pub(super) fn run(&self, pool: &ThreadPool) {
        let shared = self.gemm.shared_rows();
        for rows in self.gemm.gemms(&shared) {
            if self.numerics == Numerics::F32 {
                let gemm = self.grouped(&rows, self.rows(&rows));
                // SAFETY: the views are valid, and the rows are theirs.
                unsafe { dense::run_dequantized(pool, self.quant, self.matrix, &[gemm]) };
                continue;
            }
            let x = Activations::new(pool, self.kernels.activation_quant(), &self.rows(&rows));
            let gemms = [self.grouped(&rows, RowIds::All(rows.m))];
            // SAFETY: as above; the activations are rounded to the kernels' type.
            unsafe { weight::matmul(pool, &[self.product(&gemms, &x)]) };
        }
    }

    /// The rows of the left operand of one of the GEMMs.
    fn rows<'s>(&'s self, rows: &BatchRows<'s>) -> StridedRows<'s, f32> {
        // SAFETY: the view of the left operand is valid, and borrowed.
        unsafe { self.gemm.rows(self.x, rows) }
    }

    fn grouped<'s, X>(&'s self, rows: &BatchRows<'s>, x: X) -> GroupedGemm<'s, X, f32> {
        let w = self.w.wrapping_add(bytes(self.quant, rows.b_start));
        GroupedGemm { w, x, out: self.gemm.output(&self.target, rows) }
    }

    fn product<'s>(
        &'s self,
        gemms: &'s [GroupedGemm<'s, RowIds<'s>, f32>],
        x: &'s Activations,
    ) -> Product<'s> {
        Product { kernels: &self.kernels, w: self.matrix, gemms, x }
    }
}

/// The bytes of so many elements.
fn bytes(quant: QuantType, elements: usize) -> usize {
    elements / quant.block_len() * quant.block_bytes()
}

/// Matmuls of one left operand with block-quantized weights: its rows are rounded once for each activation type, and threads share
/// the work of all. `false`, with nothing done, where some of the calls are others.
pub(crate) fn run_together(pool: &ThreadPool, calls: &mut [Call<'_, '_>]) -> Result<bool, Fault> {
    let mut matmuls: SmallVec<[QuantMatMul<'_>; 3]> = SmallVec::new();
    for call in calls {
        let Op::MatMul(op) = call.op else { return Ok(false) };
        let (args, out) = (call.args, &mut call.outs[0]);
        let (DType::F32, DType::Quant(quant)) = (args[0].dtype(), args[1].dtype()) else { return Ok(false) };
        let gemm = GemmArgs::new(args, out)?;
        // All of the rows, each once, and one matrix for all of them.
        let rows = gemm.batches() * gemm.m;
        let has_all = gemm.k != 0 && rows.checked_mul(gemm.k) == Some(args[0].layout().numel());
        if op.numerics == Numerics::F32 || gemm.is_empty() || !has_all || !gemm.has_one_right() {
            return Ok(false);
        }
        matmuls.push(QuantMatMul::new(op, quant, gemm, args, out)?);
    }
    let shared: SmallVec<[_; 3]> = matmuls.iter().map(|matmul| matmul.gemm.shared_rows()).collect();
    let mut rounded: SmallVec<[Activations; 2]> = SmallVec::new();
    let mut gemms: SmallVec<[_; 3]> = SmallVec::new();
    for (matmul, shared) in matmuls.iter().zip(&shared) {
        for rows in matmul.gemm.gemms(shared) {
            let activation_quant = matmul.kernels.activation_quant();
            if !rounded.iter().any(|x| x.activation_quant() == activation_quant) {
                rounded.push(Activations::new(pool, activation_quant, &matmul.rows(&rows)));
            }
            gemms.push(matmul.grouped(&rows, RowIds::All(rows.m)));
        }
    }
    let products = matmuls.iter().zip(&gemms).map(|(matmul, gemm)| {
        let is_ours = |x: &&Activations| x.activation_quant() == matmul.kernels.activation_quant();
        let x = rounded.iter().find(is_ours).expect("rounded above, to the type of each matmul");
        matmul.product(std::slice::from_ref(gemm), x)
    });
    let products: SmallVec<[Product<'_>; 3]> = products.collect();
    // SAFETY: the views are valid, rows and matrices are theirs, and no matmul reads or writes what another writes; each has one GEMM,
    // of all rows, and all have the same rows.
    unsafe { weight::matmul(pool, &products) };
    Ok(true)
}

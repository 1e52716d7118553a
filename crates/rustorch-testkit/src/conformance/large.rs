//! Tensors so large, and rows so long, that GPUs have kernels of their own for them: threads compute several elements, read and
//! written by vectors.

use super::cases::{Argument, Arrangement, Case, Cases, FLOATS};
use super::fused_pointwise;
use rustorch_core::{
    AddRmsNorm, BinaryOp, Cast, Clamp, CompareOp, DType, GluOp, LayerNorm, Op, RmsNorm, Scalar, UnaryOp,
    Where,
};

/// Pointwise operations on large tensors, of elements of each size: lengths that no vector divides, views that begin where no
/// vector may, rows with gaps, broadcasts. Norms of rows that a workgroup has in registers, steps
/// of optimizers. [`cases`](super::cases) are small.
pub fn large_cases() -> Vec<Case> {
    let mut cases = Cases::new(177);
    cases.ragged_ends();
    cases.casts();
    cases.rows();
    cases.norms_of_rows();
    cases.large_optimizer_steps();
    cases.into_list()
}

const ADD: Op = Op::Binary(BinaryOp::Add);

impl Cases {
    fn large(&mut self, dtype: DType, dims: &[usize]) -> Argument {
        self.argument(dtype, dims, Arrangement::Packed)
    }

    /// Elements of a larger tensor along its last dimension, from one on.
    fn slice(&mut self, dtype: DType, dims: &[usize], from: usize, len: usize) -> Argument {
        let whole = self.large(dtype, dims);
        let layout = whole.layout.slice(dims.len() - 1, from, len, 1).expect("a part of it");
        Argument { layout, ..whole }
    }

    fn ragged_ends(&mut self) {
        for (dtype, len) in [
            (DType::F32, 131_075),
            (DType::F16, 262_149),
            (DType::BF16, 262_147),
            (DType::U8, 524_301),
            (DType::I64, 65_537),
            (DType::F64, 65_537),
            (DType::C64, 65_537),
            (DType::C128, 32_769),
        ] {
            let [a, b] = [0; 2].map(|_| self.large(dtype, &[len]));
            self.add(ADD, vec![a, b]);
        }
        let x = self.large(DType::F16, &[262_145]);
        self.add(Op::Unary(UnaryOp::Exp), vec![x]);
        let x = self.large(DType::I16, &[262_151]);
        self.add(Op::Clamp(Clamp { min: Some(Scalar::Int(-1)), max: Some(Scalar::Int(2)) }), vec![x]);
        let [a, b] = [0; 2].map(|_| self.large(DType::F32, &[131_081]));
        self.add(Op::Compare(CompareOp::Lt), vec![a.clone(), b.clone()]);
        let condition = self.large(DType::Bool, &[131_081]);
        self.add(Op::Where(Where), vec![condition, a, b]);
        // It may fail an assert, which elements behind the end must not.
        let [a, b] = [0; 2].map(|_| self.within(DType::I32, &[131_073], Arrangement::Packed, 1.0, 5.0));
        self.add(Op::Binary(BinaryOp::FloorDiv), vec![a, b]);
        for dtype in [DType::F32, DType::F16] {
            let [a, b] = [0; 2].map(|_| self.large(dtype, &[262_149]));
            self.add(fused_pointwise::of_two(0, dtype), vec![a, b]);
        }
    }

    fn casts(&mut self) {
        for (from, to) in [
            (DType::F16, DType::F32),
            (DType::F32, DType::BF16),
            (DType::U8, DType::F64),
            (DType::F64, DType::I8),
            (DType::Bool, DType::F16),
            (DType::I64, DType::I32),
        ] {
            let x = self.large(from, &[262_147]);
            self.add(Op::Cast(Cast { to }), vec![x]);
        }
    }

    fn rows(&mut self) {
        for dtype in [DType::F32, DType::F16, DType::I64] {
            // From within a vector on, and from where one begins.
            for from in [3, 8] {
                let a = self.slice(dtype, &[262_160], from, 262_150);
                let b = self.large(dtype, &[262_150]);
                self.add(ADD, vec![a, b]);
            }
            // Rows with gaps; those of 12 fewer begin within vectors.
            for width in [272, 260] {
                let [a, b] = [8, 0].map(|from| self.slice(dtype, &[1100, width], from, 240));
                self.add(ADD, vec![a, b]);
            }
            // A number for each column, for each row, and one for all; elements that are not contiguous.
            for dims in [&[256][..], &[1100, 1], &[1]] {
                let (a, b) = (self.large(dtype, &[1100, 256]), self.large(dtype, dims));
                self.add(ADD, vec![a, b]);
            }
            let a = self.argument(dtype, &[1100, 256], Arrangement::Transposed);
            let b = self.large(dtype, &[1100, 256]);
            self.add(ADD, vec![a, b]);
        }
        let (gate, up) =
            (self.slice(DType::F32, &[1100, 512], 0, 256), self.slice(DType::F32, &[1100, 512], 256, 256));
        self.add(Op::Glu(GluOp::Silu), vec![gate, up]);
        let condition = self.large(DType::Bool, &[1100, 1]);
        let [a, b] = [0; 2].map(|_| self.large(DType::F32, &[1100, 256]));
        self.add(Op::Where(Where), vec![condition, a, b]);
    }

    /// Of rows of which each thread has one run of elements, several, and some threads none.
    fn norms_of_rows(&mut self) {
        for &dtype in FLOATS {
            for len in [1032, 4096] {
                let [x, y, weight, bias] =
                    [&[3, len][..], &[3, len], &[len], &[len]].map(|dims| self.large(dtype, dims));
                let gaps = self.slice(dtype, &[3, len + 64], 16, len);
                let rms = Op::RmsNorm(RmsNorm { eps: 1e-6 });
                let added = Op::AddRmsNorm(AddRmsNorm { eps: 1e-6 });
                let layer = Op::LayerNorm(LayerNorm { dims: 1, eps: 1e-5 });
                self.add(rms.clone(), vec![gaps.clone(), weight.clone()]);
                self.add(rms, vec![x.clone()]);
                self.add(added.clone(), vec![x.clone(), gaps.clone(), weight.clone()]);
                self.add(added, vec![y, x.clone()]);
                self.add(layer.clone(), vec![gaps, weight, bias]);
                self.add(layer, vec![x]);
            }
        }
    }
}

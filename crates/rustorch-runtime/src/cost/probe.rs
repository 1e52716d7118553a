//! The table of probes. To measure another operation, add a line.

use rustorch_core::{
    Attention, BinaryOp, Cast, Conv, ConvParams, CopyOp, DType, MatMul, Numerics, Op, OpKind, OpType,
    QuantType, Reduce, ReduceOp, RmsNorm, Softmax, SoftmaxKind, Sort, UnaryOp,
};

/// A measurement of one operation in one dtype at growing sizes.
pub(super) struct Probe {
    /// What its rate is taken for.
    pub(super) of: Of,
    /// In which dtype.
    pub(super) dtype: DType,
    /// Which of the rates it gives.
    pub(super) limit: Limit,
    /// How many sizes there are.
    pub(super) levels: u32,
    /// How many times as much work a size is as the one before.
    pub(super) growth: f64,
    /// The operation at a size.
    pub(super) case: fn(DType, u32) -> Case,
    /// Whether only devices with a BLAS library have a rate of their own for it.
    pub(super) by_library: bool,
}

/// What a rate is taken for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Of {
    /// Whatever has no rate of its own.
    All,
    /// One operation.
    Op(OpKind),
    /// A class.
    Class(OpType),
}

/// What limits an operation at the sizes at which it is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    Arithmetic,
    Memory,
}

/// An operation and its arguments.
pub(super) struct Case {
    pub(super) op: Op,
    pub(super) args: Vec<Arg>,
}

/// An argument: contiguous, or the transposed view of a contiguous matrix.
pub(super) struct Arg {
    pub(super) dtype: DType,
    pub(super) dims: Vec<usize>,
    pub(super) transposed: bool,
}

const fn quant(quant: QuantType) -> DType {
    DType::Quant(quant)
}

const fn probe(of: Of, dtype: DType, limit: Limit, case: fn(DType, u32) -> Case) -> Probe {
    Probe { of, dtype, limit, levels: 7, growth: 4.0, case, by_library: false }
}

/// A matmul of square matrices: arithmetic.
const fn square(dtype: DType) -> Probe {
    let probe = probe(Of::Class(OpType::LinearAlgebra), dtype, Limit::Arithmetic, square_matmul);
    Probe { levels: 8, growth: 8.0, ..probe }
}

/// A matmul of a matrix and a vector: memory.
const fn vector(dtype: DType) -> Probe {
    probe(Of::Class(OpType::LinearAlgebra), dtype, Limit::Memory, vector_matmul)
}

/// [`square`] in an order that is free.
const fn free_square(dtype: DType) -> Probe {
    Probe { of: Of::Op(OpKind::MatMul), case: free_square_matmul, by_library: true, ..square(dtype) }
}

/// [`vector`] in an order that is free.
const fn free_vector(dtype: DType) -> Probe {
    Probe { of: Of::Op(OpKind::MatMul), case: free_vector_matmul, by_library: true, ..vector(dtype) }
}

/// In the order of importance: what time does not suffice for is left out.
pub(super) const PROBES: &[Probe] = &[
    probe(Of::All, DType::F32, Limit::Memory, sum_of_two),
    square(DType::F32),
    vector(DType::F32),
    free_square(DType::F32),
    free_vector(DType::F32),
    probe(Of::All, DType::F32, Limit::Arithmetic, exponential),
    vector(quant(QuantType::Q4_K)),
    square(quant(QuantType::Q4_K)),
    vector(quant(QuantType::Q8_0)),
    square(quant(QuantType::Q8_0)),
    square(DType::F16),
    vector(DType::F16),
    square(DType::BF16),
    free_square(DType::F16),
    free_square(DType::BF16),
    probe(Of::Class(OpType::Normalization), DType::F32, Limit::Memory, norm),
    probe(Of::Op(OpKind::Attention), DType::F32, Limit::Arithmetic, attention),
    Probe { levels: 5, ..probe(Of::Class(OpType::Convolution), DType::F32, Limit::Arithmetic, convolution) },
    probe(Of::Op(OpKind::Softmax(SoftmaxKind::Softmax)), DType::F32, Limit::Memory, softmax),
    probe(Of::Class(OpType::Reduction), DType::F32, Limit::Memory, reduction),
    probe(Of::Class(OpType::DataMovement), DType::F32, Limit::Memory, transposition),
    square(DType::F64),
    free_square(DType::F64),
    probe(Of::Class(OpType::Elementwise), DType::F64, Limit::Arithmetic, exponential),
    vector(quant(QuantType::Q4_0)),
    square(quant(QuantType::Q4_0)),
    vector(quant(QuantType::Q6_K)),
    square(quant(QuantType::Q6_K)),
    probe(Of::Class(OpType::Quantization), quant(QuantType::Q8_0), Limit::Memory, dequantization),
    probe(Of::Class(OpType::Sorting), DType::F32, Limit::Arithmetic, sorting),
];

/// The least operation there is, for the time of a start.
pub(super) fn least() -> Case {
    Case { op: Op::Binary(BinaryOp::Add), args: vec![plain(DType::F32, [1]), plain(DType::F32, [1])] }
}

fn plain(dtype: DType, dims: impl Into<Vec<usize>>) -> Arg {
    Arg { dtype, dims: dims.into(), transposed: false }
}

/// The transposed view of `[n, k]`: how a weight is multiplied.
fn weight(dtype: DType, n: usize, k: usize) -> Arg {
    Arg { dtype, dims: vec![n, k], transposed: true }
}

/// What a weight of a dtype is multiplied with.
fn activations(dtype: DType) -> DType {
    if dtype.is_quant() { DType::F32 } else { dtype }
}

fn sum_of_two(dtype: DType, level: u32) -> Case {
    let n = 4096 << (2 * level);
    Case { op: Op::Binary(BinaryOp::Add), args: vec![plain(dtype, [n]), plain(dtype, [n])] }
}

fn exponential(dtype: DType, level: u32) -> Case {
    Case { op: Op::Unary(UnaryOp::Exp), args: vec![plain(dtype, [4096 << (2 * level)])] }
}

/// Matmuls in the order that a language model needs, which is what a device's own kernels do.
const ORDERED: MatMul = MatMul { activation: None, numerics: Numerics::Ggml, batch_invariant: true };
/// Matmuls in any order.
const FREE: MatMul = MatMul { batch_invariant: false, ..ORDERED };

fn square_matmul(dtype: DType, level: u32) -> Case {
    square_by(ORDERED, dtype, level)
}

fn free_square_matmul(dtype: DType, level: u32) -> Case {
    square_by(FREE, dtype, level)
}

fn square_by(op: MatMul, dtype: DType, level: u32) -> Case {
    // Block types need whole blocks.
    let n = if dtype.is_quant() { 256.max(32 << level) } else { 32 << level };
    let rows = 32 << level;
    let args = vec![plain(activations(dtype), [rows, n]), weight(dtype, n, n)];
    Case { op: Op::MatMul(op), args }
}

fn vector_matmul(dtype: DType, level: u32) -> Case {
    vector_by(ORDERED, dtype, level)
}

fn free_vector_matmul(dtype: DType, level: u32) -> Case {
    vector_by(FREE, dtype, level)
}

fn vector_by(op: MatMul, dtype: DType, level: u32) -> Case {
    let n = 256 << level;
    let x = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    Case { op: Op::MatMul(op), args: vec![plain(x, [1, n]), weight(dtype, n, n)] }
}

fn rows(dtype: DType, level: u32) -> Vec<Arg> {
    vec![plain(dtype, [4 << (2 * level), 1024])]
}

fn norm(dtype: DType, level: u32) -> Case {
    Case { op: Op::RmsNorm(RmsNorm { eps: 1e-5 }), args: rows(dtype, level) }
}

fn softmax(dtype: DType, level: u32) -> Case {
    Case { op: Op::Softmax(Softmax { axis: 1, log: false }), args: rows(dtype, level) }
}

fn reduction(dtype: DType, level: u32) -> Case {
    let sum = Reduce { op: ReduceOp::Sum, axes: [1].as_slice().into(), keepdim: false };
    Case { op: Op::Reduce(sum), args: rows(dtype, level) }
}

fn dequantization(dtype: DType, level: u32) -> Case {
    Case { op: Op::Cast(Cast { to: DType::F32 }), args: rows(dtype, level) }
}

fn transposition(dtype: DType, level: u32) -> Case {
    Case { op: Op::Copy(CopyOp), args: vec![weight(dtype, 64 << level, 64 << level)] }
}

fn attention(dtype: DType, level: u32) -> Case {
    let attention = Attention::new(0.125);
    let arg = || plain(dtype, [1, 8, 16 << level, 64]);
    Case { op: Op::Attention(attention), args: vec![arg(), arg(), arg()] }
}

/// Channels and layer of a convolutional network, of images that grow.
fn convolution(dtype: DType, level: u32) -> Case {
    let mut params = ConvParams::new(2);
    params.padding.fill((1, 1));
    let side = 8 << level;
    let args = vec![plain(dtype, [1, 64, side, side]), plain(dtype, [64, 64, 3, 3])];
    Case { op: Op::from(Conv { params, activation: None }), args }
}

fn sorting(dtype: DType, level: u32) -> Case {
    let sort = Sort { axis: 0, descending: false };
    Case { op: Op::Sort(sort), args: vec![plain(dtype, [256 << (2 * level)])] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustorch_core::{Device, Layout, Shape, TensorMeta};

    #[test]
    fn every_case_is_a_valid_operation_of_the_class_and_dtype_that_it_stands_for() {
        for probe in PROBES {
            let mut before = 0.0;
            for level in 0..probe.levels {
                let case = (probe.case)(probe.dtype, level);
                let layouts: Vec<Layout> = case
                    .args
                    .iter()
                    .map(|arg| {
                        let layout = Layout::contiguous(Shape::new(arg.dims.as_slice()).unwrap());
                        if arg.transposed { layout.transpose(0, 1).unwrap() } else { layout }
                    })
                    .collect();
                let metas: Vec<TensorMeta<'_>> = case
                    .args
                    .iter()
                    .zip(&layouts)
                    .map(|(arg, layout)| TensorMeta { dtype: arg.dtype, layout, device: Device::CPU })
                    .collect();
                let outs = case.op.infer(&metas).unwrap_or_else(|e| panic!("{:?}: {e}", probe.of));
                assert_eq!(case.op.leading_dtype(&metas, &outs), probe.dtype, "{:?}", probe.of);
                match probe.of {
                    Of::All => {}
                    Of::Op(kind) => assert_eq!(case.op.kind(), kind),
                    Of::Class(class) => assert_eq!(case.op.class(&metas), class),
                }
                if let Op::MatMul(op) = &case.op {
                    assert_eq!(op.allows_reassociation(metas[0].dtype, metas[1].dtype), probe.by_library);
                }
                let work = case.op.work(&metas, &outs);
                let amount = match probe.limit {
                    Limit::Arithmetic => work.flops as f64,
                    Limit::Memory => work.bytes as f64,
                };
                assert!(amount > 1.2 * before, "{:?} {}: {amount} after {before}", probe.of, probe.dtype);
                assert!(level == 0 || amount <= 1.5 * probe.growth * before);
                before = amount;
            }
        }
    }
}

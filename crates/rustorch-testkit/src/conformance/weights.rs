//! Cases with block-quantized weights: matmuls, choice of experts, rows of tables. Results must be equal to the last bit,
//! except those of matmuls that round nothing, which are sums in `f32` like others.

use super::values;
use super::{Argument, Case};
use rustorch_core::{DType, Embedding, Layout, MatMul, MulMatId, Numerics, Op, QuantType, Shape};
use rustorch_quant::quantize;
use std::sync::LazyLock;

/// Every case with a block type that can be encoded. They are made once in a process: some types are slow to encode.
pub fn weight_cases() -> Vec<Case> {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(make);
    CASES.clone()
}

fn make() -> Vec<Case> {
    let mut list = Vec::new();
    for (i, &quant) in QuantType::ALL.iter().enumerate() {
        let k = 2 * quant.block_len().max(64);
        let seed = 1000 * (i as u64 + 1);
        let Some(matrix) = weight(quant, &[11, k], seed) else { continue };
        let transposed = Argument {
            layout: matrix.layout.transpose(0, 1).expect("a matrix has two dimensions"),
            ..matrix.clone()
        };
        for rows in [1, 3, 8] {
            let x = dense(&[rows, k], seed + rows as u64);
            list.push(Case { op: matmul(), args: vec![x, transposed.clone()] });
        }
        let bias = dense(&[11], seed + 20);
        list.push(Case { op: matmul(), args: vec![dense(&[2, 2, k], seed + 21), transposed.clone(), bias] });
        // A row of zeros, and one from the transposed view of a larger matrix.
        let mut zeros = dense(&[2, k], seed + 22);
        zeros.bytes[..4 * k].fill(0);
        list.push(Case { op: matmul(), args: vec![zeros, transposed.clone()] });
        let columns = dense(&[k, 3], seed + 23);
        let layout = columns.layout.transpose(0, 1).expect("a matrix has two dimensions");
        list.push(Case { op: matmul(), args: vec![Argument { layout, ..columns }, transposed.clone()] });

        let ids = indices(&[4, 2], 3, seed + 30);
        let experts = weight(quant, &[3, 5, k], seed + 31).expect("the type was quantized to before");
        for shared in [1, 2] {
            let args = vec![dense(&[4, shared, k], seed + 32), experts.clone(), ids.clone()];
            list.push(Case { op: Op::MulMatId(MulMatId { numerics: Numerics::Ggml }), args });
        }
        // So many choices that those of an expert meet it together.
        let many = indices(&[9, 2], 3, seed + 33);
        for shared in [1, 2] {
            let args = vec![dense(&[9, shared, k], seed + 34), experts.clone(), many.clone()];
            list.push(Case { op: Op::MulMatId(MulMatId { numerics: Numerics::Ggml }), args });
        }
        // Rows of so many blocks that threads multiply several of them, the last ones not all.
        if let Some(long) = weight(quant, &[3, 2560], seed + 38) {
            let layout = long.layout.transpose(0, 1).expect("a matrix has two dimensions");
            let long = Argument { layout, ..long };
            for rows in [1, 2] {
                let args = vec![dense(&[rows, 2560], seed + 38 + rows as u64), long.clone()];
                list.push(Case { op: matmul(), args });
            }
        }
        // So many rows on both sides that there are several tiles of results, the last ones not full.
        if let Some(tall) = weight(quant, &[70, k], seed + 35) {
            let layout = tall.layout.transpose(0, 1).expect("a matrix has two dimensions");
            let tall = Argument { layout, ..tall };
            let args = vec![dense(&[67, k], seed + 36), tall, dense(&[70], seed + 37)];
            let invariant = Op::MatMul(MatMul { batch_invariant: true, ..MatMul::default() });
            list.extend([matmul(), invariant].map(|op| Case { op, args: args.clone() }));
        }
        // The same without rounding: few rows and many, the latter from a transposed view.
        let unrounded = || Op::MatMul(MatMul { numerics: Numerics::F32, ..MatMul::default() });
        for rows in [1, 3, 8] {
            let x = dense(&[rows, k], seed + 50 + rows as u64);
            list.push(Case { op: unrounded(), args: vec![x, transposed.clone()] });
        }
        for rows in [40, 50] {
            let columns = dense(&[k, rows], seed + 60 + rows as u64);
            let layout = columns.layout.transpose(0, 1).expect("a matrix has two dimensions");
            let x = Argument { layout, ..columns };
            let mut args = vec![x, transposed.clone()];
            if rows == 50 {
                args.push(dense(&[11], seed + 70));
            }
            list.push(Case { op: unrounded(), args });
        }
        let bias = dense(&[11], seed + 80);
        list.push(Case { op: unrounded(), args: vec![dense(&[2, 2, k], seed + 81), transposed, bias] });
        for shared in [1, 2] {
            let args = vec![dense(&[4, shared, k], seed + 82), experts.clone(), ids.clone()];
            list.push(Case { op: Op::MulMatId(MulMatId { numerics: Numerics::F32 }), args });
        }
        list.push(Case { op: Op::Embedding(Embedding), args: vec![matrix, indices(&[2, 3], 11, seed + 40)] });
    }
    list.extend(dense_weights());
    list
}

/// Few rows of `f32` activations with dense weights whose rows are contiguous: language models in floats decode by these. The
/// weights are so small that sums in any order stay within the tolerance.
fn dense_weights() -> Vec<Case> {
    let k = 520;
    let mut list = Vec::new();
    for (i, dtype) in [DType::F32, DType::F16, DType::BF16].into_iter().enumerate() {
        let seed = 900 + 10 * i as u64;
        let weight = Argument {
            dtype,
            layout: layout(&[11, k]),
            bytes: values::bytes(dtype, 11 * k, seed, -0.1, 0.1),
        };
        let transposed = weight.layout.transpose(0, 1).expect("a matrix has two dimensions");
        let weight = Argument { layout: transposed, ..weight };
        for rows in [1, 3, 7] {
            list.push(Case {
                op: matmul(),
                args: vec![dense(&[rows, k], seed + rows as u64), weight.clone()],
            });
        }
        let args = vec![dense(&[2, k], seed + 8), weight, dense(&[11], seed + 9)];
        list.push(Case { op: matmul(), args });
    }
    list
}

fn matmul() -> Op {
    Op::MatMul(MatMul::default())
}

fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).expect("shapes of cases are small"))
}

fn dense(dims: &[usize], seed: u64) -> Argument {
    let bytes = values::bytes(DType::F32, dims.iter().product(), seed, -3.0, 3.0);
    Argument { dtype: DType::F32, layout: layout(dims), bytes }
}

fn indices(dims: &[usize], below: usize, seed: u64) -> Argument {
    let bytes = values::bytes(DType::I64, dims.iter().product(), seed, 0.0, below as f64 - 0.01);
    Argument { dtype: DType::I64, layout: layout(dims), bytes }
}

/// Random values, quantized; `None` for types that hold activations only.
pub(super) fn weight(quant: QuantType, dims: &[usize], seed: u64) -> Option<Argument> {
    let values: Vec<f32> = values::bytes(DType::F32, dims.iter().product(), seed, -2.0, 2.0)
        .as_chunks()
        .0
        .iter()
        .map(|&bytes| f32::from_ne_bytes(bytes))
        .collect();
    let mut bytes = vec![0; quant.bytes_for(values.len())?];
    quantize(quant, &values, None, &mut bytes).ok()?;
    Some(Argument { dtype: DType::Quant(quant), layout: layout(dims), bytes })
}

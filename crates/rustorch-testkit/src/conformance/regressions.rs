//! Regressions: cases that the fuzzer found to fail somewhere, minimized.

use super::{Argument, Case, values, weights};
use rustorch_core::{
    Attention, BinaryOp, CompareOp, DType, Dims, LayerNorm, Layout, MatMul, MulMatId, Numerics, Op,
    QuantType, Reduce, ReduceOp, RmsNorm, Scan, ScanOp, Shape, UnaryOp,
};

/// Every case that was once wrong.
pub fn regression_cases() -> Vec<Case> {
    let mut list = Vec::new();
    let mut add = |op: Op, args: Vec<Argument>| list.push(Case { op, args });

    // 32-bit words widened to 64 bits as if they had a sign.
    let words = || packed(DType::U32, &[2, 3], &[4.1e9, 3.0, 2.5e9, 1.0, 4.2e9, 7.0]);
    for op in [ScanOp::Sum, ScanOp::Prod] {
        add(Op::Scan(Scan { op, axis: 1 }), vec![words()]);
    }
    for op in [ReduceOp::Sum, ReduceOp::Prod] {
        add(Op::Reduce(Reduce { op, axes: Dims::from_slice(&[1]), keepdim: false }), vec![words()]);
    }

    // Numbers so small that devices compute with zero in their place are not zero.
    for op in [ReduceOp::Any, ReduceOp::All] {
        let small = packed(DType::C128, &[3, 2], &[5e-324, 0.0, -0.0, 1.0, 0.0, -2e-310]);
        for axes in [&[][..], &[1]] {
            let axes = Dims::from_slice(axes);
            add(Op::Reduce(Reduce { op, axes, keepdim: false }), vec![small.clone()]);
        }
    }

    // An empty tensor whose offset lies behind its memory.
    let nothing = |dims: &[usize]| {
        let strides = vec![3; dims.len()];
        view(DType::F32, dims, &strides, 144, &[1.0, 2.0])
    };
    let any = Reduce { op: ReduceOp::Any, axes: Dims::from_slice(&[0, 1]), keepdim: false };
    add(Op::Reduce(any), vec![nothing(&[1, 0])]);
    let bias = packed(DType::F32, &[2], &[0.5, -3.0]);
    add(Op::MatMul(MatMul::default()), vec![nothing(&[3, 0]), nothing(&[0, 2]), bias]);

    // The last element of a memory, which shares its word.
    for (dtype, last) in [(DType::BF16, 39), (DType::U8, 35), (DType::F16, 65)] {
        let values: Vec<f64> = (0..=last).map(|i| (i % 100) as f64).collect();
        let x = view(dtype, &[6], &[0], last, &values);
        add(Op::Unary(UnaryOp::Square), vec![x.clone()]);
        add(Op::Binary(BinaryOp::Add), vec![x.clone(), x]);
    }

    // Chosen experts whose ids have gaps.
    let experts = weights::weight(QuantType::Q4_1, &[3, 5, 64], 7).expect("the type can be quantized to");
    let x = packed(DType::F32, &[2, 1, 64], &(0..128).map(|i| f64::from(i % 17) - 8.3).collect::<Vec<_>>());
    for (strides, offset) in [([1, 0], 1), ([3, 2], 2)] {
        let ids = view(DType::I64, &[2, 2], &strides, offset, &[2.0, 0.0, 1.0, 2.0, 2.0, 1.0, 0.0, 2.0, 1.0]);
        add(Op::MulMatId(MulMatId { numerics: Numerics::Ggml }), vec![x.clone(), experts.clone(), ids]);
    }

    // A row whose mean square is infinite.
    let infinite = [1.0, f64::INFINITY, -2.0, 0.0, 1.0, 2.0, 3.0, f64::NAN];
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        add(Op::RmsNorm(RmsNorm { eps: 1e-3 }), vec![packed(dtype, &[2, 4], &infinite)]);
    }

    // Rows of equal elements, of which nothing is left but what their mean was rounded by.
    for dtype in [DType::F32, DType::F64] {
        let x = view(dtype, &[3, 5], &[1, 0], 0, &[1.7, 0.1, -3.3]);
        let weight = packed(dtype, &[5], &[1.5, -2.0, 0.3, 0.7, 1.9]);
        let bias = packed(dtype, &[5], &[-1.63, 0.5, 0.0, 1.0, -0.2]);
        add(Op::LayerNorm(LayerNorm { dims: 1, eps: 1e-6 }), vec![x, weight, bias]);
    }

    // Sums of products that are infinite before they end.
    for dtype in [DType::F16, DType::F32, DType::F64] {
        let a = packed(dtype, &[2, 3], &[f64::NEG_INFINITY, 2.0, -1.0, 1.0, f64::INFINITY, 3.0]);
        let b = packed(dtype, &[3, 2], &[1.0, -0.25, 0.75, 2.0, 0.3, 1.7]);
        add(Op::MatMul(MatMul::default()), vec![a, b]);
    }

    // A function of sums of small integers that have not wrapped yet.
    for (dtype, largest) in [(DType::I8, 127.0), (DType::U8, 255.0), (DType::I16, 32_767.0)] {
        let a = packed(dtype, &[3, 2], &[largest, 1.0, 0.0, largest, 3.0, 5.0]);
        let b = packed(dtype, &[2, 3], &[2.0, 3.0, largest - 90.0, largest, 7.0, largest]);
        for op in [UnaryOp::Relu, UnaryOp::Abs, UnaryOp::Square] {
            let product = MatMul { activation: Some(op), ..MatMul::default() };
            add(Op::MatMul(product), vec![a.clone(), b.clone()]);
        }
    }

    // Capped scores by another hyperbolic tangent than the CPU's: sums in 16 bits show it, and large scores.
    let wave = |n: usize, step: f64| (0..n).map(|i| (i as f64 * step).sin()).collect::<Vec<_>>();
    for (scale, largest) in [(0.5, 1.0), (40.0, 9.0)] {
        let queries: Vec<f64> = wave(4 * 6 * 7, 0.7).iter().map(|x| x * largest).collect();
        let q = packed(DType::F32, &[4, 6, 7], &queries);
        let k = packed(DType::F16, &[2, 13, 7], &wave(2 * 13 * 7, 1.3));
        let v = packed(DType::F16, &[2, 13, 13], &wave(2 * 13 * 13, 2.1));
        for numerics in [Numerics::F32, Numerics::Ggml] {
            let attention = Attention { softcap: Some(5.0), numerics, ..Attention::new(scale) };
            add(Op::Attention(attention), vec![q.clone(), k.clone(), v.clone()]);
        }
    }

    // What is no number differs from all, itself too.
    let values = [f64::NAN, 1.0, f64::NAN, f64::INFINITY, 0.0];
    let (a, b) = ([values, [2.0; 5]].concat(), [values, [f64::NAN; 5]].concat());
    for dtype in [DType::C64, DType::C128] {
        for op in [CompareOp::Eq, CompareOp::Ne] {
            add(Op::Compare(op), vec![packed(dtype, &[10], &a), packed(dtype, &[10], &b)]);
        }
    }
    list
}

fn packed(dtype: DType, dims: &[usize], values: &[f64]) -> Argument {
    let layout = Layout::contiguous(Shape::new(dims).expect("shapes of cases are small"));
    view(dtype, dims, layout.strides(), 0, values)
}

/// A view of a memory that has these values.
fn view(dtype: DType, dims: &[usize], strides: &[usize], offset: usize, values: &[f64]) -> Argument {
    let shape = Shape::new(dims).expect("shapes of cases are small");
    let layout = Layout::new(shape, strides, offset).expect("strides of cases are small");
    let bytes = values.iter().flat_map(|&x| values::encode(dtype, x, 0.0)).collect();
    Argument { dtype, layout, bytes }
}

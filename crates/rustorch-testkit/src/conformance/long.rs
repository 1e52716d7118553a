//! Rows longer than one thread reduces, which the threads of a workgroup reduce together.

use super::cases::{Argument, Arrangement, Case, Cases, FLOATS};
use rustorch_core::{
    AddRmsNorm, BatchNorm, DType, DTypeKind, Dims, GroupNorm, LayerNorm, Layout, Op, Reduce, ReduceOp,
    RmsNorm, Scan, ScanOp, Shape, Softmax,
};

/// Cases of operations along long lines, in every dtype. [`cases`](super::cases) are short ones.
pub fn long_cases() -> Vec<Case> {
    let mut cases = Cases::new(77);
    for &dtype in DType::DENSE {
        reductions(&mut cases, dtype, &[2, 77], &REDUCTIONS);
    }
    // So many that several workgroups make one result.
    reductions(&mut cases, DType::F32, &[2, 20_000], &REDUCTIONS[1..]);
    reductions(&mut cases, DType::I32, &[2, 20_000], &[ReduceOp::Sum, ReduceOp::ArgMax]);
    for &dtype in FLOATS {
        norms(&mut cases, dtype);
    }
    special(&mut cases);
    for &dtype in FLOATS {
        for len in [66, 200] {
            let [x, y] = [0; 2].map(|_| cases.argument(dtype, &[3, len], Arrangement::Packed));
            let weight = cases.argument(dtype, &[len], Arrangement::Packed);
            cases.add(Op::AddRmsNorm(AddRmsNorm { eps: 1e-6 }), vec![x, y, weight]);
        }
    }
    cases.long_gradients();
    cases.into_list()
}

const REDUCTIONS: [ReduceOp; 13] = [
    ReduceOp::Prod,
    ReduceOp::Sum,
    ReduceOp::Mean,
    ReduceOp::Max,
    ReduceOp::Min,
    ReduceOp::ArgMax,
    ReduceOp::ArgMin,
    ReduceOp::Any,
    ReduceOp::All,
    ReduceOp::LogSumExp,
    ReduceOp::Norm,
    ReduceOp::Var { correction: 1.0 },
    ReduceOp::Std { correction: 0.0 },
];

fn reductions(cases: &mut Cases, dtype: DType, dims: &[usize], ops: &[ReduceOp]) {
    // Near one, so that a product of many has a size; integers of both signs, so that it does not.
    let (least, most) = match dtype.kind() {
        DTypeKind::Float => (0.75, 1.3),
        _ => (-3.0, 3.0),
    };
    let x = cases.within(dtype, dims, Arrangement::Packed, least, most);
    for &op in ops {
        let reduce = |axes: &[usize]| Op::Reduce(Reduce { op, axes: Dims::from_slice(axes), keepdim: false });
        cases.add(reduce(&[1]), vec![x.clone()]);
        cases.add(reduce(&[0, 1]), vec![x.clone()]);
    }
    if dims[1] < 1000 {
        for op in [ScanOp::Sum, ScanOp::Prod, ScanOp::Max, ScanOp::Min] {
            cases.add(Op::Scan(Scan { op, axis: 1 }), vec![x.clone()]);
        }
    }
}

fn norms(cases: &mut Cases, dtype: DType) {
    for len in [66, 200] {
        let x = cases.argument(dtype, &[3, len], Arrangement::Packed);
        let (weight, bias) = (
            cases.argument(dtype, &[len], Arrangement::Packed),
            cases.argument(dtype, &[len], Arrangement::Packed),
        );
        for log in [false, true] {
            cases.add(Op::Softmax(Softmax { axis: 1, log }), vec![x.clone()]);
        }
        cases.add(
            Op::LayerNorm(LayerNorm { dims: 1, eps: 1e-5 }),
            vec![x.clone(), weight.clone(), bias.clone()],
        );
        cases.add(Op::RmsNorm(RmsNorm { eps: 1e-6 }), vec![x, weight]);
    }
    let x = cases.argument(dtype, &[2, 4, 10, 5], Arrangement::Packed);
    let list = cases.argument(dtype, &[4], Arrangement::Packed);
    let args = vec![x, list.clone(), list];
    cases.add(Op::GroupNorm(GroupNorm { groups: 2, eps: 1e-5 }), args.clone());
    cases.add(Op::BatchNorm(BatchNorm { training: true, eps: 1e-5 }), args);
}

/// What is not a number, and ties: of equals the first is the index.
fn special(cases: &mut Cases) {
    let list = |values: Vec<f32>| Argument {
        dtype: DType::F32,
        layout: Layout::contiguous(Shape::new([values.len()].as_slice()).expect("a short list")),
        bytes: values.iter().flat_map(|x| x.to_ne_bytes()).collect(),
    };
    let ties: Vec<f32> = (0..200).map(|i| [1.0, 0.0, -0.0, -1.0][i * 7 % 4]).collect();
    let mut nan = ties.clone();
    (nan[130], nan[190]) = (f32::NAN, f32::NAN);
    let mut infinite = ties.clone();
    (infinite[70], infinite[199]) = (f32::INFINITY, f32::NEG_INFINITY);
    let wrapping: Vec<u8> = (0..200).flat_map(|i: i64| (i64::MAX - i * i).to_ne_bytes()).collect();
    let wrapping = Argument {
        dtype: DType::I64,
        layout: Layout::contiguous(Shape::new([200].as_slice()).expect("a short list")),
        bytes: wrapping,
    };
    let lists = [list(ties), list(nan), list(infinite), wrapping];
    for x in lists {
        for op in REDUCTIONS {
            cases.add(
                Op::Reduce(Reduce { op, axes: Dims::from_slice(&[0]), keepdim: false }),
                vec![x.clone()],
            );
        }
        for op in [ScanOp::Sum, ScanOp::Max, ScanOp::Min] {
            cases.add(Op::Scan(Scan { op, axis: 0 }), vec![x.clone()]);
        }
        cases.add(Op::Softmax(Softmax { axis: 0, log: false }), vec![x]);
    }
}

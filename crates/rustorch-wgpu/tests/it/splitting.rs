//! A device whose kernels see little at once computes the same bits as one whose kernels see everything: operands are cut.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use crate::common::splitting::{
    LIMIT, argument, case, engines, indices, launches, layout, metas, run, same_bits, transposed,
};
use rustorch_core::{
    AddRmsNorm, Arange, Attention, Backend, BinaryOp, Cast, Clamp, Concat, CopyOp, DType, Dims, Distribution,
    Embedding, Fill, Gather, GluOp, IndexSelect, LayerNorm, MatMul, MulMatId, Numerics, Op, Pad, PhiloxKey,
    QuantType, Random, Reduce, ReduceOp, RmsNorm, RopeParams, RopeStyle, Scalar, Scan, ScanOp, Scatter,
    ScatterMode, Shape, Softmax, Sort, TopK, Tri, UnaryOp, Where,
};
use rustorch_cpu::CpuBackend;
use rustorch_testkit::conformance::{self, Argument, Case, Extent};

fn matmuls() -> Vec<Case> {
    use DType::{BF16, F16, F32, I32, I64};
    let mut cases = Vec::new();
    let quants = [
        QuantType::Q4_0,
        QuantType::Q8_0,
        QuantType::Q5_1,
        QuantType::Q2_K,
        QuantType::Q4_K,
        QuantType::Q6_K,
    ];
    for weight in quants.map(DType::Quant).into_iter().chain([F32, F16, BF16]) {
        let w = argument(weight, &[150, 512], 1);
        // One row, several, and so many that they are cut themselves.
        for (i, rows) in [1, 5, 11].into_iter().enumerate() {
            let mut args = vec![argument(F32, &[rows, 512], 2), transposed(w.clone())];
            if i == 1 {
                args.push(argument(F32, &[150], 3));
            }
            cases.push(Case { op: Op::MatMul(MatMul::default()), args });
        }
        let experts = argument(weight, &[7, 20, 512], 4);
        for (dtype, shared) in [(I32, 1), (I64, 3)] {
            let args =
                vec![argument(F32, &[4, shared, 512], 5), experts.clone(), indices(dtype, &[4, 3], 7, 6)];
            cases.push(Case { op: Op::MulMatId(MulMatId { numerics: Numerics::Ggml }), args });
        }
    }
    // One expert is more than a chunk.
    for weight in [DType::Quant(QuantType::Q8_0), F16] {
        let args = vec![
            argument(F32, &[3, 1, 256], 7),
            argument(weight, &[3, 90, 256], 8),
            indices(I64, &[3, 2], 3, 9),
        ];
        cases.push(Case { op: Op::MulMatId(MulMatId { numerics: Numerics::Ggml }), args });
    }
    // More results than are seen at once, in both directions.
    let args = vec![argument(F32, &[90, 64], 10), transposed(argument(F32, &[130, 64], 11))];
    let activation = Some(UnaryOp::Silu);
    cases.push(Case { op: Op::MatMul(MatMul { activation, ..MatMul::default() }), args });
    let args = vec![argument(F16, &[5, 40, 33], 12), argument(F16, &[5, 33, 50], 13)];
    cases.push(Case { op: Op::MatMul(MatMul::default()), args });
    let args = vec![
        argument(F32, &[70, 256], 14),
        transposed(argument(DType::Quant(QuantType::Q4_K), &[120, 256], 15)),
    ];
    cases.push(Case { op: Op::MatMul(MatMul::default()), args });
    cases
}

fn tables() -> Vec<Case> {
    use DType::{F16, F32, I32, I64, U8};
    let mut cases = Vec::new();
    for dtype in [DType::Quant(QuantType::Q8_0), DType::Quant(QuantType::Q6_K)] {
        let args = vec![argument(dtype, &[300, 256], 20), indices(I64, &[3, 7], 300, 21)];
        cases.push(Case { op: Op::Embedding(Embedding), args });
    }
    // Rows that begin within words, and more ids than fit.
    for (dtype, width, ids) in [(F32, 65, 30), (F16, 33, 400), (U8, 37, 500), (U8, 3, 6000)] {
        let rows = 60_000 / width;
        let args = vec![argument(dtype, &[rows, width], 22), indices(I32, &[ids], rows, 23)];
        cases.push(Case { op: Op::Embedding(Embedding), args });
    }
    let x = argument(F16, &[3, 6000, 5], 24);
    cases.push(Case {
        op: Op::IndexSelect(IndexSelect { axis: 1 }),
        args: vec![x.clone(), indices(I64, &[77], 6000, 25)],
    });
    cases.push(Case {
        op: Op::IndexSelect(IndexSelect { axis: 0 }),
        args: vec![x, indices(I32, &[2], 3, 26)],
    });
    let x = argument(F32, &[90, 100], 27);
    cases.push(Case {
        op: Op::Gather(Gather { axis: 0 }),
        args: vec![x.clone(), indices(I64, &[5, 100], 90, 28)],
    });
    cases.push(Case {
        op: Op::Gather(Gather { axis: 1 }),
        args: vec![x.clone(), indices(I32, &[80, 70], 100, 29)],
    });
    for mode in [ScatterMode::Replace, ScatterMode::Add] {
        let args = vec![x.clone(), indices(I64, &[90, 30], 100, 30), argument(F32, &[90, 31], 31)];
        cases.push(Case { op: Op::Scatter(Scatter { axis: 1, mode }), args });
    }
    cases
}

fn elements() -> Vec<Case> {
    use DType::{BF16, Bool, F16, F32, F64, I16, I64, U8};
    let mut cases = Vec::new();
    let x = argument(F32, &[7, 33, 61], 40);
    cases.push(case(Op::Binary(BinaryOp::Add), [x.clone(), argument(F32, &[33, 1], 41)]));
    cases.push(case(Op::Binary(BinaryOp::Sub), [argument(F32, &[61], 42), x.clone()]));
    cases.push(case(Op::Glu(GluOp::Silu), [x.clone(), x.clone()]));
    cases.push(case(Op::Clamp(Clamp { min: Some(Scalar::Float(-0.5)), max: None }), [x.clone()]));
    for (from, to) in [(F32, F16), (F16, F32), (U8, F32), (F32, Bool), (F32, I64)] {
        cases.push(case(Op::Cast(Cast { to }), [argument(from, &[41, 777], 43)]));
    }
    let condition = argument(Bool, &[41, 777], 44);
    let halves = [argument(F16, &[41, 777], 45), argument(F16, &[777], 46)];
    cases.push(case(Op::Where(Where), [condition, halves[0].clone(), halves[1].clone()]));
    // Across the direction in which the argument lies.
    for dtype in [U8, F16, F32] {
        let x = transposed(argument(dtype, &[150, 211], 47));
        cases.push(case(Op::Copy(CopyOp), [x.clone()]));
        cases.push(case(Op::Binary(BinaryOp::Maximum), [x.clone(), argument(dtype, &[211, 150], 48)]));
        let cut = Argument { layout: x.layout.slice(0, 3, 190, 1).unwrap(), ..x.clone() };
        cases.push(case(Op::Copy(CopyOp), [cut.clone()]));
        cases.push(case(Op::Concat(Concat { axis: 1 }), [cut.clone(), cut.clone()]));
        let widths = [(1, 2), (3, 0)].into_iter().collect();
        cases.push(case(Op::Pad(Pad { widths, value: Scalar::Int(9) }), [cut]));
        cases.push(case(Op::Tri(Tri { upper: false, diagonal: -7 }), [x]));
    }
    cases.push(case(Op::Copy(CopyOp), [argument(DType::Quant(QuantType::Q4_0), &[200, 256], 49)]));
    let shape = || Shape::new([3usize, 9001].as_slice()).unwrap();
    for dtype in [U8, I16, BF16, F32, F64] {
        let fill = Fill { shape: shape(), dtype, value: Scalar::Int(77) };
        cases.push(case(Op::Fill(fill), []));
    }
    for dtype in [I64, F16, F32] {
        let (start, step) = if dtype == I64 {
            (Scalar::Int(5), Scalar::Int(-3))
        } else {
            (Scalar::Float(0.1), Scalar::Float(0.37))
        };
        cases.push(case(Op::Arange(Arange { start, step, len: 27_001, dtype }), []));
    }
    let key = PhiloxKey { seed: 0x1234_5678_9ABC, offset: u64::MAX - 300 };
    for (distribution, dtype) in [
        (Distribution::Uniform { low: -1.0, high: 3.0 }, F32),
        (Distribution::Normal { mean: 0.0, std: 1.0 }, F16),
        (Distribution::Integer { low: -3, high: 400 }, I64),
        (Distribution::Bernoulli { p: 0.3 }, Bool),
    ] {
        cases.push(case(Op::Random(Random { distribution, shape: shape(), dtype, key }), []));
    }
    cases
}

fn rows() -> Vec<Case> {
    use DType::{F16, F32, I32};
    let mut cases = Vec::new();
    for dtype in [F16, F32] {
        let x = argument(dtype, &[9, 30, 130], 60);
        let weight = argument(dtype, &[130], 61);
        for axis in [1, 2] {
            cases.push(case(Op::Softmax(Softmax { axis, log: axis == 1 }), [x.clone()]));
            cases.push(case(Op::Scan(Scan { op: ScanOp::Sum, axis }), [x.clone()]));
            cases.push(case(Op::TopK(TopK { k: 5, axis, largest: true }), [x.clone()]));
            for op in [ReduceOp::Sum, ReduceOp::Mean, ReduceOp::ArgMax, ReduceOp::Var { correction: 1.0 }] {
                let axes = Dims::from_slice(&[axis]);
                cases.push(case(Op::Reduce(Reduce { op, axes, keepdim: axis == 1 }), [x.clone()]));
            }
        }
        cases.push(case(Op::Sort(Sort { axis: 2, descending: false }), [x.clone()]));
        cases.push(case(Op::RmsNorm(RmsNorm { eps: 1e-5 }), [x.clone(), weight.clone()]));
        let other = argument(dtype, &[9, 30, 130], 59);
        let args = [x.clone(), other, weight.clone()];
        cases.push(case(Op::AddRmsNorm(AddRmsNorm { eps: 1e-5 }), args));
        cases
            .push(case(Op::LayerNorm(LayerNorm { dims: 1, eps: 1e-5 }), [x.clone(), weight.clone(), weight]));
        let rope = RopeParams { style: RopeStyle::Halves, rotated: 64, base: 1e4, scale: 1.0, yarn: None };
        cases.push(case(Op::Rope(rope), [x.clone(), indices(I32, &[30], 1000, 62)]));
    }
    // Chunks with positions of their own.
    let rope = RopeParams { style: RopeStyle::Adjacent, rotated: 64, base: 1e4, scale: 1.0, yarn: None };
    cases.push(case(Op::Rope(rope), [argument(F32, &[2, 210, 64], 66), indices(I32, &[210], 1000, 67)]));
    // So many rows that each is one thread's, which those of a chunk would not be by themselves.
    let x = argument(F32, &[20_000, 60], 63);
    let sum = Reduce { op: ReduceOp::Sum, axes: Dims::from_slice(&[1]), keepdim: false };
    cases.push(case(Op::Reduce(sum), [x]));
    // Split by batches, by heads, by queries.
    for (causal, [heads, kv_heads, queries, keys]) in
        [(Some(40), [4, 2, 20, 60]), (None, [4, 4, 20, 60]), (Some(0), [1, 1, 100, 100])]
    {
        let q = argument(F32, &[2, heads, queries, 64], 65);
        let keys = argument(F16, &[2, kv_heads, keys, 64], 64);
        let attention = Attention { causal, window: causal.map(|_| 33), ..Attention::new(0.125) };
        cases.push(case(Op::Attention(attention), [q, keys.clone(), keys]));
    }
    cases
}

/// What lies scattered is gathered first, and taken apart again.
fn scattered() -> Vec<Case> {
    use DType::{BF16, F16, F32, I32, I64, U8};
    let mut cases = Vec::new();
    // Columns of a weight that lie across its memory: of more than a chunk each, of a word, of less than one.
    for (x, w) in [(F32, F32), (F32, F16), (F16, F16), (F32, BF16), (U8, U8)] {
        for (rows, k, n) in [(1, 300, 177), (5, 129, 310), (60, 257, 70)] {
            let args = vec![argument(x, &[rows, k], 500), argument(w, &[k, n], 501)];
            cases.push(Case { op: Op::MatMul(MatMul::default()), args });
        }
    }
    let args =
        vec![argument(F32, &[2, 5, 90], 502), argument(F32, &[90, 300], 503), argument(F32, &[300], 504)];
    cases.push(Case { op: Op::MatMul(MatMul::default()), args });
    // Rows of the left one, too; and matrices of a batch.
    let args = vec![transposed(argument(F32, &[110, 90], 505)), argument(F32, &[110, 130], 506)];
    cases.push(Case { op: Op::MatMul(MatMul::default()), args });
    let args = vec![argument(F16, &[3, 40, 110], 507), argument(F16, &[3, 110, 130], 508)];
    cases.push(Case { op: Op::MatMul(MatMul::default()), args });
    // Lines that are not the last dimension.
    for dtype in [F32, F16] {
        for dims in [&[400, 61][..], &[3, 200, 37], &[35, 9, 51]] {
            let axis = if dims.len() == 3 && dims[0] > 3 { 0 } else { dims.len() - 2 };
            let x = argument(dtype, dims, 510);
            for log in [true, false] {
                cases.push(case(Op::Softmax(Softmax { axis, log }), [x.clone()]));
            }
            cases.push(case(Op::Scan(Scan { op: ScanOp::Sum, axis }), [x.clone()]));
            cases.push(case(Op::Sort(Sort { axis, descending: true }), [x.clone()]));
            cases.push(case(Op::TopK(TopK { k: 3, axis, largest: false }), [x.clone()]));
            for op in
                [ReduceOp::Sum, ReduceOp::ArgMin, ReduceOp::LogSumExp, ReduceOp::Std { correction: 0.0 }]
            {
                let axes = Dims::from_slice(&[axis]);
                cases.push(case(Op::Reduce(Reduce { op, axes, keepdim: false }), [x.clone()]));
            }
            // Rows that begin all over the memory.
            let x = transposed(argument(dtype, &[140, 170], 511));
            let weight = argument(dtype, &[140], 512);
            cases.push(case(Op::RmsNorm(RmsNorm { eps: 1e-5 }), [x.clone(), weight.clone()]));
            let args = [argument(dtype, &[170, 140], 509), x.clone(), weight.clone()];
            cases.push(case(Op::AddRmsNorm(AddRmsNorm { eps: 1e-5 }), args));
            cases.push(case(Op::LayerNorm(LayerNorm { dims: 1, eps: 1e-5 }), [x, weight.clone(), weight]));
        }
    }
    // Choices across.
    let x = argument(F32, &[90, 100], 513);
    let args = vec![x, indices(I64, &[70, 100], 90, 514), argument(F32, &[80, 100], 515)];
    cases.push(Case { op: Op::Scatter(Scatter { axis: 0, mode: ScatterMode::Add }), args });
    // Keys and values whose heads are contiguous.
    let q = argument(F32, &[1, 6, 20, 32], 516);
    let swapped = |seed| {
        let mut x = argument(F16, &[1, 100, 6, 32], seed);
        x.layout = x.layout.transpose(1, 2).unwrap();
        x
    };
    let attention = Attention { causal: Some(80), ..Attention::new(0.2) };
    cases.push(case(Op::Attention(attention), [q, swapped(517), swapped(518)]));
    let x = transposed(argument(F32, &[64, 90], 519));
    let rope = RopeParams { style: RopeStyle::Halves, rotated: 64, base: 1e4, scale: 1.0, yarn: None };
    cases.push(case(Op::Rope(rope), [x, indices(I32, &[90], 1000, 520)]));
    cases
}

/// Reductions of lines that are more than a chunk: all to one number, to a few, of every arrangement.
fn long_lines() -> Vec<Case> {
    use DType::{Bool, F16, F32, I32, U8};
    let mut cases = Vec::new();
    let mut add = |op: ReduceOp, axes: &[usize], x: &Argument| {
        let reduce = Reduce { op, axes: Dims::from_slice(axes), keepdim: axes.len() == 1 };
        cases.push(case(Op::Reduce(reduce), [x.clone()]));
    };
    let floats = [
        ReduceOp::Sum,
        ReduceOp::Mean,
        ReduceOp::Prod,
        ReduceOp::Max,
        ReduceOp::ArgMax,
        ReduceOp::ArgMin,
        ReduceOp::LogSumExp,
        ReduceOp::Norm,
        ReduceOp::Var { correction: 1.0 },
        ReduceOp::Std { correction: 0.0 },
    ];
    for dtype in [F32, F16] {
        for op in floats {
            add(op, &[0], &argument(dtype, &[50_001], 600));
            add(op, &[0, 1], &argument(dtype, &[130, 301], 601));
            // Of each row; of each column; in an order that is not that of the memory; with gaps.
            add(op, &[1], &argument(dtype, &[3, 20_003], 602));
        }
        for op in [ReduceOp::Sum, ReduceOp::ArgMax, ReduceOp::Var { correction: 1.0 }] {
            add(op, &[0], &argument(dtype, &[20_003, 3], 603));
            add(op, &[0, 1], &transposed(argument(dtype, &[130, 301], 604)));
            add(op, &[0, 2], &argument(dtype, &[100, 3, 200], 605));
            let x = argument(dtype, &[230, 200], 606);
            add(op, &[0, 1], &Argument { layout: x.layout.slice(1, 3, 150, 1).unwrap(), ..x.clone() });
            add(op, &[0], &Argument { layout: x.layout.slice(1, 5, 1, 1).unwrap(), ..x });
            let x = argument(dtype, &[9000, 6], 607);
            add(op, &[0], &Argument { layout: x.layout.slice(1, 2, 2, 3).unwrap(), ..x });
        }
    }
    for op in [ReduceOp::Sum, ReduceOp::Min, ReduceOp::ArgMin] {
        add(op, &[0], &argument(U8, &[100_001], 608));
        add(op, &[0], &indices(I32, &[30_001], 100_000, 609));
    }
    for op in [ReduceOp::Any, ReduceOp::All] {
        add(op, &[0], &argument(Bool, &[100_001], 610));
    }
    // This is seen whole.
    cases.retain(|case| case.args[0].layout.end() * case.args[0].dtype.block_bytes() > LIMIT as usize);
    cases
}

#[test]
fn scattered_parts_in_chunks_have_the_same_bits() {
    same_bits(scattered());
}

#[test]
fn long_lines_in_chunks_have_the_same_bits() {
    same_bits(long_lines());
}

#[test]
fn matmuls_in_chunks_have_the_same_bits() {
    same_bits(matmuls());
}

#[test]
fn rows_of_tables_in_chunks_have_the_same_bits() {
    same_bits(tables());
}

#[test]
fn elements_in_chunks_have_the_same_bits() {
    same_bits(elements());
}

#[test]
fn rows_in_chunks_have_the_same_bits() {
    same_bits(rows());
}

/// Every chunk of a table is asked, but only an index outside the whole is wrong.
#[test]
fn an_index_outside_the_whole_is_an_error() {
    for [_, narrow] in engines(LIMIT) {
        for dtype in [DType::F32, DType::Quant(QuantType::Q8_0)] {
            let table = argument(dtype, &[300, 256], 70);
            let with = |id: i64| {
                let bytes = [0, 299, id, 150].into_iter().flat_map(i64::to_le_bytes).collect();
                let ids = Argument { dtype: DType::I64, layout: layout(&[4]), bytes };
                run(&Case { op: Op::Embedding(Embedding), args: vec![table.clone(), ids] }, &narrow)
            };
            assert!(with(298).is_ok());
            for id in [300, -1, i64::MAX] {
                let error = with(id).unwrap_err().to_string();
                assert!(error.contains(&id.to_string()) && error.contains("300"), "{error}");
            }
            assert!(with(5).is_ok(), "the next is none");
        }
    }
}

/// The suite, on a device whose kernels see as much as the one by which the engine asks how it rounds.
#[test]
fn the_suite_conforms_in_chunks() {
    let cpu = CpuBackend::new(1);
    let extent = Extent::from_env(Extent::Sample);
    for [whole, narrow] in engines(832) {
        let cases = extent.of([conformance::cases(), conformance::weight_cases()].concat());
        let is_cut = |case: &Case| {
            let args = metas(case, &narrow);
            narrow.supports(&case.op, &args).is_ok()
                && case.op.infer(&args).is_ok_and(|outs| outs.iter().all(|out| out.shape.numel() != 0))
                && launches(case, &whole, narrow.hardware()) > launches(case, &whole, whole.hardware())
        };
        let (cut, others): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(is_cut);
        let cut = conformance::one_in(Extent::share(8), cut);
        let others = conformance::one_in(Extent::share(16), others);
        let count = cut.len();
        let cases = [cut, others].concat();
        let report = conformance::check_cases(cases, &narrow, &cpu);
        eprintln!("{count} cases cut; {report}");
        assert!(report.failures.is_empty(), "{}: {report}", whole.device());
        let chosen = matches!(extent, Extent::Of(_));
        assert!(chosen || count > 4 && report.agreed > 40, "{count} cut; {report}");
    }
}

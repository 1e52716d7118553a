//! Operations at sizes that take the ways of large tensors: large tiles, weights in 16 bits, several workgroups for a
//! result, long lines.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use crate::common::plain;
use crate::common::splitting as common;
use crate::common::splitting::{argument, indices, metas, run, transposed, values};
use rustorch_core::{
    AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, Backend, DType, Dims, Interpolate, InterpolateMode, MatMul,
    MaxPool, MulMatId, Numerics, Op, PoolWindow, QuantType, Reduce, ReduceOp, Scan, ScanOp, Shape, Softmax,
    Sort, TopK,
};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::conformance::{self, Argument, Case, Extent};
use rustorch_testkit::{Requirement, skip};

fn cases() -> Vec<Case> {
    use DType::{BF16, F16, F32, I32};
    let mut cases = Vec::new();
    for weight in [F32, F16, BF16] {
        // Below, at and above the borders of tiles.
        for (m, n, k) in [(1, 100, 300), (5, 70, 64), (16, 33, 40), (65, 130, 50)] {
            let (x, w) = (argument(F32, &[m, k], 1), transposed(argument(weight, &[n, k], 2)));
            for numerics in [Numerics::Ggml, Numerics::F32] {
                // The CPU adds the long sums of one row in another order where it may.
                let batch_invariant = m == 1 && weight == F32;
                let op = Op::MatMul(MatMul { numerics, batch_invariant, ..MatMul::default() });
                cases.push(Case { op, args: vec![x.clone(), w.clone()] });
            }
        }
        let args = vec![
            argument(F32, &[5, 1, 64], 3),
            argument(weight, &[4, 40, 64], 4),
            indices(I32, &[5, 2], 4, 5),
        ];
        cases.push(Case { op: Op::MulMatId(MulMatId { numerics: Numerics::Ggml }), args });
    }
    // More segments of a row than there are threads for it, whole tiles and parts of them.
    let unrounded = MatMul { numerics: Numerics::F32, ..MatMul::default() };
    for (m, n, k) in [(1, 100, 2080), (2, 70, 2080), (6, 70, 2080), (33, 40, 64), (65, 130, 64)] {
        let (x, w) =
            (argument(F32, &[m, k], 8), transposed(argument(DType::Quant(QuantType::Q4_0), &[n, k], 9)));
        cases.push(Case { op: Op::MatMul(unrounded.clone()), args: vec![x, w] });
    }
    let args = vec![
        argument(F32, &[5, 1, 64], 3),
        argument(DType::Quant(QuantType::Q4_0), &[4, 40, 64], 4),
        indices(I32, &[5, 2], 4, 5),
    ];
    cases.push(Case { op: Op::MulMatId(MulMatId { numerics: Numerics::F32 }), args });
    let long = argument(F32, &[3, 100_000], 6);
    for op in [
        ReduceOp::Mean,
        ReduceOp::Max,
        ReduceOp::ArgMin,
        ReduceOp::LogSumExp,
        ReduceOp::Norm,
        ReduceOp::Var { correction: 1.0 },
    ] {
        for axes in [&[1][..], &[0, 1]] {
            let axes = Dims::from_slice(axes);
            let op = Op::Reduce(Reduce { op, axes, keepdim: true });
            cases.push(Case { op, args: vec![long.clone()] });
        }
    }
    let wide = argument(F32, &[4, 1000], 7);
    cases.push(Case { op: Op::Scan(Scan { op: ScanOp::Sum, axis: 1 }), args: vec![wide.clone()] });
    cases.push(Case { op: Op::Softmax(Softmax { axis: 1, log: false }), args: vec![wide.clone()] });
    cases.push(Case { op: Op::Sort(Sort { axis: 1, descending: true }), args: vec![wide.clone()] });
    cases.push(Case { op: Op::TopK(TopK { k: 8, axis: 1, largest: true }), args: vec![wide] });
    let longest = argument(F32, &[1 << 20], 10);
    cases.push(Case { op: Op::TopK(TopK { k: 40, axis: 0, largest: true }), args: vec![longest] });
    cases
}

#[test]
fn large_tensors_conform() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    let cpu = CpuBackend::new(1);
    for adapter in adapters {
        let engine = Engine::new(adapter.open().unwrap()).unwrap();
        let report = conformance::check_cases(conformance::one_in(Extent::share(3), cases()), &engine, &cpu);
        assert!(report.failures.is_empty() && report.declined == 0, "{}: {report}", engine.device());
    }
}

/// Keys of five lines are more than kernels see here, so that four are sorted first; those of a line of 16,000 always are.
#[test]
fn long_lines_are_sorted_a_few_at_a_time() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    let cpu = CpuBackend::new(1);
    for adapter in adapters {
        let engine = Engine::new(plain::Plain::seeing(adapter.open().unwrap(), 36 << 10)).unwrap();
        let top = |axis| Op::TopK(TopK { k: 700, axis, largest: true });
        let lines = Case { op: top(1), args: vec![argument(DType::F32, &[5, 1500], 11)] };
        let report = conformance::check_cases([lines], &engine, &cpu);
        assert!(report.agreed == 1, "{}: {report}", engine.device());
        let long = Case { op: top(0), args: vec![argument(DType::F16, &[16_000], 12)] };
        let report = conformance::check_cases([long], &engine, &cpu);
        assert!(report.declined == 1, "{}: {report}", engine.device());
    }
}

fn engines() -> impl Iterator<Item = Engine<rustorch_wgpu::WgpuDriver>> {
    let adapters = rustorch_wgpu::adapters().unwrap_or_else(|none| {
        skip(Requirement::Vulkan, none);
        Vec::new()
    });
    adapters.into_iter().map(|adapter| Engine::new(adapter.open().unwrap()).unwrap())
}

/// One element, as a tensor of many.
fn repeated(x: Argument, dims: &[usize]) -> Argument {
    let layout = x.layout.broadcast_to(&Shape::new(dims).unwrap(), "a test").unwrap();
    Argument { layout, ..x }
}

fn sliding(kernel: usize, stride: usize, spatial: usize) -> PoolWindow {
    let [kernel, stride, padding] = [kernel, stride, 0].map(|n| Dims::from_elem(n, spatial));
    PoolWindow { kernel, stride, padding, ceil_mode: false }
}

/// Of as many windows as there are elements, more than 2³¹ pairs: those that slide do not care.
#[test]
fn windows_slide_over_long_rows() {
    let cpu = CpuBackend::new(1);
    let x = argument(DType::F32, &[1, 1, 48_000], 20);
    let with = |op| Case { op, args: vec![x.clone()] };
    let means = |n| Op::AdaptiveAvgPool(AdaptiveAvgPool { size: Dims::from_slice(&[n]) });
    let largest = |n| Op::AdaptiveMaxPool(AdaptiveMaxPool { size: Dims::from_slice(&[n]) });
    let max = Op::from(MaxPool { window: sliding(3, 1, 1), dilation: Dims::from_slice(&[1]) });
    let mean = Op::from(AvgPool { window: sliding(3, 1, 1), count_include_pad: true, divisor: None });
    for engine in engines() {
        let cases = [max.clone(), mean.clone(), means(40_000)].map(with);
        let report = conformance::check_cases(cases, &engine, &cpu);
        assert!(report.agreed == 3, "{}: {report}", engine.device());
        // These are found by products of lengths, and declined before anything runs.
        for op in [means(47_000), largest(47_000)] {
            let case = with(op);
            let declined = engine.supports(&case.op, &metas(&case, &engine));
            assert!(declined.is_err(), "{}: {case}", engine.device());
        }
    }
}

/// Of elements that are all the same the first of each window is the largest, however far it is from the plane's first.
#[test]
fn places_in_planes_of_more_than_2_31_elements_are_found() {
    let op = Op::from(MaxPool { window: sliding(3, 16_384, 2), dilation: Dims::from_slice(&[1, 1]) });
    let x = argument(DType::F32, &[1, 1, 1], 21);
    let [height, width] = [65_536, 65_535];
    for engine in engines() {
        let case = Case { op: op.clone(), args: vec![repeated(x.clone(), &[1, height, width])] };
        let results = run(&case, &engine).unwrap();
        let places: Vec<i64> = results[1].as_chunks().0.iter().map(|&at| i64::from_le_bytes(at)).collect();
        let of = |i: usize| (i / 4 * width + i % 4) as i64 * 16_384;
        assert_eq!(places, (0..16).map(of).collect::<Vec<_>>(), "{}", engine.device());
        assert!(results[0].chunks_exact(4).all(|value| value == x.bytes));
        let larger = Case { op: op.clone(), args: vec![repeated(x.clone(), &[1, height, 65_537])] };
        let declined = engine.supports(&op, &metas(&larger, &engine));
        assert!(declined.is_err(), "{}: no index of 32 bits tells the last places", engine.device());
    }
}

/// The last element of a row has a number that no single has; and there may be too many for whole numbers with a sign.
#[test]
fn the_last_of_a_long_row_is_the_nearest() {
    let cpu = CpuBackend::new(1);
    let len = (1 << 24) + 2;
    let x = argument(DType::F16, &[1, len], 23);
    let one = argument(DType::F16, &[1, 1], 24);
    for engine in engines() {
        for mode in [InterpolateMode::Nearest, InterpolateMode::NearestExact] {
            // The fourth would be the one behind the last, or farther.
            let factors = [Some(3.0 / len as f64)].into_iter().collect();
            let op = Interpolate { mode, size: Dims::from_slice(&[4]), factors, align_corners: false };
            let with = |x| Case { op: Op::from(op.clone()), args: vec![x] };
            let report = conformance::check_cases([with(x.clone())], &engine, &cpu);
            assert!(report.agreed == 1, "{}: {report}", engine.device());
            let longer = with(repeated(one.clone(), &[1, 1 << 31]));
            assert!(engine.supports(&longer.op, &metas(&longer, &engine)).is_err(), "{}", engine.device());
        }
    }
}

/// A number of elements that no single has, and a correction that none has.
#[test]
fn doubles_are_divided_by_what_they_are_to_be() {
    let cpu = CpuBackend::new(1);
    let n = (1 << 24) + 1;
    let reduce = |op, axis| Op::Reduce(Reduce { op, axes: Dims::from_slice(&[axis]), keepdim: false });
    for engine in engines().filter(|engine| engine.hardware().f64) {
        for (dtype, bytes) in [
            (DType::F64, 1f64.to_le_bytes().to_vec()),
            (DType::C128, [1f64, -1.0].map(f64::to_le_bytes).concat()),
        ] {
            let one = Argument { dtype, layout: common::layout(&[1]), bytes: bytes.clone() };
            let case = Case { op: reduce(ReduceOp::Mean, 0), args: vec![repeated(one, &[n])] };
            assert_eq!(run(&case, &engine).unwrap(), [bytes], "{}: {case}", engine.device());
        }
        let bytes = values(600, 22).flat_map(|x| f64::from(x).to_le_bytes()).collect();
        let x = Argument { dtype: DType::F64, layout: common::layout(&[200, 3]), bytes };
        let cases = [0, 1].into_iter().flat_map(|axis| {
            [ReduceOp::Var { correction: 0.7 }, ReduceOp::Std { correction: 0.7 }]
                .map(|op| Case { op: reduce(op, axis), args: vec![x.clone()] })
        });
        let report = conformance::check_cases(cases, &engine, &cpu);
        assert!(report.agreed == 4, "{}: {report}", engine.device());
    }
}

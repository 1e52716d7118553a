//! A device whose kernels see little at once computes the same bits as one whose kernels see everything: operands are cut.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use rustorch_core::{
    Arange, Attention, Backend, BinaryOp, Buffer, DType, Dims, Distribution, Fault, Fill, GateOp, LayerNorm,
    Layout, MatMul, Op, Pad, PhiloxKey, QuantType, Random, Reduce, ReduceOp, RmsNorm, Rope, RopeStyle,
    Scalar, ScanOp, ScatterMode, Shape, Softmax, Sort, TensorMeta, TopK, Triangle, UnaryOp, View, ViewMut,
    bf16, f16, packed_bytes,
};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::plan::Request;
use rustorch_kernels::{Engine, Hardware, family};
use rustorch_quant::encode;
use rustorch_testkit::conformance::{self, Argument, Case, Extent};
use rustorch_wgpu::WgpuDriver;

/// What kernels see at once here.
const LIMIT: u64 = 16 << 10;

fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

/// Numbers below 1 of either sign.
fn values(n: usize, seed: u32) -> impl Iterator<Item = f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..n).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    })
}

fn argument(dtype: DType, dims: &[usize], seed: u32) -> Argument {
    let layout = layout(dims);
    let x = values(layout.elements(), seed);
    let bytes = match dtype {
        DType::F16 => x.flat_map(|x| f16::from_f32(x).to_le_bytes()).collect(),
        DType::BF16 => x.flat_map(|x| bf16::from_f32(x).to_le_bytes()).collect(),
        DType::U8 => x.map(|x| ((x + 1.0) * 127.0) as u8).collect(),
        DType::Bool => x.map(|x| u8::from(x > 0.0)).collect(),
        DType::Quant(quant) => {
            let x: Vec<f32> = x.collect();
            let mut bytes = vec![0; quant.bytes_for(x.len()).unwrap()];
            encode(quant, &x, None, &mut bytes).unwrap();
            bytes
        }
        _ => x.flat_map(f32::to_le_bytes).collect(),
    };
    Argument { dtype, layout, bytes }
}

/// Indices below `n`.
fn indices(dtype: DType, dims: &[usize], n: usize, seed: u32) -> Argument {
    let layout = layout(dims);
    let ids = values(layout.elements(), seed).map(|x| ((x + 1.0) / 2.0 * n as f32) as i64);
    let bytes = match dtype {
        DType::I32 => ids.flat_map(|id| (id as i32).to_le_bytes()).collect(),
        _ => ids.flat_map(i64::to_le_bytes).collect(),
    };
    Argument { dtype, layout, bytes }
}

fn transposed(mut x: Argument) -> Argument {
    x.layout = x.layout.transpose(0, 1).unwrap();
    x
}

fn case<const N: usize>(op: Op, args: [Argument; N]) -> Case {
    Case { op, args: args.into() }
}

fn products() -> Vec<Case> {
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
            cases.push(Case { op: Op::ExpertMatMul { exact: false }, args });
        }
    }
    // One expert is more than a piece.
    for weight in [DType::Quant(QuantType::Q8_0), F16] {
        let args = vec![
            argument(F32, &[3, 1, 256], 7),
            argument(weight, &[3, 90, 256], 8),
            indices(I64, &[3, 2], 3, 9),
        ];
        cases.push(Case { op: Op::ExpertMatMul { exact: false }, args });
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
        cases.push(Case { op: Op::Embedding, args });
    }
    // Rows that begin within words, and more ids than fit.
    for (dtype, width, ids) in [(F32, 65, 30), (F16, 33, 400), (U8, 37, 500), (U8, 3, 6000)] {
        let rows = 60_000 / width;
        let args = vec![argument(dtype, &[rows, width], 22), indices(I32, &[ids], rows, 23)];
        cases.push(Case { op: Op::Embedding, args });
    }
    let x = argument(F16, &[3, 6000, 5], 24);
    cases
        .push(Case { op: Op::IndexSelect { axis: 1 }, args: vec![x.clone(), indices(I64, &[77], 6000, 25)] });
    cases.push(Case { op: Op::IndexSelect { axis: 0 }, args: vec![x, indices(I32, &[2], 3, 26)] });
    let x = argument(F32, &[90, 100], 27);
    cases.push(Case { op: Op::Gather { axis: 0 }, args: vec![x.clone(), indices(I64, &[5, 100], 90, 28)] });
    cases.push(Case { op: Op::Gather { axis: 1 }, args: vec![x.clone(), indices(I32, &[80, 70], 100, 29)] });
    for mode in [ScatterMode::Replace, ScatterMode::Add] {
        let args = vec![x.clone(), indices(I64, &[90, 30], 100, 30), argument(F32, &[90, 31], 31)];
        cases.push(Case { op: Op::Scatter { axis: 1, mode }, args });
    }
    cases
}

fn elements() -> Vec<Case> {
    use DType::{BF16, Bool, F16, F32, F64, I16, I64, U8};
    let mut cases = Vec::new();
    let x = argument(F32, &[7, 33, 61], 40);
    cases.push(case(Op::Binary(BinaryOp::Add), [x.clone(), argument(F32, &[33, 1], 41)]));
    cases.push(case(Op::Binary(BinaryOp::Sub), [argument(F32, &[61], 42), x.clone()]));
    cases.push(case(Op::Gate(GateOp::Silu), [x.clone(), x.clone()]));
    cases.push(case(Op::Clamp { min: Some(Scalar::Float(-0.5)), max: None }, [x.clone()]));
    for (from, to) in [(F32, F16), (F16, F32), (U8, F32), (F32, Bool), (F32, I64)] {
        cases.push(case(Op::Cast(to), [argument(from, &[41, 777], 43)]));
    }
    let condition = argument(Bool, &[41, 777], 44);
    let halves = [argument(F16, &[41, 777], 45), argument(F16, &[777], 46)];
    cases.push(case(Op::Where, [condition, halves[0].clone(), halves[1].clone()]));
    // Across the direction in which the argument lies.
    for dtype in [U8, F16, F32] {
        let x = transposed(argument(dtype, &[150, 211], 47));
        cases.push(case(Op::Copy, [x.clone()]));
        cases.push(case(Op::Binary(BinaryOp::Maximum), [x.clone(), argument(dtype, &[211, 150], 48)]));
        let cut = Argument { layout: x.layout.slice(0, 3, 190, 1).unwrap(), ..x.clone() };
        cases.push(case(Op::Copy, [cut.clone()]));
        cases.push(case(Op::Concat { axis: 1 }, [cut.clone(), cut.clone()]));
        let widths = [(1, 2), (3, 0)].into_iter().collect();
        cases.push(case(Op::Pad(Pad { widths, value: Scalar::Int(9) }), [cut]));
        cases.push(case(Op::Triangle(Triangle { upper: false, diagonal: -7 }), [x]));
    }
    cases.push(case(Op::Copy, [argument(DType::Quant(QuantType::Q4_0), &[200, 256], 49)]));
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
            cases.push(case(Op::Scan { op: ScanOp::Sum, axis }, [x.clone()]));
            cases.push(case(Op::TopK(TopK { k: 5, axis, largest: true }), [x.clone()]));
            for op in [ReduceOp::Sum, ReduceOp::Mean, ReduceOp::ArgMax, ReduceOp::Var { correction: 1.0 }] {
                let axes = Dims::from_slice(&[axis]);
                cases.push(case(Op::Reduce(Reduce { op, axes, keepdim: axis == 1 }), [x.clone()]));
            }
        }
        cases.push(case(Op::Sort(Sort { axis: 2, descending: false }), [x.clone()]));
        cases.push(case(Op::RmsNorm(RmsNorm { eps: 1e-5 }), [x.clone(), weight.clone()]));
        cases
            .push(case(Op::LayerNorm(LayerNorm { dims: 1, eps: 1e-5 }), [x.clone(), weight.clone(), weight]));
        let rope = Rope { style: RopeStyle::Halves, rotated: 64, base: 1e4, scale: 1.0, yarn: None };
        cases.push(case(Op::Rope(rope), [x, indices(I32, &[30], 1000, 62)]));
    }
    // So many rows that each is one thread's, which those of a piece would not be by themselves.
    let x = argument(F32, &[20_000, 60], 63);
    let sum = Reduce { op: ReduceOp::Sum, axes: Dims::from_slice(&[1]), keepdim: false };
    cases.push(case(Op::Reduce(sum), [x]));
    // Cut by batches, by heads, by queries.
    for (causal, [heads, kv_heads, queries, keys]) in
        [(Some(40), [4, 2, 20, 60]), (None, [4, 4, 20, 60]), (Some(0), [1, 1, 100, 100])]
    {
        let q = argument(F32, &[2, heads, queries, 64], 65);
        let keys = argument(F16, &[2, kv_heads, keys, 64], 64);
        let attention = Attention {
            scale: 0.125,
            causal,
            window: causal.map(|_| 33),
            softcap: None,
            cache_precision: false,
        };
        cases.push(case(Op::Attention(attention), [q, keys.clone(), keys]));
    }
    cases
}

fn metas<'a>(case: &'a Case, backend: &dyn Backend) -> Vec<TensorMeta<'a>> {
    let device = backend.device();
    case.args.iter().map(|x| TensorMeta { dtype: x.dtype, layout: &x.layout, device }).collect()
}

/// The bytes of each result.
fn run(case: &Case, backend: &dyn Backend) -> Result<Vec<Vec<u8>>, Fault> {
    let outs = case.op.infer(&metas(case, backend)).unwrap();
    let mut buffers = Vec::new();
    for x in &case.args {
        let flat = layout(&[x.bytes.len()]);
        let mut buffer = backend.alloc(x.bytes.len())?;
        // SAFETY: the buffer has the size of the bytes.
        backend.copy_in(&x.bytes, &mut unsafe { ViewMut::new(&mut buffer, DType::U8, &flat) })?;
        buffers.push(buffer);
    }
    let layouts: Vec<Layout> = outs.iter().map(|out| Layout::contiguous(out.shape.clone())).collect();
    let sizes: Vec<usize> = outs.iter().map(|out| packed_bytes(out.dtype, out.shape.elements())).collect();
    let mut results: Vec<Buffer> =
        sizes.iter().map(|&bytes| backend.alloc(bytes)).collect::<Result<_, _>>()?;
    let views: Vec<View<'_>> = case
        .args
        .iter()
        .zip(&buffers)
        // SAFETY: every byte was written, with values of the dtype, and the layouts stay inside.
        .map(|(x, buffer)| unsafe { View::new(buffer, x.dtype, &x.layout) })
        .collect();
    let mut places: Vec<ViewMut<'_>> = outs
        .iter()
        .zip(&mut results)
        .zip(&layouts)
        // SAFETY: fresh memory of the layout's size.
        .map(|((out, buffer), layout)| unsafe { ViewMut::new(buffer, out.dtype, layout) })
        .collect();
    backend.run(&case.op, &views, &mut places)?;
    drop(places);
    let read =
        |((out, buffer), (layout, &bytes)): ((&rustorch_core::OutputMeta, &Buffer), (&Layout, &usize))| {
            let mut host = vec![0; bytes];
            // SAFETY: a backend that ran has written every element.
            backend.copy_out(&unsafe { View::new(buffer, out.dtype, layout) }, &mut host)?;
            Ok(host)
        };
    outs.iter().zip(&results).zip(layouts.iter().zip(&sizes)).map(read).collect()
}

/// The launches of a case.
fn launches(case: &Case, engine: &Engine<WgpuDriver>, hardware: &Hardware) -> usize {
    let args = metas(case, engine);
    let outs = case.op.infer(&args).unwrap();
    let layouts: Vec<Layout> = outs.iter().map(|out| Layout::contiguous(out.shape.clone())).collect();
    let outs: Vec<TensorMeta<'_>> = outs
        .iter()
        .zip(&layouts)
        .map(|(out, layout)| TensorMeta { dtype: out.dtype, layout, device: engine.device() })
        .collect();
    family::plan(&Request::new(&case.op, &args, &outs, hardware)).unwrap().steps.len()
}

/// Every device twice: as it is, and as if its kernels saw `limit` bytes at once, which wgpu then holds them to.
fn engines(limit: u64) -> Vec<[Engine<WgpuDriver>; 2]> {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => {
            eprintln!("skipped: {none}");
            Vec::new()
        }
    };
    let both = |adapter: &rustorch_wgpu::Adapter| {
        let narrow = adapter.open_within(limit, rustorch_core::cache_dir().as_deref()).unwrap();
        assert_eq!(rustorch_kernels::Driver::hardware(&narrow).max_binding, limit);
        [adapter.open().unwrap(), narrow].map(|driver| Engine::new(driver).unwrap())
    };
    adapters.iter().map(both).collect()
}

fn same_bits(cases: Vec<Case>) {
    for [whole, narrow] in engines(LIMIT) {
        let mut wrong = Vec::new();
        for case in &cases {
            let args = metas(case, &whole);
            if whole.supports(&case.op, &args).is_err() {
                continue;
            }
            if let Err(decline) = narrow.supports(&case.op, &args) {
                wrong.push(format!("{case}: {decline}"));
                continue;
            }
            let [all, pieces] = [&whole, &narrow].map(|engine| launches(case, &whole, engine.hardware()));
            let (got, want) = (run(case, &narrow), run(case, &whole));
            match (got, want) {
                (Ok(got), Ok(want)) if got == want && pieces > all => {}
                (Ok(got), Ok(want)) => {
                    let at = got.iter().flatten().zip(want.iter().flatten()).position(|(a, b)| a != b);
                    wrong.push(format!("{case}: differs at byte {at:?}, {pieces} launches for {all}"));
                }
                (got, want) => wrong.push(format!("{case}: {:?}, {:?}", got.err(), want.err())),
            }
        }
        assert!(
            wrong.is_empty(),
            "{}: {} of {}\n{}",
            whole.device(),
            wrong.len(),
            cases.len(),
            wrong.join("\n")
        );
        eprintln!("{}: {} cases", whole.hardware().name, cases.len());
    }
}

#[test]
fn products_in_pieces_have_the_same_bits() {
    same_bits(products());
}

#[test]
fn rows_of_tables_in_pieces_have_the_same_bits() {
    same_bits(tables());
}

#[test]
fn elements_in_pieces_have_the_same_bits() {
    same_bits(elements());
}

#[test]
fn rows_in_pieces_have_the_same_bits() {
    same_bits(rows());
}

/// Every piece of a table is asked, but only an index outside the whole is wrong.
#[test]
fn an_index_outside_the_whole_is_an_error() {
    for [_, narrow] in engines(LIMIT) {
        for dtype in [DType::F32, DType::Quant(QuantType::Q8_0)] {
            let table = argument(dtype, &[300, 256], 70);
            let with = |id: i64| {
                let bytes = [0, 299, id, 150].into_iter().flat_map(i64::to_le_bytes).collect();
                let ids = Argument { dtype: DType::I64, layout: layout(&[4]), bytes };
                run(&Case { op: Op::Embedding, args: vec![table.clone(), ids] }, &narrow)
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
fn the_suite_conforms_in_pieces() {
    let cpu = CpuBackend::new(1);
    let extent = Extent::from_env(Extent::Sample);
    for [whole, narrow] in engines(832) {
        let cases = extent.of([conformance::cases(), conformance::weight_cases()].concat());
        let cut = |case: &&Case| {
            let args = metas(case, &narrow);
            narrow.supports(&case.op, &args).is_ok()
                && case.op.infer(&args).is_ok_and(|outs| outs.iter().all(|out| out.shape.elements() != 0))
                && launches(case, &whole, narrow.hardware()) > launches(case, &whole, whole.hardware())
        };
        let count = cases.iter().filter(cut).count();
        let report = conformance::check_cases(cases, &narrow, &cpu);
        eprintln!("{count} cases cut; {report}");
        assert!(report.failures.is_empty(), "{}: {report}", whole.device());
        let chosen = matches!(extent, Extent::Of(_));
        assert!(chosen || count > 10 && report.agreed > 100, "{count} cut; {report}");
    }
}

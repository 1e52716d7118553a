//! Plans of operations on operands larger than what kernels see at once: of layouts alone, nothing runs.

use super::extent::granule;
use super::*;
use crate::family::{self, Kernel};
use crate::plan::{Place, Plan, Request};
use crate::{Arithmetic, Language, table};
use rustorch_core::{
    Attention, BinaryOp, DType, Device, Distribution, Fill, MatMul, Op, PhiloxKey, QuantType, Random, Reduce,
    ReduceOp, Scalar, Shape, Softmax, TensorMeta, Triangle,
};
use std::collections::HashSet;

const LIMIT: u64 = 64 << 10;

pub(super) fn hardware(max_binding: u64) -> Hardware {
    Hardware {
        buffers: 16,
        parameters: 4096,
        device: Device::Vulkan(0),
        name: String::new(),
        driver: String::new(),
        language: Language::Wgsl,
        f16: true,
        f64: true,
        i64: true,
        subgroups: None,
        software: true,
        workgroup: 256,
        workgroup_memory: 16 << 10,
        groups: 65535,
        max_buffer: 1 << 40,
        max_binding,
        window: Some(256),
        memory: None,
        arithmetic: Arithmetic::default(),
    }
}

pub(super) fn packed(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

pub(super) fn plan_on(op: &Op, args: &[(DType, Layout)], hardware: &Hardware) -> Result<Plan, Decline> {
    let device = hardware.device;
    let args: Vec<TensorMeta<'_>> =
        args.iter().map(|(dtype, layout)| TensorMeta { dtype: *dtype, layout, device }).collect();
    let outs = op.infer(&args).unwrap();
    let layouts: Vec<Layout> = outs.iter().map(|out| Layout::contiguous(out.shape.clone())).collect();
    let outs: Vec<TensorMeta<'_>> = outs
        .iter()
        .zip(&layouts)
        .map(|(out, layout)| TensorMeta { dtype: out.dtype, layout, device })
        .collect();
    let plan = family::plan(&Request::new(op, &args, &outs, hardware));
    // What planning answers beforehand is what it answers then.
    assert_eq!(table::supports(op, &args, hardware).is_ok(), plan.is_ok(), "{op:?}");
    plan
}

fn plan(op: &Op, args: &[(DType, Layout)]) -> Plan {
    let hardware = hardware(LIMIT);
    let plan = plan_on(op, args, &hardware).unwrap();
    for step in &plan.steps {
        for binding in &step.bindings {
            assert!(binding.end - binding.start <= LIMIT && binding.start.is_multiple_of(256), "{step:?}");
        }
    }
    plan
}

fn count(plan: &Plan, of: impl Fn(&Kernel) -> bool) -> usize {
    plan.steps.iter().filter(|step| of(&step.kernel)).count()
}

pub(super) fn matmul() -> Op {
    Op::MatMul(MatMul::default())
}

/// The transposed view of `n` rows of `k`.
fn weight(n: usize, k: usize) -> Layout {
    packed(&[n, k]).transpose(0, 1).unwrap()
}

/// Pieces fit, and their results are all of the result once.
#[test]
fn pieces_cover_the_result_once() {
    let hardware = Hardware { window: Some(16), ..hardware(1000) };
    let mut state = 1u32;
    let mut below = |n: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % n
    };
    for _ in 0..300 {
        let [m, n, k] = [below(70) + 1, below(70) + 1, below(100) + 1].map(|x| x as usize);
        let dtype = [DType::F16, DType::F32, DType::U8][below(3) as usize];
        let left = packed(&[m, k]);
        let right = if below(2) == 0 { packed(&[k, n]) } else { weight(n, k) };
        let extents =
            [left, right, packed(&[m, n])].map(|layout| Extent { dtype, layout, aside: Aside::Never });
        let axis = |len, moves: [Option<(usize, usize)>; 3], granule| Axis {
            len,
            moves: moves.into_iter().map(|x| x.map(|(dim, unit)| Move::Each(dim, unit))).collect(),
            granule,
            within: None,
        };
        let axes = [
            axis(m, [Some((0, 1)), None, Some((0, 1))], granule(&extents[2], 0, 1)),
            axis(n, [None, Some((1, 1)), Some((1, 1))], granule(&extents[2], 1, 1)),
        ];
        // A weight that is not transposed has its columns all over its memory, and is more than a piece from some size on.
        let Ok(pieces) = cut(&extents, &axes, &hardware) else {
            assert!(k * dtype.size().unwrap() > 900 || extents[1].layout.strides()[1] == 1);
            continue;
        };
        let mut seen = vec![0; m * n];
        for piece in &pieces {
            for (extent, layout) in extents.iter().zip(&piece.layouts) {
                assert!(extent.fits(layout, &hardware));
            }
            let ([rows, _], [_, columns]) = (
                <[usize; 2]>::try_from(piece.layouts[0].dims()).unwrap(),
                <[usize; 2]>::try_from(piece.layouts[1].dims()).unwrap(),
            );
            assert_eq!(piece.layouts[2].dims(), [rows, columns]);
            assert_eq!(piece.layouts[0].offset(), piece.starts[0] * k);
            assert_eq!(piece.layouts[1].offset(), piece.starts[1] * extents[1].layout.strides()[1]);
            piece.layouts[2].indices().for_each(|i| seen[i] += 1);
        }
        assert!(seen.iter().all(|&times| times == 1));
        assert!(pieces.len() > 1 || fit(&extents, &hardware));
    }
}

#[test]
fn columns_of_a_weight_share_their_activations() {
    let round = |kernel: &Kernel| matches!(kernel, Kernel::RoundActivations(_));
    let product = |kernel: &Kernel| matches!(kernel, Kernel::WeightProduct(_));
    for quant in [QuantType::Q4_K, QuantType::Q6_K, QuantType::Q8_0] {
        for rows in [1, 5] {
            let args = [(DType::F32, packed(&[rows, 512])), (DType::Quant(quant), weight(1000, 512))];
            let plan = plan(&matmul(), &args);
            let bytes = 1000 * 512 / quant.block_len() * quant.block_bytes();
            assert_eq!(count(&plan, round), 1);
            assert!(count(&plan, product) >= bytes.div_ceil(LIMIT as usize));
            assert!(count(&plan, product) <= bytes.div_ceil(LIMIT as usize) + 1);
            assert_eq!(plan.scratch.len(), 1, "results are written where they belong");
        }
    }
    // Where rows are cut, too, each is rounded once.
    let args = [(DType::F32, packed(&[100, 512])), (DType::Quant(QuantType::Q8_0), weight(1000, 512))];
    let plan = plan(&matmul(), &args);
    let rows: usize = plan.rounded.iter().map(|(layout, _)| layout.dims()[0]).sum();
    assert_eq!(rows, 100);
    assert_eq!(count(&plan, round), plan.rounded.len());
}

#[test]
fn experts_are_cut_by_experts_and_then_by_rows() {
    let op = Op::ExpertMatMul { exact: false };
    let product = |kernel: &Kernel| matches!(kernel, Kernel::WeightProduct(_));
    let q8 = DType::Quant(QuantType::Q8_0);
    let args = |e, n| {
        [(DType::F32, packed(&[3, 1, 256])), (q8, packed(&[e, n, 256])), (DType::I32, packed(&[3, 2]))]
    };
    // 17 KiB each: three at a time.
    let plan_of_experts = plan(&op, &args(8, 64));
    assert_eq!(count(&plan_of_experts, product), 3);
    // 85 KiB each.
    assert_eq!(count(&plan(&op, &args(4, 320)), product), 8);
    let dense = [
        (DType::F32, packed(&[3, 1, 256])),
        (DType::F16, packed(&[8, 64, 256])),
        (DType::I64, packed(&[3, 2])),
    ];
    assert_eq!(plan(&op, &dense).steps.len(), 8);
}

#[test]
fn tables_are_cut_by_rows() {
    for (dtype, steps) in [(DType::F32, 16), (DType::F16, 8), (DType::Quant(QuantType::Q4_K), 3)] {
        let args = [(dtype, packed(&[1000, 256])), (DType::I64, packed(&[2, 7]))];
        let plan = plan(&Op::Embedding, &args);
        assert!((steps..=steps + 1).contains(&plan.steps.len()), "{}", plan.steps.len());
        let kernels: HashSet<&Kernel> = plan.steps.iter().map(|step| &step.kernel).collect();
        assert_eq!(kernels.len(), 1);
        // Every piece knows the length of the whole table, which ids are held against.
        assert!(plan.steps.iter().all(|step| step.parameters.contains(&1000)));
    }
    let args = [(DType::F32, packed(&[4, 20000, 3])), (DType::I32, packed(&[50]))];
    assert!(plan(&Op::IndexSelect { axis: 1 }, &args).steps.len() > 4);
}

#[test]
fn more_ids_than_fit_are_cut_with_their_results() {
    let args = [(DType::F32, packed(&[10, 256])), (DType::I32, packed(&[20, 30]))];
    assert!(plan(&Op::Embedding, &args).steps.len() > 600 * 256 * 4 / LIMIT as usize);
}

#[test]
fn elements_are_cut_in_runs_of_whole_words() {
    for dtype in [DType::U8, DType::F16, DType::F32, DType::C128] {
        let x = (dtype, packed(&[3, 77_777]));
        let plan = plan(&Op::Binary(BinaryOp::Add), &[x.clone(), x]);
        let mut end = 0;
        for step in &plan.steps {
            let n = step.parameters[0] as usize;
            let out = step.bindings.iter().find(|binding| binding.place == Place::Out(0)).unwrap();
            let start = out.start as usize + step.parameters[3] as usize * dtype.size().unwrap();
            assert_eq!(start, end, "no gap, and no detour");
            assert!(start.is_multiple_of(4));
            end = start + n * dtype.size().unwrap();
        }
        assert_eq!(end, 3 * 77_777 * dtype.size().unwrap());
    }
    let fill = Op::Fill(Fill {
        shape: Shape::new([100_001usize].as_slice()).unwrap(),
        dtype: DType::I16,
        value: Scalar::Int(3),
    });
    assert_eq!(plan(&fill, &[]).steps.len(), 4);
}

/// Its columns lie all over a transposed argument: they are made aside, and copied to where they belong.
#[test]
fn a_transposed_argument_takes_a_detour() {
    let args =
        [(DType::F32, packed(&[200, 300]).transpose(0, 1).unwrap()), (DType::F32, packed(&[300, 200]))];
    let plan = plan(&Op::Binary(BinaryOp::Sub), &args);
    let copies = count(&plan, |kernel| matches!(kernel, Kernel::Copy(_)));
    assert!(copies > 4 && copies < plan.steps.len());
    assert_eq!(plan.scratch.len(), 1, "one after the other in the same memory");
    assert!(plan.scratch[0] <= LIMIT as usize);
}

#[test]
fn random_numbers_go_on_from_piece_to_piece() {
    let offset = u64::MAX - 1000;
    let shape = Shape::new([3usize, 33_333].as_slice()).unwrap();
    let key = PhiloxKey { seed: 7, offset };
    let distribution = Distribution::Uniform { low: 0.0, high: 1.0 };
    let op = Op::Random(Random { distribution, shape, dtype: DType::F32, key });
    let mut at = offset;
    for step in &plan(&op, &[]).steps {
        assert_eq!(u64::from(step.parameters[5]) << 32 | u64::from(step.parameters[4]), at);
        at = at.wrapping_add(u64::from(step.parameters[0]).div_ceil(4));
    }
    assert_eq!(at, offset.wrapping_add(99_999u64.div_ceil(4)));
}

/// A row is added up as it is in the whole, however few there are in a piece.
#[test]
fn reductions_add_in_the_order_of_the_whole() {
    let sum = |axes: &[usize]| {
        Op::Reduce(Reduce { op: ReduceOp::Sum, axes: Dims::from_slice(axes), keepdim: false })
    };
    let args = [(DType::F32, packed(&[2000, 10_000]))];
    let uncut = plan_on(&sum(&[1]), &args, &hardware(1 << 30)).unwrap();
    let pieces = plan_on(&sum(&[1]), &args, &hardware(1 << 20)).unwrap();
    assert!(uncut.scratch.is_empty() && pieces.scratch.is_empty());
    assert!(pieces.steps.len() > 70);
    assert!(pieces.steps.iter().all(|step| step.kernel == uncut.steps[0].kernel));
    // Of one result, the runs that are added by themselves: as many, and as long, as in one launch.
    let uncut = plan_on(&sum(&[0, 1]), &args, &hardware(1 << 30)).unwrap();
    let pieces = plan_on(&sum(&[0, 1]), &args, &hardware(1 << 20)).unwrap();
    assert_eq!(pieces.scratch, uncut.scratch);
    let (first, runs) = (&uncut.steps[0], uncut.steps[0].parameters[1]);
    let mut next = 0;
    for step in &pieces.steps[..pieces.steps.len() - 1] {
        assert_eq!((&step.kernel, &step.parameters[..4]), (&first.kernel, &first.parameters[..4]));
        assert_eq!(step.parameters[6], next);
        next += step.parameters[7];
    }
    assert_eq!(next, runs);
}

#[test]
fn rows_are_cut_where_each_has_its_own_results() {
    let softmax = |axis| Op::Softmax(Softmax { axis, log: false });
    assert!(plan(&softmax(2), &[(DType::F16, packed(&[4, 100, 500]))]).steps.len() > 6);
    assert!(plan(&softmax(1), &[(DType::F32, packed(&[9, 100, 100]))]).steps.len() > 5);
    let triangle = Op::Triangle(Triangle { upper: true, diagonal: 0 });
    let plan = plan(&triangle, &[(DType::F32, packed(&[300, 300]))]);
    let mut row = 0;
    for step in &plan.steps {
        // The diagonal moves with the first row.
        assert_eq!(step.parameters[5] as i32, row);
        row += step.parameters[3] as i32;
    }
    assert_eq!(row, 300);
}

#[test]
fn attention_is_cut_by_the_heads_of_its_keys() {
    let attention =
        Attention { scale: 1.0, causal: Some(0), window: None, softcap: None, cache_precision: false };
    let keys = packed(&[1, 4, 200, 64]);
    let args = [(DType::F32, packed(&[1, 8, 3, 64])), (DType::F16, keys.clone()), (DType::F16, keys)];
    // 25 KiB each head of keys.
    assert_eq!(plan(&Op::Attention(attention), &args).steps.len(), 2);
}

/// A kernel counts bytes of blocks in 32 bits, however much it sees.
#[test]
fn weights_of_more_than_4_gib_are_cut() {
    let cuda = hardware(16 << 30);
    let args = [(DType::F32, packed(&[1, 8192])), (DType::Quant(QuantType::Q8_0), weight(1 << 20, 8192))];
    let plan = plan_on(&matmul(), &args, &cuda).unwrap();
    assert_eq!(plan.steps.len(), 1 + 3);
}

#[test]
fn what_cannot_be_cut_is_declined_with_a_reason() {
    let why = |op: &Op, args: &[(DType, Layout)], hardware: &Hardware| {
        plan_on(op, args, hardware).unwrap_err().to_string()
    };
    let whole = hardware(LIMIT);
    let product = [(DType::F32, packed(&[1, 20_000])), (DType::F32, weight(10, 20_000))];
    assert!(why(&matmul(), &product, &whole).contains("belongs together"));
    let sum = Op::Unary(rustorch_core::UnaryOp::Neg);
    let apart = packed(&[5000, 5000]).transpose(0, 1).unwrap();
    assert!(why(&sum, &[(DType::F32, apart)], &whole).contains("16384 launches"));
    let blind = Hardware { window: None, ..whole };
    assert!(why(&sum, &[(DType::F32, packed(&[100_000]))], &blind).contains("at once"));
}

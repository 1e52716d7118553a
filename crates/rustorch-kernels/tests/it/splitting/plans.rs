//! Plans of operations on operands larger than the maximum binding size: of layouts alone, nothing runs.

use super::{hardware, matmul, packed, plan_on, weight};
use rustorch_core::{
    Attention, BinaryOp, CrossEntropy, CrossEntropyBackward, DType, Dims, Distribution, Embedding, Fill,
    IndexSelect, Layout, MulMatId, Numerics, Op, PhiloxKey, QuantType, Random, Reduce, ReduceOp, Scalar,
    Shape, Softmax, Tri,
};
use rustorch_kernels::family::Plan;
use rustorch_kernels::plan::{Place, Step};
use rustorch_kernels::{Hardware, Kernel};
use std::collections::HashSet;

const LIMIT: u64 = 64 << 10;

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

/// Chunks fit, and their results are all of the result once.
#[test]
fn chunks_cover_the_result_once() {
    let hardware = Hardware { window: Some(16), ..hardware(1000) };
    let mut state = 1u32;
    let mut below = |n: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % n
    };
    let mut split = 0;
    for _ in 0..300 {
        let [m, n, k] = [below(70) + 1, below(70) + 1, below(100) + 1].map(|x| x as usize);
        let dtype = [DType::F16, DType::F32, DType::F64][below(3) as usize];
        let size = dtype.block_bytes();
        let (x, w) = (packed(&[m, k]), if below(2) == 0 { packed(&[k, n]) } else { weight(n, k) });
        let Ok(plan) = plan_on(&matmul(), &[(dtype, x), (dtype, w.clone())], &hardware) else {
            // What is to be seen at once is a row or a column, or, of a weight that is not transposed, columns all over it.
            assert!(k * size > 900 || w.strides()[1] == 1, "[{m}, {k}] by [{k}, {n}] of {dtype}");
            continue;
        };
        let mut seen = vec![0; m * n];
        let products: Vec<&Step<Kernel>> =
            plan.steps.iter().filter(|step| matches!(step.kernel, Kernel::MatMul(_))).collect();
        split += usize::from(products.len() > 1);
        for step in products {
            // The first parameters of the kernel.
            let [rows, columns, of, _, _, _, x_start, w_start, y_start] =
                <[u32; 9]>::try_from(&step.parameters[..9]).unwrap().map(|x| x as usize);
            // The first element of an operand that the kernel is given, in the operand's own memory.
            let first = |place: Place, start: usize| {
                let binding = step.bindings.iter().find(|binding| binding.place == place)?;
                assert!(binding.end - binding.start <= 1000 && binding.start.is_multiple_of(16), "{step:?}");
                Some(binding.start as usize / size + start)
            };
            assert_eq!(of, k);
            let y = first(Place::Out(0), y_start).expect("no result is staged");
            let (row, column) = (y / n, y % n);
            assert!([None, Some(row * k)].contains(&first(Place::Arg(0), x_start)), "{step:?}");
            assert!(
                [None, Some(column * w.strides()[1])].contains(&first(Place::Arg(1), w_start)),
                "{step:?}"
            );
            for i in 0..rows {
                seen[y + i * n..][..columns].iter_mut().for_each(|times| *times += 1);
            }
        }
        assert!(seen.iter().all(|&times| times == 1), "[{m}, {k}] by [{k}, {n}] of {dtype}: {seen:?}");
    }
    assert!(split > 100, "{split} of 300");
}

#[test]
fn columns_of_a_weight_share_their_activations() {
    let round = |kernel: &Kernel| matches!(kernel, Kernel::QuantizeActivations(_));
    let product = |kernel: &Kernel| matches!(kernel, Kernel::WeightMatMul(_) | Kernel::WeightMatVec(_));
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
    let rounded = plan.steps.iter().filter(|step| round(&step.kernel));
    // Blocks in all, and those of a row.
    let rows: Vec<u32> = rounded.map(|step| step.parameters[0] / step.parameters[1]).collect();
    assert!(rows.len() > 1 && rows.iter().sum::<u32>() == 100, "{rows:?}");
}

#[test]
fn experts_are_cut_by_experts_and_then_by_rows() {
    let op = Op::MulMatId(MulMatId { numerics: Numerics::Ggml });
    let product = |kernel: &Kernel| matches!(kernel, Kernel::WeightMatMul(_) | Kernel::WeightMatVec(_));
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
        let plan = plan(&Op::Embedding(Embedding), &args);
        assert!((steps..=steps + 1).contains(&plan.steps.len()), "{}", plan.steps.len());
        let kernels: HashSet<&Kernel> = plan.steps.iter().map(|step| &step.kernel).collect();
        assert_eq!(kernels.len(), 1);
        // Every chunk knows the length of the whole table, which ids are held against.
        assert!(plan.steps.iter().all(|step| step.parameters.contains(&1000)));
    }
    let args = [(DType::F32, packed(&[4, 20000, 3])), (DType::I32, packed(&[50]))];
    assert!(plan(&Op::IndexSelect(IndexSelect { axis: 1 }), &args).steps.len() > 4);
}

#[test]
fn more_ids_than_fit_are_cut_with_their_results() {
    let args = [(DType::F32, packed(&[10, 256])), (DType::I32, packed(&[20, 30]))];
    assert!(plan(&Op::Embedding(Embedding), &args).steps.len() > 600 * 256 * 4 / LIMIT as usize);
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
            assert_eq!(start, end, "no gap, and no staged_output");
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

/// A row is added up as it is in the whole, however few there are in a chunk.
#[test]
fn reductions_add_in_the_order_of_the_whole() {
    let sum = |axes: &[usize]| {
        Op::Reduce(Reduce { op: ReduceOp::Sum, axes: Dims::from_slice(axes), keepdim: false })
    };
    let args = [(DType::F32, packed(&[2000, 10_000]))];
    let uncut = plan_on(&sum(&[1]), &args, &hardware(1 << 30)).unwrap();
    let chunks = plan_on(&sum(&[1]), &args, &hardware(1 << 20)).unwrap();
    assert!(uncut.scratch.is_empty() && chunks.scratch.is_empty());
    assert!(chunks.steps.len() > 70);
    assert!(chunks.steps.iter().all(|step| step.kernel == uncut.steps[0].kernel));
    // Of one result, the runs that are added by themselves: as many, and as long, as in one launch.
    let uncut = plan_on(&sum(&[0, 1]), &args, &hardware(1 << 30)).unwrap();
    let chunks = plan_on(&sum(&[0, 1]), &args, &hardware(1 << 20)).unwrap();
    assert_eq!(chunks.scratch, uncut.scratch);
    let (first, runs) = (&uncut.steps[0], uncut.steps[0].parameters[1]);
    let mut next = 0;
    for step in &chunks.steps[..chunks.steps.len() - 1] {
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
    let triangle = Op::Tri(Tri { upper: true, diagonal: 0 });
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
fn cross_entropy_is_cut_by_rows() {
    let (logits, rows) = (packed(&[4, 100, 200]), packed(&[4, 200]));
    for (axis, rows) in [(1, rows), (2, packed(&[4, 100]))] {
        for target in [(DType::I64, rows.clone()), (DType::F32, logits.clone())] {
            let forward = CrossEntropy { axis, ignore_index: -100, label_smoothing: 0.0 };
            let args = [(DType::F32, logits.clone()), target.clone()];
            assert!(plan(&Op::CrossEntropy(forward), &args).steps.len() >= 5);
            let backward = CrossEntropyBackward { axis, ignore_index: -100, label_smoothing: 0.0 };
            let sums = (DType::F32, rows.clone());
            let args = [sums.clone(), (DType::F32, logits.clone()), sums.clone(), sums, target];
            assert!(plan(&Op::CrossEntropyBackward(backward), &args).steps.len() >= 5);
        }
    }
}

#[test]
fn attention_is_cut_by_the_heads_of_its_keys() {
    let attention = Attention { causal: Some(0), ..Attention::new(1.0) };
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
    let staged = packed(&[5000, 5000]).transpose(0, 1).unwrap();
    assert!(why(&sum, &[(DType::F32, staged)], &whole).contains("16384 launches"));
    let blind = Hardware { window: None, ..whole };
    assert!(why(&sum, &[(DType::F32, packed(&[100_000]))], &blind).contains("at once"));
}

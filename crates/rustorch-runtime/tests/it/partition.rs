//! Partitions of graphs over devices that compile.

use crate::common::graphs::{self, Rng, SIDE, check_plan, matrix, outputs, run};
use crate::common::{CUDA, OPENCL, builder, bytes, fake, shape, upload};
use rustorch_core::{
    BinaryOp, Concat, Conv, ConvParams, CostModel, DType, Device, IndexSelect, Link, MatMul, Op, OpKind,
    OpType, RegionPrice, Rewrite, UnaryOp,
};
use rustorch_runtime::{
    Captured, HybridExecutor, OpTable, Operand, Output, PartitionPlan, Pass, Placement, Program,
    ProgramOptions, Reason, TransferMethod,
};
use rustorch_testkit::{FakeCompiler, FakeDevice, Point};
use std::sync::Arc;

const TANH: Op = Op::Unary(UnaryOp::Tanh);

fn matmul() -> Op {
    Op::MatMul(MatMul::default())
}

/// A price of so many microseconds for a call, and so many for each node.
fn price(call_us: f64, node_us: f64, compile_us: f64) -> FakeCompiler {
    FakeCompiler::new().price(move |region| {
        let run = (call_us + node_us * region.nodes.len() as f64) * 1e-6;
        Some(RegionPrice { run, compile: compile_us * 1e-6 })
    })
}

/// What a compiler accepts by random: kinds of operations, and single nodes.
fn random_compiler(seed: u64) -> FakeCompiler {
    let mut rng = Rng(seed);
    let declined: Vec<OpKind> = [
        OpKind::MatMul,
        BinaryOp::Add.into(),
        BinaryOp::Mul.into(),
        UnaryOp::Tanh.into(),
        UnaryOp::Relu.into(),
        OpKind::Concat,
    ]
    .into_iter()
    .filter(|_| rng.chance(20))
    .collect();
    let few = rng.below(20) as u64;
    let (call, node, compile) = (rng.below(4) as f64, rng.below(3) as f64, rng.below(3000) as f64);
    price(call, node, compile).accepts(move |graph, node| {
        let op = &graph.nodes[node].op;
        if declined.contains(&op.kind()) {
            return Err(format!("there is no {}", op.name()).into());
        }
        // By what the node is, and not by its number, which the order of a graph decides.
        let hash = Rng(seed ^ u64::from(graph.nodes[node].results[0].value.0)).next();
        if hash % 100 < few { Err("this one is not to my taste".into()) } else { Ok(()) }
    })
}

fn random_placement(rng: &mut Rng) -> Placement {
    match rng.below(6) {
        0..=2 => Placement::Auto,
        3 => Placement::FirstSupported,
        4 => Placement::Prefer([CUDA, OPENCL][rng.below(2)]),
        _ => Placement::ByOp(
            OpTable::new()
                .class(OpType::LinearAlgebra, CUDA)
                .class(OpType::Elementwise, OPENCL)
                .op(UnaryOp::Tanh, CUDA),
        ),
    }
}

/// Two fake devices with random compilers, one of which may have no operations by itself.
fn random_devices(seed: u64) -> HybridExecutor {
    let mut rng = Rng(seed);
    let (only_compiles, reaches_cpu) = (rng.chance(30), rng.chance(30));
    let cuda = fake(CUDA).capability(|can| {
        if only_compiles {
            can.dtypes = [Default::default(); OpType::ALL.len()];
        }
        if reaches_cpu {
            can.reaches = vec![Device::CPU];
        }
    });
    let cuda = Arc::new(cuda.with_compiler(random_compiler(seed ^ 1)));
    let mut opencl = fake(OPENCL);
    if rng.chance(60) {
        opencl = opencl.with_compiler(random_compiler(seed ^ 2));
    }
    let placement = random_placement(&mut rng);
    let cpu = cpu_cost([8.0, 20.0, 60.0][rng.below(3)]);
    builder(&[&cuda, &Arc::new(opencl)]).cost(Device::CPU, cpu).placement(placement).build().unwrap()
}

fn options() -> ProgramOptions {
    ProgramOptions::default()
}

/// How many copies one run makes.
fn copies_of_run(executor: &HybridExecutor, f: impl FnOnce()) -> u64 {
    let moved = || -> u64 {
        let all = executor.transfers().all();
        all.iter()
            .filter(|(.., method, _)| *method != TransferMethod::Alias)
            .map(|(.., count)| count.count)
            .sum()
    };
    let before = moved();
    f();
    moved() - before
}

/// The copies of a run in which each node gets each of its arguments by itself.
fn naive_copies(program: &Program, plan: &PartitionPlan) -> usize {
    let graph = program.graph();
    let mut device = vec![None; graph.nodes.len()];
    plan.outside.iter().for_each(|outside| device[outside.node] = outside.device);
    for region in &plan.regions {
        device[region.nodes.clone()].fill(Some(region.device));
    }
    let mut home: Vec<Device> = graph.values.iter().map(|value| value.device).collect();
    let mut copies = 0;
    for (n, node) in graph.nodes.iter().enumerate() {
        let Some(at) = device[n] else { continue };
        copies += node.args.iter().filter(|arg| home[arg.value.index()] != at).count();
        for result in &node.results {
            let into = result.into.as_ref().map(|into| home[into.value.index()]);
            copies += usize::from(into.is_some_and(|into| into != at));
            home[result.value.index()] = into.unwrap_or(at);
        }
    }
    copies
}

#[test]
fn random_graphs_compute_what_the_cpu_computes() {
    let (mut regions, mut outside, mut planned) = (0, 0, 0);
    for seed in 0..400u64 {
        let executor = random_devices(seed);
        let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
        let nodes = 5 + (seed as usize * 7) % 40;
        let (expected, states) = graphs::random(&executor, seed, nodes, seed % 2 == 0);
        let expected = Program::new(&cpu, expected, &[]).unwrap();
        assert!(expected.plan().is_none_or(|plan| plan.regions.is_empty()));
        let (captured, own_states) = graphs::random(&executor, seed, nodes, seed % 2 == 0);
        let program = Program::new(&executor, captured, &[]).unwrap();
        let plan = program.plan().unwrap();
        check_plan(program.graph(), plan);
        for run in 0..3 {
            assert_eq!(
                outputs(&executor, &program, run),
                outputs(&cpu, &expected, run),
                "seed {seed}\n{plan}"
            );
            for (own, state) in own_states.iter().zip(&states) {
                let (own, state) = (bytes(&executor, &own.operand()), bytes(&cpu, &state.operand()));
                assert_eq!(own, state, "seed {seed}\n{plan}");
            }
        }
        assert!(plan.copies.len() <= naive_copies(&program, plan), "seed {seed}\n{plan}");
        // Writing in place moves what it writes, too; without regions the executor moves what it likes.
        let is_exact = seed % 2 == 1 && !plan.regions.is_empty();
        let made = copies_of_run(&executor, || drop(graphs::run_program(&executor, &program, 5)));
        assert!(!is_exact || made <= plan.copies.len() as u64, "seed {seed}: {made} copies\n{plan}");
        assert!(program.region_reports().iter().all(|report| report.runs == 4 && report.faults == 0));
        regions += plan.regions.len();
        outside += plan.outside.len();
        planned += plan.nodes();
        for node in &plan.outside {
            assert_eq!(node.reasons.len(), plan.compilers.len(), "seed {seed}: {node:?}");
        }
        let again = random_devices(seed);
        let (captured, _) = graphs::random(&again, seed, nodes, seed % 2 == 0);
        let again = Program::new(&again, captured, &[]).unwrap();
        assert_eq!(again.plan(), Some(plan), "seed {seed}");
    }
    // The cases are of all kinds.
    assert!(regions > 200 && outside > 1000 && outside < planned - 1000, "{regions} {outside} {planned}");
}

#[test]
fn a_value_is_copied_once_for_all_that_read_it() {
    let cuda =
        Arc::new(fake(CUDA).with_compiler(FakeCompiler::new().accepts_ops(|op| matches!(op, Op::MatMul(_)))));
    let by_op =
        OpTable::new().op(OpKind::MatMul, CUDA).op(UnaryOp::Tanh, Device::CPU).op(UnaryOp::Relu, Device::CPU);
    let executor = builder(&[&cuda])
        .cost(Device::CPU, cpu_cost(1000.0))
        .placement(Placement::ByOp(by_op))
        .build()
        .unwrap();
    let weight = upload(&executor, &matrix(1), &[SIDE, SIDE]);
    let program = program(&executor, |x| {
        let product = run(&matmul(), &[(x, &x.layout), (&weight, &weight.layout)]);
        let once = run(&TANH, &[(&product, &product.layout)]);
        let twice = run(&Op::Unary(UnaryOp::Relu), &[(&product, &product.layout)]);
        let view = product.layout.transpose(0, 1).unwrap();
        let thrice = run(&TANH, &[(&product, &view)]);
        vec![once, twice, thrice]
    });
    let plan = program.plan().unwrap();
    assert_eq!(plan.regions.len(), 1, "{plan}");
    assert_eq!(plan.copies.len(), 2, "{plan}");
    let x = upload(&executor, &matrix(0), &[SIDE, SIDE]);
    let made = copies_of_run(&executor, || drop(program.run(&[x.operand()], || []).unwrap()));
    assert_eq!(made, 2);
}

/// A program of a function of one square matrix on the CPU.
fn program(executor: &HybridExecutor, f: impl FnOnce(&Output) -> Vec<Output>) -> Program {
    Program::with_options(executor, captured(executor, &[SIDE, SIDE], f), &[], options()).unwrap()
}

fn captured(executor: &HybridExecutor, dims: &[usize], f: impl FnOnce(&Output) -> Vec<Output>) -> Captured {
    let spec = (DType::F32, shape(dims), Device::CPU);
    executor.capture(&[spec], |inputs| Ok((f(&inputs[0]), ()))).unwrap().0
}

fn add(a: &Output, b: &Output) -> Output {
    run(&Op::Binary(BinaryOp::Add), &[(a, &a.layout), (b, &b.layout)])
}

fn unary(op: UnaryOp, x: &Output) -> Output {
    run(&Op::Unary(op), &[(x, &x.layout)])
}

fn product(a: &Output, b: &Output) -> Output {
    run(&matmul(), &[(a, &a.layout), (b, &b.layout)])
}

fn one_device(compiler: FakeCompiler) -> (Arc<FakeDevice>, HybridExecutor) {
    let cuda = Arc::new(fake(CUDA).with_compiler(compiler));
    let executor = builder(&[&cuda]).cost(Device::CPU, cpu_cost(1000.0)).build().unwrap();
    (cuda, executor)
}

/// The costs of a CPU that takes so long for a call, and next to nothing for the rest: a measurement would be another one each time.
fn cpu_cost(launch_us: f64) -> CostModel {
    let cost = rustorch_core::Backend::cost(&fake(CUDA)).unwrap().clone();
    CostModel { launch_us, upload: Link::NONE, download: Link::NONE, ..cost }
}

/// Costs of a machine whose CPU takes 10 µs for a call and next to nothing for the rest, beside a device 10 µs away.
fn slow_cpu(compiler: FakeCompiler, placement: Placement) -> (Arc<FakeDevice>, HybridExecutor) {
    let cuda = Arc::new(fake(CUDA).cost(|cost| cost.launch_us = 12.0).with_compiler(compiler));
    let executor = builder(&[&cuda]).cost(Device::CPU, cpu_cost(10.0)).placement(placement).build().unwrap();
    (cuda, executor)
}

#[test]
fn regions_pay_or_are_none() {
    let chain = |x: &Output| {
        let mut y = product(x, x);
        for _ in 0..8 {
            y = unary(UnaryOp::Tanh, &product(&y, x));
        }
        vec![y]
    };
    // 17 nodes of 10 µs each, against 20 µs for moving: as much as 150 µs may be spent on a run.
    let plan = |compiler: FakeCompiler, runs: u64| {
        let (_, executor) = slow_cpu(compiler, Placement::Auto);
        let captured = captured(&executor, &[SIDE, SIDE], chain);
        let options = options().expected_runs(runs);
        Program::with_options(&executor, captured, &[], options).unwrap().plan().unwrap().clone()
    };
    let cheap = plan(price(100.0, 0.0, 3000.0), 1000);
    assert_eq!((cheap.regions.len(), cheap.regions[0].nodes.clone()), (1, 0..17), "{cheap}");
    let region = &cheap.regions[0];
    assert!((region.run_us - 100.0).abs() < 1e-6 && (region.compile_us - 3000.0).abs() < 1e-6, "{cheap}");
    assert!((169.0..200.0).contains(&region.outside_us), "{cheap}");
    assert_eq!(region.moved_bytes(), (4 * (SIDE * SIDE) as u64, 0), "{cheap}");
    let dear = plan(price(160.0, 0.0, 3000.0), 1000);
    assert_eq!(dear.regions, [], "{dear}");
    assert!(
        matches!(dear.outside[3].reasons[..], [(CUDA, Reason::Unprofitable { saved_us, .. })] if saved_us < 0.0),
        "{dear}"
    );
    // 50 µs saved by each of ten runs do not pay for 3 ms.
    let seldom = plan(price(100.0, 0.0, 3000.0), 10);
    assert!(seldom.regions.is_empty() && seldom.to_string().contains("3.0 ms to compile"), "{seldom}");
    let unknown = plan(FakeCompiler::new().price(|_| None), 1000);
    assert_eq!(unknown.outside[0].reasons[..], [(CUDA, Reason::Unpriced)]);
    for odd in [f64::NAN, f64::INFINITY, -1.0] {
        let compiler = FakeCompiler::new().price(move |_| Some(RegionPrice { run: odd, compile: 0.0 }));
        assert_eq!(plan(compiler, 1000).outside[0].reasons[..], [(CUDA, Reason::Unpriced)]);
    }
}

#[test]
fn borders_that_cost_more_than_they_save_are_left_out() {
    // What the last node returns is much larger than what it reads.
    let (_, executor) = slow_cpu(price(1.0, 0.0, 0.0), Placement::Auto);
    let wide = upload(&executor, &vec![0.5f32; 1 << 20], &[1 << 20, 1]);
    let program = Program::new(
        &executor,
        captured(&executor, &[SIDE, SIDE], |x| {
            let y = product(&product(&product(x, x), x), x);
            let row = y.layout.slice(0, 0, 1, 1).unwrap();
            vec![run(&Op::Binary(BinaryOp::Add), &[(&y, &row), (&wide, &wide.layout)])]
        }),
        &[],
    )
    .unwrap();
    let plan = program.plan().unwrap();
    assert_eq!(plan.regions.len(), 1, "{plan}");
    assert_eq!(plan.regions[0].nodes, 0..3, "{plan}");
    assert_eq!(plan.outside[0].reasons[..], [(CUDA, Reason::Trimmed)]);
}

#[test]
fn placement_keeps_its_meaning() {
    let chain = |x: &Output| vec![unary(UnaryOp::Tanh, &product(&unary(UnaryOp::Tanh, &product(x, x)), x))];
    let plan = |placement: Placement| {
        let (_, executor) = one_device(FakeCompiler::new());
        let executor = executor.with_policy(placement).unwrap();
        let program = Program::new(&executor, captured(&executor, &[64, 64], chain), &[]).unwrap();
        program.plan().cloned()
    };
    let regions = |placement| {
        plan(placement).map(|plan| plan.regions.iter().map(|r| r.nodes.clone()).collect::<Vec<_>>())
    };
    let all = Some(vec![0..4]);
    assert_eq!(regions(Placement::Auto), all);
    assert_eq!(regions(Placement::Prefer(CUDA)), all);
    assert_eq!(regions(Placement::Require(CUDA)), all);
    assert_eq!(regions(Placement::FirstSupported), all);
    assert_eq!(regions(Placement::GpuOnly), all);
    // All is on the CPU, and stays there: no device is asked.
    assert_eq!(regions(Placement::Resident), None);
    assert_eq!(regions(Placement::CpuOnly), None);
    assert_eq!(regions(Placement::Prefer(Device::CPU)), None);
    // Matrices of 16 KiB.
    assert_eq!(regions(Placement::GpuThreshold(32 << 10)), Some(vec![0..4]));
    assert_eq!(regions(Placement::GpuThreshold(40 << 10)), Some(vec![0..1, 2..3]));
    let by_op = plan(Placement::ByOp(OpTable::new().op(UnaryOp::Tanh, Device::CPU))).unwrap();
    assert_eq!(by_op.regions.iter().map(|r| r.nodes.clone()).collect::<Vec<_>>(), [0..1, 2..3], "{by_op}");
    assert_eq!(by_op.outside[0].reasons[..], [(CUDA, Reason::Placed(Some(Device::CPU)))]);
    assert!(
        by_op.to_string().contains("node 1 (tanh) on cpu: cuda:0: the placement policy runs it on cpu"),
        "{by_op}"
    );
}

#[test]
fn a_device_that_only_compiles_gets_regions_under_every_policy_that_names_it() {
    for placement in [Placement::Auto, Placement::Prefer(CUDA), Placement::FirstSupported] {
        let cuda = fake(CUDA).capability(|can| can.dtypes = [Default::default(); OpType::ALL.len()]);
        let compiler = FakeCompiler::new().accepts_ops(|op| !matches!(op, Op::Unary(UnaryOp::Relu)));
        let cuda = Arc::new(cuda.with_compiler(compiler));
        let executor =
            builder(&[&cuda]).cost(Device::CPU, cpu_cost(1000.0)).placement(placement).build().unwrap();
        let program = program(&executor, |x| vec![product(&unary(UnaryOp::Relu, &product(x, x)), x)]);
        let plan = program.plan().unwrap();
        assert_eq!(plan.regions.len(), 2, "{plan}");
        assert_eq!(plan.outside[0].reasons[..], [(CUDA, Reason::Declined("there is no relu".into()))]);
        // What the CPU computes between them does not go to the device by itself, for the next region to read.
        let x = upload(&executor, &matrix(0), &[SIDE, SIDE]);
        let made = copies_of_run(&executor, || drop(program.run(&[x.operand()], || []).unwrap()));
        assert_eq!((made, plan.copies.len()), (3, 3), "{plan}");
        assert_eq!(cuda.calls_at(Point::RunRegion), 2);
    }
}

#[test]
fn parts_that_are_needed_late_join_their_readers() {
    // The first product is ready early, and read behind the ReLU by what else is needed there.
    let (_, executor) =
        one_device(FakeCompiler::new().accepts_ops(|op| !matches!(op, Op::Unary(UnaryOp::Relu))));
    let program = program(&executor, |x| {
        let early = product(x, x);
        let other = product(&unary(UnaryOp::Relu, &unary(UnaryOp::Tanh, x)), x);
        vec![add(&early, &other)]
    });
    let plan = program.plan().unwrap();
    assert_eq!(plan.regions.len(), 1, "{plan}");
    assert_eq!(plan.regions[0].nodes.len(), 3, "{plan}");
}

/// `x` with its borders reflected along two dimensions, as `ReflectionPad2d` does it.
fn reflect(executor: &HybridExecutor, x: &Output, by: usize) -> Output {
    let mut x = x.clone();
    for axis in [2usize, 3] {
        let len = x.layout.dims()[axis] as i64;
        let by = by as i64;
        let source = |at: i64| {
            if at < 0 {
                -at
            } else if at >= len {
                2 * (len - 1) - at
            } else {
                at
            }
        };
        let index: Vec<i64> = (-by..len + by).map(source).collect();
        let index = upload(executor, &index, &[index.len()]);
        x = run(&Op::IndexSelect(IndexSelect { axis }), &[(&x, &x.layout), (&index, &index.layout)]);
    }
    x
}

/// A style network: convolutions between reflected borders.
fn style_network(executor: &HybridExecutor, convolutions: usize) -> Captured {
    let weight: Vec<f32> = (0..4 * 4 * 9).map(|i| (i % 11) as f32 * 0.03 - 0.15).collect();
    let weight = upload(executor, &weight, &[4, 4, 3, 3]);
    captured(executor, &[1, 4, 12, 12], |x| {
        let recorder = HybridExecutor::current();
        let mut x = x.clone();
        for i in 0..convolutions {
            if i > 0 {
                x = reflect(&recorder, &x, 1);
            }
            let conv = Op::from(Conv { params: ConvParams::new(2), activation: None });
            x = unary(UnaryOp::Relu, &run(&conv, &[(&x, &x.layout), (&weight, &weight.layout)]));
        }
        vec![x]
    })
}

#[test]
fn reflecting_pads_no_longer_cut_a_network() {
    let accepts = |op: &Op| !matches!(op, Op::IndexSelect(_));
    let (_, executor) = one_device(FakeCompiler::new().accepts_ops(accepts));
    let cut = Program::new(&executor, style_network(&executor, 14), &[]).unwrap();
    assert_eq!(cut.plan().unwrap().regions.len(), 14, "{}", cut.plan().unwrap());
    let compiler = FakeCompiler::new().accepts_ops(accepts).rewrites(&[Rewrite::ReflectPad]);
    let (cuda, executor) = one_device(compiler);
    let whole = Program::new(&executor, style_network(&executor, 14), &[]).unwrap();
    let plan = whole.plan().unwrap();
    assert_eq!((plan.regions.len(), plan.outside.len()), (1, 0), "{plan}");
    assert!(whole.graph().nodes.iter().any(|node| matches!(node.op, Op::Concat(Concat { axis: 3 }))));

    // The same bits, on the CPU as well.
    let numbers: Vec<f32> = (0..4 * 144).map(|i| (i % 29) as f32 * 0.1 - 1.3).collect();
    let x = upload(&executor, &numbers, &[1, 4, 12, 12]);
    let result = |executor: &HybridExecutor, program: &Program| {
        bytes(executor, &program.run(&[x.operand()], || []).unwrap()[0].operand())
    };
    let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
    let plain = Program::new(&cpu, style_network(&executor, 14), Pass::ALL).unwrap();
    assert!(plain.graph().nodes.iter().any(|node| matches!(node.op, Op::IndexSelect(_))), "nobody asks");
    let expected = result(&cpu, &plain);
    assert_eq!(result(&executor, &whole), expected);
    assert_eq!(cuda.calls_at(Point::RunRegion), 1);
    cuda.script(rustorch_testkit::Rule::at(Point::RunRegion));
    assert_eq!(result(&executor, &whole), expected, "one by one");
}

#[test]
fn indices_that_somebody_has_or_of_many_slices_are_left_as_they_are() {
    let compiler = || {
        FakeCompiler::new()
            .accepts_ops(|op| !matches!(op, Op::IndexSelect(_)))
            .rewrites(&[Rewrite::ReflectPad])
    };
    let select = |x: &Output, index: &Output| {
        run(&Op::IndexSelect(IndexSelect { axis: 0 }), &[(x, &x.layout), (index, &index.layout)])
    };
    let rewritten = |index: &[i64], is_held: bool| {
        let (_, executor) = one_device(compiler());
        let mut held = None;
        let captured = captured(&executor, &[200, 4], |x| {
            let index = upload(&HybridExecutor::current(), index, &[index.len()]);
            held = is_held.then(|| index.clone());
            let x = select(x, &index);
            let square = x.layout.slice(0, 0, 4, 1).unwrap();
            vec![run(&matmul(), &[(&x, &square), (&x, &square)])]
        });
        let program = Program::new(&executor, captured, &[]).unwrap();
        program.graph().nodes.iter().any(|node| matches!(node.op, Op::Concat(_)))
    };
    assert!(rewritten(&[1, 0, 1, 2, 3, 2], false));
    // Somebody may write there.
    assert!(!rewritten(&[1, 0, 1, 2, 3, 2], true));
    // A gather, and an index that is out of range, of which the operation says so.
    assert!(!rewritten(&(0..130).map(|i| i * 37 % 200).collect::<Vec<i64>>(), false));
    assert!(!rewritten(&[1, 0, 1, 2, 3, 200], false));
    assert!(!rewritten(&[1, 0, 1, 2, -1, 2], false));
}

#[test]
fn many_small_parts_become_one_region_or_none() {
    // 513 nodes of which 274 are claimed, in 87 parts: 86 of two, and one of 102.
    let build = |executor: &HybridExecutor| {
        captured(executor, &[SIDE, SIDE], |x| {
            let mut y = x.clone();
            for _ in 0..86 {
                // Claimed, then what cuts.
                y = unary(UnaryOp::Tanh, &product(&y, x));
                y = unary(UnaryOp::Relu, &unary(UnaryOp::Relu, &y));
            }
            for _ in 0..51 {
                y = unary(UnaryOp::Tanh, &product(&y, x));
            }
            for _ in 0..67 {
                y = unary(UnaryOp::Relu, &y);
            }
            vec![y]
        })
    };
    let accepts = |op: &Op| !matches!(op, Op::Unary(UnaryOp::Relu));
    let plan = |compiler: FakeCompiler| {
        let (_, executor) = slow_cpu(compiler.accepts_ops(accepts), Placement::Auto);
        let captured = build(&executor);
        assert_eq!(captured.graph.nodes.len(), 513);
        Program::new(&executor, captured, &[]).unwrap().plan().unwrap().clone()
    };
    let free = {
        // Nothing costs anything: each part is a region.
        let compiler = FakeCompiler::new().accepts_ops(accepts);
        let near = fake(CUDA).cost(|cost| {
            cost.launch_us = 12.0;
            (cost.upload, cost.download) = (rustorch_core::Link::NONE, rustorch_core::Link::NONE);
        });
        let cuda = Arc::new(near.with_compiler(compiler));
        let executor = builder(&[&cuda]).cost(Device::CPU, cpu_cost(10.0)).build().unwrap();
        Program::new(&executor, build(&executor), &[]).unwrap().plan().unwrap().clone()
    };
    assert_eq!(free.regions.len(), 87, "{free}");
    assert_eq!(free.regions.iter().map(|region| region.nodes.len()).sum::<usize>(), 274);
    // A call of 300 µs, 2 µs for each node: only the large part pays, or nothing where a node takes 9.
    let one = plan(price(300.0, 2.0, 50_000.0));
    assert_eq!(one.regions.iter().map(|region| region.nodes.len()).collect::<Vec<_>>(), [102], "{one}");
    assert_eq!(plan(price(300.0, 9.0, 50_000.0)).regions, []);
}

#[test]
fn what_cannot_be_in_a_region_says_why() {
    let (_, executor) = one_device(FakeCompiler::new());
    let state = upload(&executor, &matrix(3), &[SIDE, SIDE]);
    let program = program(&executor, |x| {
        let recorder = HybridExecutor::current();
        let key = recorder.record_draw(16).unwrap();
        let x = product(x, x);
        let drawn = run(&Op::Dropout(rustorch_core::Dropout { p: 0.5, key }), &[(&x, &x.layout)]);
        recorder.run_into(&TANH, &[drawn.operand()], &[state.operand()]).unwrap();
        let moved = recorder.transfer(&state.operand(), Device::CPU).unwrap();
        vec![moved]
    });
    let plan = program.plan().unwrap();
    let reasons: Vec<(&str, &Reason)> =
        plan.outside.iter().map(|node| (node.op, &node.reasons[0].1)).collect();
    assert_eq!(
        reasons,
        [("dropout", &Reason::Random), ("tanh", &Reason::InPlace), ("copy", &Reason::Transfer)]
    );
    assert_eq!(plan.others, [Device::CPU]);
    assert!(plan.to_string().contains("1 of 4 nodes in 1 region, for 1000 runs"), "{plan}");
}

#[test]
fn without_a_compiler_there_is_no_plan() {
    let executor = builder(&[&Arc::new(fake(CUDA))]).build().unwrap();
    let program = program(&executor, |x| vec![product(x, x)]);
    assert_eq!(program.plan(), None);
    assert_eq!(program.region_reports(), []);
}

#[test]
fn constants_that_somebody_writes_are_compiled_anew_once_that_pays() {
    // 160 µs to compile, 80 or so saved by each run.
    let (cuda, executor) = slow_cpu(price(1.0, 0.0, 160.0), Placement::Auto);
    let weight = upload(&executor, &matrix(1), &[SIDE, SIDE]);
    let program = program(&executor, |x| {
        let mut y = product(x, &weight);
        for _ in 0..9 {
            y = product(&y, &weight);
        }
        vec![y]
    });
    assert_eq!(program.plan().unwrap().regions.len(), 1);
    let x = upload(&executor, &matrix(0), &[SIDE, SIDE]);
    let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
    let expected = |weight: &Output| {
        let mut y = cpu.run(&matmul(), &[x.operand(), weight.operand()]).unwrap().remove(0);
        for _ in 0..9 {
            y = cpu.run(&matmul(), &[y.operand(), weight.operand()]).unwrap().remove(0);
        }
        bytes(&cpu, &y.operand())
    };
    let result = || bytes(&executor, &program.run(&[x.operand()], || []).unwrap()[0].operand());
    assert_eq!(result(), expected(&weight));
    assert_eq!(cuda.calls_at(Point::RunRegion), 1);
    for round in 1..4 {
        executor.run_into(&TANH, &[weight.operand()], &[weight.operand()]).unwrap();
        for _ in 0..6 {
            assert_eq!(result(), expected(&weight), "round {round}");
        }
        assert_eq!(cuda.calls_at(Point::Compile), 1 + round);
        let report = program.region_reports().remove(0);
        assert!(report.compiled == 1 + round as u64 && report.faults == 0 && report.runs > 2, "{report:?}");
    }
    // Written before each run, it is never compiled.
    for _ in 0..10 {
        executor.run_into(&TANH, &[weight.operand()], &[weight.operand()]).unwrap();
        assert_eq!(result(), expected(&weight));
    }
    assert_eq!(cuda.calls_at(Point::Compile), 4);
}

#[test]
fn programs_run_inputs_that_begin_anywhere() {
    let (cuda, executor) = one_device(FakeCompiler::new());
    let program = program(&executor, |x| vec![product(x, &unary(UnaryOp::Tanh, x))]);
    let all: Vec<f32> = (0..SIDE * SIDE + 8).map(|i| i as f32 * 0.01).collect();
    let all = upload(&executor, &all, &[SIDE * SIDE + 8]);
    let layout = all.layout.slice(0, 8, SIDE * SIDE, 1).unwrap();
    let layout = layout.reshape(&shape(&[SIDE, SIDE])).unwrap().unwrap();
    let x = Operand { storage: &all.storage, dtype: DType::F32, layout: &layout };
    let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
    let expected = {
        let tanh = cpu.run(&TANH, &[x]).unwrap().remove(0);
        cpu.run(&matmul(), &[x, tanh.operand()]).unwrap().remove(0)
    };
    let result = program.run(&[x], || []).unwrap();
    assert_eq!(bytes(&executor, &result[0].operand()), bytes(&cpu, &expected.operand()));
    assert_eq!(cuda.calls_at(Point::RunRegion), 1);
}

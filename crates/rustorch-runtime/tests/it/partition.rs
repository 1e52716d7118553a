//! Partitions of graphs over devices that compile.

use crate::common::graphs::{self, Rng, SIDE, check_plan, matrix, outputs, run};
use crate::common::regions::{
    add, captured, cpu_cost, matmul, one_device, price, product, program, slow_cpu, unary,
};
use crate::common::{CUDA, OPENCL, builder, bytes, fake, shape, upload};
use rustorch_core::{BinaryOp, DType, Device, Op, OpKind, OpType, RegionPrice, UnaryOp};
use rustorch_runtime::{
    HybridExecutor, OpTable, Operand, Output, PartitionPlan, Placement, Program, ProgramOptions, Reason,
    TransferMethod,
};
use rustorch_testkit::{Act, FakeCompiler, Point, Rule};
use std::sync::Arc;

const TANH: Op = Op::Unary(UnaryOp::Tanh);

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
    price(call, node, compile).takes_states(seed % 8 != 1).accepts(move |graph, node| {
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
            let into = result.into.as_deref().map(|into| home[into.value.index()]);
            copies += usize::from(into.is_some_and(|into| into != at));
            home[result.value.index()] = into.unwrap_or(at);
        }
    }
    copies
}

#[test]
fn random_graphs_compute_what_the_cpu_computes() {
    let (mut regions, mut outside, mut planned, mut written) = (0, 0, 0, 0);
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
        let nodes_inside =
            plan.regions.iter().flat_map(|region| &program.graph().nodes[region.nodes.clone()]);
        let writes = nodes_inside.filter(|node| node.results.iter().any(|result| result.into.is_some()));
        written += writes.count();
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
    assert!(written > 10, "{written} writes of states in regions");
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
    let ranges = |plan: &PartitionPlan| -> Vec<(usize, usize)> {
        plan.regions.iter().map(|region| (region.nodes.start, region.nodes.end)).collect()
    };
    let regions = |placement| plan(placement).as_ref().map(ranges);
    let all = Some(vec![(0, 4)]);
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
    assert_eq!(regions(Placement::GpuThreshold(32 << 10)), all);
    assert_eq!(regions(Placement::GpuThreshold(40 << 10)), Some(vec![(0, 1), (2, 3)]));
    let by_op = plan(Placement::ByOp(OpTable::new().op(UnaryOp::Tanh, Device::CPU))).unwrap();
    assert_eq!(ranges(&by_op), [(0, 1), (2, 3)], "{by_op}");
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
fn writes_of_whole_states_are_part_of_regions_that_take_them() {
    let accepts = |op: &Op| !matches!(op, Op::Unary(UnaryOp::Relu));
    let captured = |executor: &HybridExecutor| {
        let states: Vec<Output> = (5..7).map(|i| upload(executor, &matrix(i), &[SIDE, SIDE])).collect();
        let made = captured(executor, &[SIDE, SIDE], |x| {
            let recorder = HybridExecutor::current();
            // What the state held, read by what is in no region.
            let before = unary(UnaryOp::Relu, &states[0]);
            let square = product(x, x);
            recorder.run_into(&TANH, &[square.operand()], &[states[0].operand()]).unwrap();
            let seen = product(&states[0], x);
            recorder.run_into(&matmul(), &[seen.operand(), x.operand()], &[states[0].operand()]).unwrap();
            // Not in the order of its memory.
            let transposed = states[1].layout.transpose(0, 1).unwrap();
            let place = Operand { layout: &transposed, ..states[1].operand() };
            recorder.run_into(&TANH, &[seen.operand()], &[place]).unwrap();
            vec![product(&before, &seen), product(&states[0], &states[1])]
        });
        (made, states)
    };
    let (cuda, executor) = one_device(FakeCompiler::new().accepts_ops(accepts).takes_states(true));
    let (made, states) = captured(&executor);
    let program = Program::new(&executor, made, &[]).unwrap();
    let plan = program.plan().unwrap();
    check_plan(program.graph(), plan);
    let reasons: Vec<(&str, String)> =
        plan.outside.iter().map(|node| (node.op, node.reasons[0].1.to_string())).collect();
    let expected = [("relu", "there is no relu".to_owned()), ("tanh", Reason::InPlace.to_string())];
    assert_eq!(reasons, expected, "{plan}");

    let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
    let (made, known) = captured(&executor);
    let expected = Program::new(&cpu, made, &[]).unwrap();
    let results = |program: &Program, seed: usize| -> Vec<Vec<u8>> {
        let input = upload(&cpu, &matrix(seed), &[SIDE, SIDE]);
        let made = program.run(&[input.operand()], || [] as [rustorch_core::PhiloxKey; 0]).unwrap();
        made.iter().map(|made| bytes(&cpu, &made.operand())).collect()
    };
    for run in 0..6 {
        if run == 3 {
            cuda.script(Rule::at(Point::RunRegion).act(Act::Fail));
        }
        assert_eq!(results(&program, run), results(&expected, run), "run {run}\n{plan}");
        for (own, known) in states.iter().zip(&known) {
            assert_eq!(bytes(&cpu, &own.operand()), bytes(&cpu, &known.operand()), "run {run}\n{plan}");
        }
    }
    let runs: Vec<u64> =
        program.region_reports().iter().map(|report| report.runs + 10 * report.faults).collect();
    assert!(runs.iter().any(|runs| *runs >= 10) && runs.iter().all(|runs| *runs >= 3), "{runs:?}");
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

//! Faults of devices at compiled regions: the region's operations run elsewhere, with the CPU's bits.

use crate::common::graphs::{self, SIDE, check_plan, matrix, outputs, run};
use crate::common::{CUDA, OPENCL, builder, bytes, fake, shape, upload};
use rustorch_core::{
    CopyOp, CostModel, DType, Decline, Device, Error, Fault, IndexSelect, Link, MatMul, Op, OpType, UnaryOp,
};
use rustorch_runtime::{
    Captured, HybridExecutor, OnFault, Output, Placement, Program, ProgramOptions, Reason,
};
use rustorch_testkit::{Act, FakeCompiler, FakeDevice, Point, Rule};
use std::sync::Arc;
use std::time::Duration;

const TANH: Op = Op::Unary(UnaryOp::Tanh);
const RELU: Op = Op::Unary(UnaryOp::Relu);

/// A CPU that takes a millisecond for a call, beside which every region pays.
fn slow_cpu() -> CostModel {
    CostModel {
        launch_us: 1000.0,
        flops: 1e13,
        bandwidth: 5e11,
        rates: vec![],
        upload: Link::NONE,
        download: Link::NONE,
    }
}

/// A device that compiles all but ReLU, and another one without a compiler.
fn devices(only_compiles: bool) -> (Arc<FakeDevice>, HybridExecutor) {
    let cuda = fake(CUDA).capability(|can| {
        if only_compiles {
            can.dtypes = [Default::default(); OpType::ALL.len()];
        }
    });
    let compiler = FakeCompiler::new().accepts_ops(|op| *op != RELU);
    let cuda = Arc::new(cuda.with_compiler(compiler));
    let executor = builder(&[&cuda, &Arc::new(fake(OPENCL).cost(|cost| cost.launch_us = 1000.0))])
        .cost(Device::CPU, slow_cpu());
    (cuda, executor.placement(Placement::FirstSupported).build().unwrap())
}

fn product(a: &Output, b: &Output) -> Output {
    run(&Op::MatMul(MatMul::default()), &[(a, &a.layout), (b, &b.layout)])
}

fn unary(op: &Op, x: &Output) -> Output {
    run(op, &[(x, &x.layout)])
}

/// Three regions, between which the device has nothing to compile.
fn three_regions(executor: &HybridExecutor, weight: &Output) -> Captured {
    let spec = (DType::F32, shape(&[SIDE, SIDE]), Device::CPU);
    let (captured, ()) = executor
        .capture(&[spec.clone(), spec], |x| {
            let first = unary(&TANH, &product(&x[0], &x[1]));
            let second = unary(&TANH, &product(&unary(&RELU, &first), weight));
            // Reads what the first region made as well.
            let third = product(&unary(&RELU, &second), &first);
            Ok((vec![third, second], ()))
        })
        .unwrap();
    captured
}

/// A program of three regions, and one on the CPU.
fn programs(executor: &HybridExecutor) -> (Program, HybridExecutor, Program) {
    let weight = upload(executor, &matrix(3), &[SIDE, SIDE]);
    let program = Program::new(executor, three_regions(executor, &weight), &[]).unwrap();
    let plan = program.plan().unwrap();
    check_plan(program.graph(), plan);
    assert_eq!(plan.regions.len(), 3, "{plan}");
    let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
    let expected = Program::new(&cpu, three_regions(executor, &weight), &[]).unwrap();
    (program, cpu, expected)
}

const FAULTS: [Act; 5] = [Act::Fail, Act::Doubt, Act::TimeOut, Act::RunOut, Act::Lose];

#[test]
fn every_fault_at_every_region_leaves_the_bits() {
    for only_compiles in [false, true] {
        for act in FAULTS {
            for region in 0..3 {
                let (cuda, executor) = devices(only_compiles);
                let (program, cpu, expected) = programs(&executor);
                // Memory that runs out is asked for again, twice where the device has copies of others' memory.
                let times = if act == Act::RunOut { 3 } else { 1 };
                cuda.script(Rule::at(Point::RunRegion).after(region).times(times).act(act.clone()));
                let case = format!("{act:?} at region {region}, {only_compiles}");
                for run in 0..3 {
                    assert_eq!(outputs(&executor, &program, run), outputs(&cpu, &expected, run), "{case}");
                }
                let reports = program.region_reports();
                assert_eq!(reports[region].faults, 1, "{case}: {reports:?}");
                assert_eq!(executor.health().is_lost(CUDA), act == Act::Lose, "{case}");
                if act != Act::Lose {
                    assert_eq!(executor.health().quarantined_regions(CUDA), 1, "{case}");
                    for (i, report) in reports.iter().enumerate() {
                        assert_eq!(report.runs, if i == region { 0 } else { 3 }, "{case}: {reports:?}");
                        assert_eq!(report.quarantined, i == region, "{case}");
                    }
                    assert_eq!(executor.health().lift_quarantine(CUDA), 1);
                    assert_eq!(outputs(&executor, &program, 7), outputs(&cpu, &expected, 7), "{case}");
                    assert_eq!(program.region_reports()[region].runs, 1, "{case}");
                }
                // Single operations of the device are not affected.
                assert_eq!(executor.health().quarantined(), [], "{case}");
            }
        }
    }
}

#[test]
fn a_region_that_fails_runs_on_the_next_devices() {
    let (cuda, executor) = devices(false);
    let (program, cpu, expected) = programs(&executor);
    cuda.script(Rule::at(Point::RunRegion));
    let before = cuda.runs("matmul");
    let (result, explanation) = executor.explain(|| outputs(&executor, &program, 0));
    assert_eq!(result, outputs(&cpu, &expected, 0));
    let ran: Vec<(&str, Option<Device>)> =
        explanation.records().iter().map(|record| (record.op.name(), record.device)).collect();
    let by = |op: &str, device| ran.iter().filter(|ran| **ran == (op, Some(device))).count();
    assert_eq!((by("matmul", OPENCL), by("tanh", OPENCL)), (3, 2), "{explanation}");
    assert_eq!(cuda.runs("matmul"), before);
    // Nodes in no region still go where placement puts them.
    assert_eq!(by("relu", CUDA), 2, "{explanation}");
    // Where the policy allows no other device, its own kernels stand in.
    let (cuda, executor) = devices(false);
    let executor = executor.with_policy(Placement::Require(CUDA)).unwrap();
    let (program, cpu, expected) = programs(&executor);
    cuda.script(Rule::at(Point::RunRegion));
    assert_eq!(outputs(&executor, &program, 0), outputs(&cpu, &expected, 0));
    assert_eq!(cuda.runs("matmul"), 3);
}

#[test]
fn mistakes_of_the_caller_fall_back_to_nothing() {
    for region in 0..3 {
        let (cuda, executor) = devices(false);
        let (program, ..) = programs(&executor);
        cuda.script(Rule::at(Point::RunRegion).after(region).times(1).act(Act::Refuse));
        let inputs: Vec<Output> = (0..2).map(|i| upload(&executor, &matrix(i), &[SIDE, SIDE])).collect();
        let error = program.run(&[inputs[0].operand(), inputs[1].operand()], || []).unwrap_err();
        assert!(matches!(&error, Error::Argument { message, .. } if message == "by script"), "{error}");
        assert_eq!(cuda.calls_at(Point::RunRegion), region + 1);
        assert_eq!(cuda.runs("matmul"), 0);
        assert_eq!(executor.health().quarantined_regions(CUDA), 0);
        assert_eq!(program.region_reports()[region].faults, 0);
        program.run(&[inputs[0].operand(), inputs[1].operand()], || []).unwrap();
    }
}

#[test]
fn an_index_out_of_range_in_a_region_is_an_error() {
    let (cuda, executor) = devices(false);
    let specs = [(DType::F32, shape(&[SIDE, SIDE]), Device::CPU), (DType::I64, shape(&[2]), Device::CPU)];
    let (captured, ()) = executor
        .capture(&specs, |x| {
            let select = Op::IndexSelect(IndexSelect { axis: 0 });
            let chosen = run(&select, &[(&x[0], &x[0].layout), (&x[1], &x[1].layout)]);
            Ok((vec![product(&chosen, &x[0])], ()))
        })
        .unwrap();
    let program = Program::new(&executor, captured, &[]).unwrap();
    assert_eq!(program.plan().unwrap().regions.len(), 1);
    let x = upload(&executor, &matrix(0), &[SIDE, SIDE]);
    let index = upload(&executor, &[1i64, 6], &[2]);
    let error = program.run(&[x.operand(), index.operand()], || []).unwrap_err();
    assert!(matches!(error, Error::Index { index: 6, len: 6, .. }), "{error}");
    assert_eq!(cuda.calls_at(Point::RunRegion), 1);
}

#[test]
fn fallback_can_be_turned_off_for_regions() {
    for act in FAULTS {
        let (cuda, executor) = devices(false);
        let executor = executor.with_on_fault(OnFault::Error);
        let (program, cpu, expected) = programs(&executor);
        let times = if act == Act::RunOut { 3 } else { 1 };
        cuda.script(Rule::at(Point::RunRegion).after(1).times(times).act(act.clone()));
        let inputs: Vec<Output> = (0..2).map(|i| upload(&executor, &matrix(i), &[SIDE, SIDE])).collect();
        let error = program.run(&[inputs[0].operand(), inputs[1].operand()], || []).unwrap_err();
        let Error::Fault(fault) = &error else { panic!("{act:?}: {error}") };
        let is_that = match &**fault {
            Fault::Backend { device, .. } => *device == CUDA && act == Act::Fail,
            Fault::Numeric { device, .. } => *device == CUDA && act == Act::Doubt,
            Fault::Timeout { device, .. } => *device == CUDA && act == Act::TimeOut,
            Fault::OutOfMemory { device, .. } => *device == CUDA && act == Act::RunOut,
            Fault::DeviceLost { device, .. } => *device == CUDA && act == Act::Lose,
            Fault::Invalid(_) => false,
        };
        assert!(is_that, "{act:?}: {error}");
        // What is quarantined, or gone, is no failure any more.
        assert_eq!(outputs(&executor, &program, 1), outputs(&cpu, &expected, 1), "{act:?}");
    }
}

#[test]
fn results_with_nan_that_the_cpu_does_not_confirm_are_the_device_s_fault() {
    for region in 0..3 {
        let (cuda, executor) = devices(false);
        let executor = executor.with_number_check(true);
        let (program, cpu, expected) = programs(&executor);
        cuda.script(Rule::at(Point::RunRegion).after(region).times(1).act(Act::Nan));
        assert_eq!(outputs(&executor, &program, 0), outputs(&cpu, &expected, 0));
        let reports = program.region_reports();
        assert_eq!((reports[region].faults, reports[region].quarantined), (1, true), "{reports:?}");
        assert_eq!(executor.health().quarantined_regions(CUDA), 1);
    }
    // The computation's own NaN quarantines nothing, and unchecked it passes.
    for checks in [false, true] {
        let (cuda, executor) = devices(false);
        let executor = executor.with_number_check(checks);
        let (program, ..) = programs(&executor);
        let mut odd = matrix(0);
        odd[0] = f32::NAN;
        let inputs = [upload(&executor, &odd, &[SIDE, SIDE]), upload(&executor, &matrix(1), &[SIDE, SIDE])];
        let result = program.run(&[inputs[0].operand(), inputs[1].operand()], || []).unwrap();
        let result = bytes(&executor, &result[0].operand());
        assert!(f32::from_ne_bytes(result[..4].try_into().unwrap()).is_nan());
        assert_eq!(executor.health().quarantined_regions(CUDA), 0);
        assert_eq!(cuda.calls_at(Point::RunRegion), 3);
        assert_eq!(program.region_reports()[0].faults, u64::from(checks));
    }
}

#[test]
fn what_cannot_be_compiled_runs_one_by_one_and_the_plan_says_why() {
    for act in FAULTS {
        let (cuda, executor) = devices(false);
        let times = if act == Act::RunOut { usize::MAX } else { 1 };
        cuda.script(Rule::at(Point::Compile).after(1).times(times).act(act.clone()));
        let weight = upload(&executor, &matrix(3), &[SIDE, SIDE]);
        let program = Program::new(&executor, three_regions(&executor, &weight), &[]).unwrap();
        let plan = program.plan().unwrap();
        check_plan(program.graph(), plan);
        let left = if matches!(act, Act::Lose | Act::RunOut) { 1 } else { 2 };
        assert_eq!((plan.regions.len(), program.region_reports().len()), (left, left), "{act:?} {plan}");
        let is_fault = |reason: &Reason| matches!(reason, Reason::Fault(text) if text.contains("cuda:0"));
        let failed = plan.outside.iter().filter(|node| is_fault(&node.reasons[0].1)).count();
        assert_eq!(failed, if left == 2 { 2 } else { 3 }, "{act:?} {plan}");
        let device = if act == Act::Lose { OPENCL } else { CUDA };
        assert!(plan.outside.iter().all(|node| node.device == Some(device)), "{act:?} {plan}");
        let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
        let expected = Program::new(&cpu, three_regions(&executor, &weight), &[]).unwrap();
        assert_eq!(outputs(&executor, &program, 0), outputs(&cpu, &expected, 0), "{act:?}");

        let (cuda, executor) = devices(false);
        cuda.script(Rule::at(Point::Compile).act(act.clone()));
        let executor = executor.with_on_fault(OnFault::Error);
        let error = Program::new(&executor, three_regions(&executor, &weight), &[]).unwrap_err();
        assert!(matches!(error, Error::Fault(_)), "{act:?}: {error}");
    }
    let (cuda, executor) = devices(false);
    cuda.script(Rule::at(Point::Compile).act(Act::Refuse));
    let weight = upload(&executor, &matrix(3), &[SIDE, SIDE]);
    let error = Program::new(&executor, three_regions(&executor, &weight), &[]).unwrap_err();
    assert!(error.to_string().contains("by script"), "{error}");
}

#[test]
fn a_region_that_is_not_ready_is_no_failure() {
    let (cuda, executor) = devices(false);
    let (program, cpu, expected) = programs(&executor);
    cuda.script(Rule::at(Point::Ready).after(1).times(1).act(Act::Decline(Decline::Compiling)));
    assert_eq!(outputs(&executor, &program, 0), outputs(&cpu, &expected, 0));
    let reports = program.region_reports();
    assert_eq!(reports[1].declined, Some(Decline::Compiling));
    assert_eq!((reports[1].runs, reports[1].faults, reports[1].quarantined), (0, 0, false));
    assert_eq!(cuda.calls_at(Point::RunRegion), 2);
    assert_eq!(outputs(&executor, &program, 1), outputs(&cpu, &expected, 1));
    assert_eq!(program.region_reports()[1].declined, None);
    assert_eq!(cuda.calls_at(Point::RunRegion), 5);
}

#[test]
fn inputs_that_cannot_be_moved_quarantine_nothing() {
    let (cuda, executor) = devices(true);
    let (program, cpu, expected) = programs(&executor);
    cuda.script(Rule::at(Point::CopyIn).times(1));
    assert_eq!(outputs(&executor, &program, 0), outputs(&cpu, &expected, 0));
    assert_eq!(executor.health().quarantined_regions(CUDA), 0);
    assert_eq!(program.region_reports()[0].faults, 1);
    assert_eq!(outputs(&executor, &program, 1), outputs(&cpu, &expected, 1));
    assert_eq!(cuda.calls_at(Point::RunRegion), 5);
}

#[test]
fn quarantine_ends() {
    let cuda = fake(CUDA).with_compiler(FakeCompiler::new().accepts_ops(|op| *op != RELU));
    let cuda = Arc::new(cuda);
    let executor = builder(&[&cuda]).cost(Device::CPU, slow_cpu()).quarantine(Duration::from_millis(50));
    let executor = executor.placement(Placement::FirstSupported).build().unwrap();
    let (program, cpu, expected) = programs(&executor);
    cuda.script(Rule::at(Point::RunRegion).times(1));
    assert_eq!(outputs(&executor, &program, 0), outputs(&cpu, &expected, 0));
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(executor.health().quarantined_regions(CUDA), 0);
    assert_eq!(outputs(&executor, &program, 0), outputs(&cpu, &expected, 0));
    assert_eq!(program.region_reports()[0].runs, 1);
}

#[test]
fn random_programs_survive_random_faults() {
    let (mut regions, mut faults) = (0, 0);
    for seed in 0..150u64 {
        let mut rng = graphs::Rng(seed);
        let only_compiles = rng.chance(30);
        let (cuda, executor) = devices(only_compiles);
        let nodes = 10 + rng.below(40);
        let has_effects = seed % 2 == 0;
        let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
        let (captured, states) = graphs::random(&executor, seed, nodes, has_effects);
        let expected = Program::new(&cpu, captured, &[]).unwrap();
        let (captured, own) = graphs::random(&executor, seed, nodes, has_effects);
        let options = ProgramOptions::default().expected_runs(1_000_000);
        let program = Program::with_options(&executor, captured, &[], options).unwrap();
        regions += program.region_reports().len();
        for _ in 0..1 + rng.below(3) {
            // A device that is lost takes along what only it has, which is not the region's fault: of graphs without effects nothing is.
            let count = if has_effects { 4 } else { 5 };
            let act = FAULTS[rng.below(count)].clone();
            cuda.script(Rule::at(Point::RunRegion).after(rng.below(6)).times(1 + rng.below(2)).act(act));
        }
        for run in 0..3 {
            let plan = program.plan().unwrap();
            assert_eq!(
                outputs(&executor, &program, run),
                outputs(&cpu, &expected, run),
                "seed {seed}\n{plan}"
            );
            for (own, state) in own.iter().zip(&states) {
                let (own, state) = (bytes(&executor, &own.operand()), bytes(&cpu, &state.operand()));
                assert_eq!(own, state, "seed {seed}, run {run}\n{plan}");
            }
        }
        faults += program.region_reports().iter().map(|report| report.faults).sum::<u64>();
    }
    assert!(regions > 150 && faults > 80, "{regions} regions, {faults} faults");
}

#[test]
fn a_run_that_has_written_a_state_does_not_begin_again() {
    for region in 0..2 {
        let (cuda, executor) = devices(false);
        let state = upload(&executor, &matrix(5), &[SIDE, SIDE]);
        let before = bytes(&executor, &state.operand());
        let spec = (DType::F32, shape(&[SIDE, SIDE]), Device::CPU);
        let (captured, ()) = executor
            .capture(&[spec], |x| {
                let first = product(&x[0], &x[0]);
                let relu = unary(&RELU, &first);
                HybridExecutor::current().run_into(&RELU, &[relu.operand()], &[state.operand()])?;
                Ok((vec![product(&unary(&RELU, &state), &first)], ()))
            })
            .unwrap();
        let program = Program::new(&executor, captured, &[]).unwrap();
        assert_eq!(program.plan().unwrap().regions.len(), 2, "{}", program.plan().unwrap());
        cuda.script(Rule::at(Point::RunRegion).after(region).times(1).act(Act::Lose));
        let x = upload(&executor, &matrix(0), &[SIDE, SIDE]);
        let result = program.run(&[x.operand()], || []);
        match region {
            // Nothing was written, and only the device is gone.
            0 => _ = result.unwrap(),
            _ => {
                // Of what was written, the error tells.
                let Err(Error::StatesWritten { states, error }) = result else {
                    panic!("{:?}", result.err())
                };
                assert_eq!(states, [0]);
                assert!(
                    matches!(&*error, Error::Fault(f) if matches!(**f, Fault::DeviceLost { .. })),
                    "{error}"
                );
            }
        }
        assert_ne!(bytes(&executor, &state.operand()), before);
        program.run(&[x.operand()], || []).unwrap();
    }
}

#[test]
fn threads_share_a_program_while_its_constants_are_written() {
    let (cuda, executor) = devices(false);
    let weight = upload(&executor, &matrix(3), &[SIDE, SIDE]);
    let program = Program::new(&executor, three_regions(&executor, &weight), &[]).unwrap();
    let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
    let expected = Program::new(&cpu, three_regions(&executor, &weight), &[]).unwrap();
    let result = outputs(&cpu, &expected, 0);
    // The same values, written anew.
    let write = || {
        let fresh = upload(&cpu, &matrix(3), &[SIDE, SIDE]);
        cpu.run_into(&Op::Copy(CopyOp), &[fresh.operand()], &[weight.operand()]).unwrap();
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..60).for_each(|_| assert_eq!(outputs(&executor, &program, 0), result)));
        }
        scope.spawn(|| (0..30).for_each(|_| write()));
    });
    write();
    (0..4).for_each(|_| assert_eq!(outputs(&executor, &program, 0), result));
    let reports = program.region_reports();
    // The region that reads the weight is compiled again.
    assert_eq!((reports[0].runs, reports[0].compiled, reports[2].runs), (184, 1, 184), "{reports:?}");
    assert!(reports[1].runs > 0 && reports[1].compiled > 1 && reports[1].faults == 0, "{reports:?}");
    assert_eq!(cuda.calls_at(Point::Compile) as u64, reports[1].compiled + 2);
}

//! Programs on a device that makes operations ready: the CPU's bits whatever happens, by dispatch where something else is asked for.

use crate::common::graphs::{SIDE, matrix, outputs, random_on, run_program};
use crate::common::{CUDA, OPENCL, builder, bytes, fake, shape, upload_to};
use rustorch_core::{Device, Layout, UnaryOp};
use rustorch_runtime::{HybridExecutor, Operand, Output, Placement, Program};
use rustorch_testkit::{Act, FakeDevice, Point, Rule};
use std::sync::Arc;

const NODES: usize = 25;

fn devices() -> (Arc<FakeDevice>, HybridExecutor) {
    let cuda = Arc::new(fake(CUDA).preparing());
    let executor = builder(&[&cuda, &Arc::new(fake(OPENCL))]).placement(Placement::Resident).build().unwrap();
    (cuda, executor)
}

/// What three runs return and leave in the states.
fn three_runs(executor: &HybridExecutor, seed: u64, home: Device) -> Vec<Vec<u8>> {
    let (made, states) = random_on(executor, seed, NODES, true, home);
    let program = Program::new(executor, made, &[]).unwrap();
    let mut seen: Vec<Vec<u8>> = (0..3).flat_map(|i| outputs(executor, &program, i)).collect();
    seen.extend(states.iter().map(|state| bytes(executor, &state.operand())));
    seen
}

#[test]
fn prepared_operations_give_the_bits_of_the_cpu() {
    let (cuda, executor) = devices();
    let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
    for seed in 0..150 {
        assert_eq!(three_runs(&executor, seed, CUDA), three_runs(&cpu, seed, Device::CPU), "seed {seed}");
    }
    // Transfers, what is drawn, and what others hold are dispatched.
    assert!(cuda.prepared_runs() > 150 * NODES, "{}", cuda.prepared_runs());
}

#[test]
fn a_fault_of_a_prepared_operation_falls_back() {
    for act in [Act::Fail, Act::Doubt, Act::TimeOut, Act::RunOut] {
        for seed in 0..40 {
            let (cuda, executor) = devices();
            let (made, states) = random_on(&executor, seed, NODES, false, CUDA);
            let program = Program::new(&executor, made, &[]).unwrap();
            let expected = outputs(&executor, &program, 0);
            let prepared = cuda.prepared_runs();
            for after in [0, seed as usize % 7] {
                cuda.script(Rule::at(Point::Run).after(after).times(1).act(act.clone()));
                assert_eq!(outputs(&executor, &program, 0), expected, "seed {seed}, {act:?}");
                executor.health().lift_quarantine(CUDA);
                // And again as prepared.
                assert_eq!(outputs(&executor, &program, 0), expected, "seed {seed}, {act:?}");
            }
            assert!(cuda.prepared_runs() > prepared, "seed {seed}");
            drop(states);
        }
    }
}

/// A program of two operations on the device, of which the first is a temporary.
fn chain(executor: &HybridExecutor) -> Program {
    let spec = (rustorch_core::DType::F32, shape(&[SIDE, SIDE]), CUDA);
    let (captured, ()) = executor
        .capture(&[spec], |inputs| {
            let x = &inputs[0];
            let y = crate::common::graphs::run(&rustorch_core::Op::Unary(UnaryOp::Tanh), &[(x, &x.layout)]);
            let z = crate::common::graphs::run(&rustorch_core::Op::Unary(UnaryOp::Neg), &[(&y, &y.layout)]);
            Ok((vec![z], ()))
        })
        .unwrap();
    Program::new(executor, captured, &[]).unwrap()
}

#[test]
fn what_is_watched_or_placed_otherwise_is_dispatched() {
    let (cuda, executor) = devices();
    let program = chain(&executor);
    assert!((0..2).all(|node| program.is_prepared(node)));
    let x = upload_to(&executor, &matrix(1), &[SIDE, SIDE], CUDA);
    let run = || bytes(&executor, &program.run(&[x.operand()], || []).unwrap()[0].operand());
    let expected = run();
    assert_eq!(cuda.prepared_runs(), 2);
    assert_eq!(executor.counts(CUDA).unwrap().ran, 2);
    let (explained, explanation) = executor.explain(run);
    assert_eq!(explained, expected);
    assert_eq!(explanation.records().iter().filter(|record| record.device == Some(CUDA)).count(), 2);
    assert_eq!(cuda.prepared_runs(), 2);
    assert_eq!(run(), expected);
    assert_eq!(cuda.prepared_runs(), 4);
    // By a policy that may decide otherwise, nothing is made ready.
    let auto = executor.with_policy(Placement::Auto).unwrap();
    assert!(!(0..2).any(|node| chain(&auto).is_prepared(node)));
}

#[test]
fn an_input_within_its_storage_is_dispatched_where_it_is_read() {
    let (cuda, executor) = devices();
    let program = chain(&executor);
    let twice: Vec<f32> = [matrix(3), matrix(4)].concat();
    let both = upload_to(&executor, &twice, &[2 * SIDE, SIDE], CUDA);
    let alone = upload_to(&executor, &matrix(4), &[SIDE, SIDE], CUDA);
    let second: Layout = both.layout.slice(0, SIDE, SIDE, 1).unwrap();
    let second = Operand { layout: &second, ..both.operand() };
    let result = |input: Operand<'_>| {
        let made: Output = program.run(&[input], || []).unwrap().remove(0);
        bytes(&executor, &made.operand())
    };
    let expected = result(alone.operand());
    let before = cuda.prepared_runs();
    assert_eq!(result(second), expected);
    assert_eq!(cuda.prepared_runs(), before + 1);
}

#[test]
fn threads_run_a_program_at_once() {
    let (_, executor) = devices();
    let (made, _states) = random_on(&executor, 7, NODES, false, CUDA);
    let program = Program::new(&executor, made, &[]).unwrap();
    let expected: Vec<Vec<Vec<u8>>> = (0..4).map(|seed| outputs(&executor, &program, seed)).collect();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (executor, program, expected) = (&executor, &program, &expected);
            scope.spawn(move || {
                for _ in 0..50 {
                    let made = run_program(executor, program, seed);
                    let made: Vec<Vec<u8>> =
                        made.iter().map(|output| bytes(executor, &output.operand())).collect();
                    assert_eq!(made, expected[seed]);
                }
            });
        }
    });
}

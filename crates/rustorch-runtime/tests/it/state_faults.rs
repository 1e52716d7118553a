//! What the states of a program are after a run in which a device failed: as after the run, as before it, or what the error says.

use crate::common::graphs::{Rng, SIDE, matrix, outputs, random, run};
use crate::common::regions::{captured, cpu_cost, matmul, product, unary};
use crate::common::{CUDA, OPENCL, builder, bytes, fake, upload};
use rustorch_core::{Backend, Device, Error, Fault, Op, UnaryOp};
use rustorch_runtime::{HybridExecutor, OnFault, Operand, Output, Placement, Program, ProgramOptions};
use rustorch_testkit::{Act, FakeCompiler, FakeDevice, Point, Rule};
use std::sync::Arc;

const FAULTS: [Act; 5] = [Act::Fail, Act::Doubt, Act::TimeOut, Act::RunOut, Act::Lose];
const POINTS: [Point; 5] = [Point::Run, Point::RunRegion, Point::CopyIn, Point::CopyOut, Point::Alloc];

/// How often a run with a fault ended in which way.
#[derive(Debug, Default)]
struct Ends {
    well: usize,
    /// An error that leaves the states as they were.
    before: usize,
    /// One that says which are not.
    written: usize,
}

/// Runs a program on a device that fails so, and checks its states against what is said of them.
fn check(seed: u64, on_fault: OnFault, rule: Rule, ends: &mut Ends) {
    let case = format!("seed {seed}, {on_fault:?}, {rule:?}");
    let accepts = |op: &Op| !matches!(op, Op::Unary(UnaryOp::Relu));
    // What writes states is part of regions in half of the cases.
    let compiler = FakeCompiler::new().accepts_ops(accepts).takes_states(seed % 2 == 1);
    let cuda = Arc::new(fake(CUDA).with_compiler(compiler));
    let executor = builder(&[&cuda, &Arc::new(fake(OPENCL))]).cost(Device::CPU, cpu_cost(1000.0));
    let executor = executor.placement(Placement::FirstSupported).build().unwrap().with_on_fault(on_fault);
    let options = ProgramOptions::default().expected_runs(1_000_000);
    let (made, own) = random(&executor, seed, 25, true);
    let program = Program::with_options(&executor, made, &[], options).unwrap();
    let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
    let (made, known) = random(&executor, seed, 25, true);
    let expected = Program::new(&cpu, made, &[]).unwrap();

    let memory = |states: &[Output]| -> Vec<Vec<u8>> {
        states.iter().map(|state| bytes(&cpu, &state.operand())).collect()
    };
    let before = memory(&own);
    outputs(&cpu, &expected, 0);
    let after = memory(&known);
    cuda.script(rule);
    let inputs: Vec<Output> = (0..2).map(|i| upload(&cpu, &matrix(10 + i), &[SIDE, SIDE])).collect();
    let operands: Vec<Operand<'_>> = inputs.iter().map(Output::operand).collect();
    let keys = (0..program.graph().draws.len())
        .map(|i| rustorch_core::PhiloxKey { seed: 99, offset: i as u64 * 64 })
        .collect::<Vec<_>>();
    let result = program.run(&operands, || keys);
    // Those of the graph are some of the tensors, by their memory.
    let found = memory(&own);
    match result {
        Ok(_) => {
            ends.well += 1;
            assert_eq!(found, after, "{case}");
        }
        Err(Error::StatesWritten { states, error }) => {
            ends.written += 1;
            assert!(
                !states.is_empty() && matches!(*error, Error::Fault(_) | Error::Dispatch(_)),
                "{case}: {error}"
            );
            let named: Vec<_> = states.iter().map(|state| program.states()[*state].clone()).collect();
            for (i, own) in own.iter().enumerate() {
                if !named.iter().any(|named| named.same(&own.storage)) {
                    assert_eq!(found[i], before[i], "state {i} is not named, {case}");
                }
            }
        }
        Err(_) => {
            ends.before += 1;
            assert_eq!(found, before, "{case}");
        }
    }
}

#[test]
fn states_are_as_after_a_run_or_as_before_it_or_the_error_names_them() {
    for on_fault in [OnFault::FallBack, OnFault::Error] {
        let mut ends = Ends::default();
        for seed in 0..120 {
            let mut rng = Rng(seed);
            for act in &FAULTS {
                let rule = Rule::at(POINTS[rng.below(POINTS.len())]).after(rng.below(8)).act(act.clone());
                let rule = if rng.chance(50) { rule.times(1 + rng.below(3)) } else { rule };
                check(seed, on_fault, rule, &mut ends);
            }
        }
        println!("{on_fault:?}: {ends:?}");
        assert!(ends.well > 50 && ends.written > 5 && ends.before > 5, "{on_fault:?}: {ends:?}");
    }
}

/// A program on the CPU alone that computes, writes to a state, computes, and writes to another one.
fn two_states() -> (Arc<FakeDevice>, HybridExecutor, Program, Vec<Output>) {
    let cpu = Arc::new(FakeDevice::new(Device::CPU, crate::common::cpu()));
    let executor = HybridExecutor::builder().backend(Arc::clone(&cpu) as Arc<dyn Backend>);
    let executor = executor.placement(Placement::CpuOnly).build().unwrap();
    let states: Vec<Output> = (5..7).map(|i| upload(&executor, &matrix(i), &[SIDE, SIDE])).collect();
    let made = captured(&executor, &[SIDE, SIDE], |x| {
        let recorder = HybridExecutor::current();
        let mut y = x.clone();
        for state in &states {
            y = product(&y, x);
            recorder.run_into(&matmul(), &[y.operand(), x.operand()], &[state.operand()]).unwrap();
        }
        vec![unary(UnaryOp::Tanh, &run(&matmul(), &[(&y, &y.layout), (&states[0], &states[0].layout)]))]
    });
    let program = Program::new(&executor, made, &[]).unwrap();
    assert!(program.arena_bytes().is_some());
    (cpu, executor, program, states)
}

#[test]
fn a_fault_of_the_cpu_behind_a_write_names_what_was_written() {
    // Products and writes by turns: the second operation is the first that writes.
    for (failing, named) in [(0, &[][..]), (1, &[0]), (2, &[0]), (3, &[0, 1]), (4, &[0, 1])] {
        let (cpu, executor, program, states) = two_states();
        let versions = |states: &[Output]| states.iter().map(|s| s.storage.version()).collect::<Vec<_>>();
        let before: Vec<Vec<u8>> = states.iter().map(|s| bytes(&executor, &s.operand())).collect();
        let first = versions(&states);
        cpu.script(Rule::at(Point::Run).op("matmul").after(failing).times(1).act(Act::RunOut));
        let x = upload(&executor, &matrix(0), &[SIDE, SIDE]);
        let error = program.run(&[x.operand()], || []).unwrap_err();
        let is_out_of_memory = |error: &Error| matches!(error, Error::Fault(fault) if matches!(**fault, Fault::OutOfMemory { .. }));
        let is_as_before = |i: usize| bytes(&executor, &states[i].operand()) == before[i];
        match &error {
            Error::StatesWritten { states, error } => {
                assert_eq!(states, named);
                assert!(is_out_of_memory(error), "{error}");
            }
            error => assert!(named.is_empty() && is_out_of_memory(error), "{error}"),
        }
        assert!((0..2).all(|i| named.contains(&i) || is_as_before(i)), "{failing}: {error}");
        if named.is_empty() {
            assert_eq!(versions(&states), first, "who saved them need not think that they were written");
        } else {
            let text = error.to_string();
            let states =
                if named.len() == 1 { "state 0 of the program" } else { "states 0, 1 of the program" };
            assert!(text.contains(states) && text.contains("before the next use"), "{text}");
        }
        // The next run is whole.
        program.run(&[x.operand()], || []).unwrap();
    }
}

#[test]
fn a_lost_device_before_the_first_write_changes_nothing_and_the_run_begins_again() {
    let accepts = |op: &Op| !matches!(op, Op::Unary(UnaryOp::Relu));
    let cuda = Arc::new(fake(CUDA).with_compiler(FakeCompiler::new().accepts_ops(accepts)));
    let executor = builder(&[&cuda]).cost(Device::CPU, cpu_cost(1000.0));
    let executor = executor.placement(Placement::FirstSupported).build().unwrap();
    let state = upload(&executor, &matrix(5), &[SIDE, SIDE]);
    let made = captured(&executor, &[SIDE, SIDE], |x| {
        let first = product(x, x);
        let recorder = HybridExecutor::current();
        let relu = Op::Unary(UnaryOp::Relu);
        recorder.run_into(&relu, &[first.operand()], &[state.operand()]).unwrap();
        vec![unary(UnaryOp::Relu, &state)]
    });
    let program = Program::new(&executor, made, &[]).unwrap();
    assert_eq!(program.plan().unwrap().regions.len(), 1, "{}", program.plan().unwrap());
    // Gone when the result of the region is wanted for the state: that was not written.
    cuda.script(Rule::at(Point::CopyOut).times(1).act(Act::Lose));
    let x = upload(&executor, &matrix(0), &[SIDE, SIDE]);
    program.run(&[x.operand()], || []).unwrap();
    let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
    let squared = bytes(&cpu, &state.operand());
    let x = upload(&cpu, &matrix(0), &[SIDE, SIDE]);
    let square = cpu.run(&matmul(), &[x.operand(), x.operand()]).unwrap();
    let relu = cpu.run(&Op::Unary(UnaryOp::Relu), &[square[0].operand()]).unwrap();
    assert_eq!(squared, bytes(&cpu, &relu[0].operand()));
}

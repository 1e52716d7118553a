//! Programs with states as regions: a region is given what a state holds, and what it returns is written to the state once it is done.

use crate::cases;
use crate::device::{Machine, reports};
use crate::fake::{Known, Script};
use rustorch_core::{Decline, Device};
use rustorch_runtime::{HybridExecutor, RegionReport};
use rustorch_tensor::{DType, Program, Result, Tensor, TensorSpec, capture};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What the state holds behind a run, and what that returns.
fn network(sum: &Tensor) -> Result<Tensor> {
    let (first, second) = (cases::values(&[16, 32], 1), cases::values(&[32, 8], 2));
    sum.matmul(&first)?.tanh()?.matmul(&second)?.softmax(-1)
}

/// The region of the program below, as the fake runtime knows it: the state is an input, as it lies in memory, and an output.
pub(crate) fn region() -> Option<Known> {
    let function = |x: &[Tensor]| {
        let sum = x[0].reshape([4, 16])?.add(&x[1])?;
        Ok(vec![sum.clone(), network(&sum)?])
    };
    Some(Known { inputs: vec![cases::values(&[64], 5), cases::values(&[4, 16], 6)], function })
}

/// A network of a sum that grows with each run, and its state.
fn growing() -> (Program, Tensor) {
    let state = Tensor::zeros([4, 16], DType::F32).unwrap();
    let program = capture(&[TensorSpec::new([4, 16], DType::F32).unwrap()], |x| {
        state.add_(&x[0])?;
        Ok(vec![network(&state)?])
    });
    (program.unwrap(), state)
}

/// Runs it until its region is admitted or refused and a few times more, each time compared with the CPU.
fn follow(machine: &Machine) -> RegionReport {
    let cpu = HybridExecutor::builder().threads(1).build().unwrap();
    let (expected, expected_state) = cpu.scope(growing);
    let (program, state) = machine.executor.scope(growing);
    let (started, mut left) = (Instant::now(), 4);
    for seed in 0.. {
        let input = cases::values(&[4, 16], seed % 7);
        let want = cpu.scope(|| expected.run(&[&input])).unwrap();
        let got = machine.executor.scope(|| program.run(&[&input])).unwrap();
        assert_eq!(got[0].to_vec::<f32>().unwrap(), want[0].to_vec::<f32>().unwrap(), "run {seed}");
        assert_eq!(state.to_vec::<f32>().unwrap(), expected_state.to_vec::<f32>().unwrap(), "run {seed}");
        let reports = machine.executor.scope(|| reports(&program));
        let [report] = &reports[..] else { panic!("{}", program.explain().unwrap()) };
        match &report.declined {
            Some(Decline::Compiling) if !report.quarantined => sleep(Duration::from_millis(20)),
            _ if left == 0 => return report.clone(),
            _ => left -= 1,
        }
        assert!(started.elapsed() < Duration::from_secs(100), "{report:?}");
    }
    unreachable!()
}

#[test]
fn a_state_holds_what_its_region_made_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(folder.path(), Script::Right);
    let report = follow(&machine);
    assert!(report.runs >= 4 && report.faults == 0, "{report:?}");
    let (program, _) = machine.executor.scope(growing);
    machine.executor.scope(|| {
        let explained = program.explain().unwrap();
        // All of it, what writes the state included.
        assert_eq!(explained.regions[0].plan.nodes.len(), program.graph().nodes.len(), "{explained}");
        assert_eq!(explained.regions[0].plan.device, Device::COREML);
    });
}

#[test]
fn states_are_as_they_were_when_a_region_fails() {
    let folder = tempfile::tempdir().unwrap();
    let report = follow(&Machine::new(folder.path(), Script::FailLater));
    assert_eq!((report.runs, report.faults, report.quarantined), (0, 1, true), "{report:?}");
}

#[test]
fn programs_with_states_are_refused_as_others_are() {
    for (script, reason) in [
        (Script::Wrong, "output_0 differs from the CPU's by"),
        (Script::Abort, "the child process was ended by signal 6 while compiling"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let report = follow(&Machine::new(folder.path(), script));
        assert_eq!((report.runs, report.faults), (0, 0), "{report:?}");
        let declined = report.declined.unwrap().to_string();
        assert!(declined.contains(reason), "{declined}");
    }
}

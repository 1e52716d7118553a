//! Regions that update states by ranges: what they return, what programs keep, and what others read and write between runs.

use crate::common::graphs::{Rng, SIDE, matrix};
use crate::common::regions::{cpu_cost, matmul};
use crate::common::{CUDA, OPENCL, builder, bytes, fake, shape, upload};
use rustorch_core::{DType, Device, Error, Layout, Op, PhiloxKey, SliceUpdate, UnaryOp};
use rustorch_runtime::{
    Captured, HybridExecutor, OnFault, Operand, Output, Placement, Program, ProgramOptions,
};
use rustorch_testkit::{Act, FakeCompiler, FakeDevice, Point, Rule};
use std::sync::Arc;

/// Matrices that a function writes rows of, at a row that it is given, one of them in two steps; and what it computes of them.
fn captured(executor: &HybridExecutor) -> (Captured, Vec<Output>) {
    let states: Vec<Output> = (5..8).map(|i| upload(executor, &matrix(i), &[SIDE, SIDE])).collect();
    let specs = [(DType::F32, shape(&[SIDE, SIDE]), Device::CPU), (DType::I64, shape(&[]), Device::CPU)];
    let made = executor.capture(&specs, |inputs| {
        let recorder = HybridExecutor::current();
        let run = |op: &Op, args: &[Operand<'_>]| recorder.run(op, args).unwrap().remove(0);
        let (x, row) = (&inputs[0], inputs[1].operand());
        let update = |state: &Output, rows: &Output, from: usize| {
            let layout = Layout::new(shape(&[1, SIDE]), [SIDE, 1].as_slice(), from * SIDE).unwrap();
            let rows = Operand { layout: &layout, ..rows.operand() };
            let op = Op::SliceUpdate(SliceUpdate { axis: 0 });
            recorder.run_into(&op, &[state.operand(), rows, row], &[state.operand()]).unwrap();
        };
        let mut y = run(&matmul(), &[x.operand(), states[0].operand()]);
        update(&states[0], &y, 1);
        y = run(&matmul(), &[y.operand(), states[0].operand()]);
        update(&states[0], &y, 2);
        // What the function is given, and a row of another state.
        update(&states[1], x, 0);
        update(&states[2], &states[1], 3);
        let seen = run(&matmul(), &[states[1].operand(), states[2].operand()]);
        y = run(&matmul(), &[y.operand(), seen.operand()]);
        Ok((vec![run(&Op::Unary(UnaryOp::Tanh), &[y.operand()])], ()))
    });
    (made.unwrap().0, states)
}

/// A program by a device that compiles, and the same on the CPU.
struct Pair {
    cuda: Arc<FakeDevice>,
    cpu: HybridExecutor,
    program: Program,
    own: Vec<Output>,
    expected: Program,
    known: Vec<Output>,
}

impl Pair {
    fn new(keeps: bool, on_fault: OnFault) -> Pair {
        let accepts = |op: &Op| !matches!(op, Op::Unary(UnaryOp::Tanh));
        let compiler = FakeCompiler::new().accepts_ops(accepts).takes_states(true).keeps_inputs(keeps);
        let cuda = Arc::new(fake(CUDA).with_compiler(compiler));
        let executor = builder(&[&cuda, &Arc::new(fake(OPENCL))]).cost(Device::CPU, cpu_cost(1000.0));
        let executor = executor.placement(Placement::FirstSupported).build().unwrap().with_on_fault(on_fault);
        let options = ProgramOptions::default().expected_runs(1_000_000);
        let (made, own) = captured(&executor);
        let program = Program::with_options(&executor, made, &[], options).unwrap();
        let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
        let (made, known) = captured(&executor);
        let expected = Program::new(&cpu, made, &[]).unwrap();
        Pair { cuda, cpu, program, own, expected, known }
    }

    /// The results, unless the device was lost with them.
    fn run(&self, program: &Program, step: usize) -> Result<Option<Vec<u8>>, Error> {
        let input = upload(&self.cpu, &matrix(step + 20), &[SIDE, SIDE]);
        let row = upload(&self.cpu, &[(step % SIDE) as i64], &[]);
        let made = program.run(&[input.operand(), row.operand()], || [] as [PhiloxKey; 0])?;
        let mut results = vec![0; 4 * SIDE * SIDE];
        // Faults of the script pass.
        let mut downloads = (0..8).map(|_| self.cpu.download(&made[0].operand(), &mut results));
        let is_there = downloads.any(|result| result.is_ok());
        Ok(is_there.then_some(results))
    }

    fn memory(&self, states: &[Output]) -> Vec<Vec<u8>> {
        states.iter().map(|state| bytes(&self.cpu, &state.operand())).collect()
    }

    /// Writes to a state of both.
    fn write(&self, state: usize) {
        for states in [&self.own, &self.known] {
            let state = states[state].operand();
            self.cpu.run_into(&Op::Unary(UnaryOp::Cos), &[state], &[state]).unwrap();
        }
    }
}

#[test]
fn a_region_returns_the_rows_that_it_writes() {
    let pair = Pair::new(true, OnFault::FallBack);
    let plan = pair.program.plan().unwrap();
    assert_eq!(plan.regions.len(), 1, "{plan}");
    assert_eq!(plan.regions[0].nodes.len(), pair.program.graph().nodes.len() - 1, "{plan}");
    let copied_in = |step: usize| {
        let before = pair.cuda.calls_at(Point::CopyIn);
        let results = pair.run(&pair.program, step).unwrap();
        let copied = pair.cuda.calls_at(Point::CopyIn) - before;
        assert_eq!(results, pair.run(&pair.expected, step).unwrap(), "step {step}");
        assert_eq!(pair.memory(&pair.own), pair.memory(&pair.known), "step {step}");
        copied
    };
    // The inputs and three states; the input and the row alone; and one that was written.
    assert_eq!((copied_in(0), copied_in(1), copied_in(2)), (5, 3, 3), "{plan}");
    pair.write(0);
    assert_eq!((copied_in(3), copied_in(4)), (4, 3));
    pair.write(1);
    pair.write(2);
    assert_eq!((copied_in(5), copied_in(6)), (4, 3));
    let report = pair.program.region_reports().remove(0);
    assert_eq!((report.runs, report.faults), (7, 0));
}

#[test]
fn states_are_right_whatever_fails_and_whoever_writes() {
    const FAULTS: [Act; 5] = [Act::Fail, Act::Doubt, Act::TimeOut, Act::RunOut, Act::Lose];
    const POINTS: [Point; 5] = [Point::Run, Point::RunRegion, Point::CopyIn, Point::CopyOut, Point::Alloc];
    let (mut whole, mut failed) = (0, 0);
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let on_fault = if rng.chance(50) { OnFault::FallBack } else { OnFault::Error };
        let pair = Pair::new(rng.chance(80), on_fault);
        for step in 0..8 {
            if rng.chance(30) {
                pair.write(rng.below(3));
            }
            if rng.chance(30) {
                let act = FAULTS[rng.below(FAULTS.len())].clone();
                let point = POINTS[rng.below(POINTS.len())];
                pair.cuda.script(Rule::at(point).after(rng.below(6)).act(act).times(1 + rng.below(2)));
            }
            let before = pair.memory(&pair.own);
            match pair.run(&pair.program, step) {
                Ok(results) => {
                    let expected = pair.run(&pair.expected, step).unwrap();
                    assert!(results.is_none() || results == expected, "seed {seed}, step {step}");
                    assert_eq!(pair.memory(&pair.own), pair.memory(&pair.known), "seed {seed}, step {step}");
                }
                Err(error) => {
                    failed += 1;
                    if !matches!(error, Error::StatesWritten { .. }) {
                        assert_eq!(pair.memory(&pair.own), before, "seed {seed}, step {step}: {error}");
                    }
                    // From here on both begin with the same again, which the region has to see.
                    for (own, known) in pair.own.iter().zip(&pair.known) {
                        let copy = Op::Copy(rustorch_core::CopyOp);
                        pair.cpu.run_into(&copy, &[known.operand()], &[own.operand()]).unwrap();
                    }
                }
            }
        }
        whole += pair.program.region_reports().iter().map(|report| report.runs).sum::<u64>();
    }
    assert!(whole > 600 && failed > 20, "{whole} {failed}");
}

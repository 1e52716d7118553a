//! A cache that a region updates in place stays in a state of its program: a step moves the new rows alone.

use crate::cases;
use crate::device::{Machine, reports};
use crate::fake::Script;
use rustorch_core::{Attention, CachedAttention, DType, Decline, Device, Op};
use rustorch_runtime::{HybridExecutor, RegionReport};
use rustorch_tensor::autograd::apply;
use rustorch_tensor::{Program, Tensor, TensorSpec, capture};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How many rows the caches of the programs have.
pub(crate) const CONTEXTS: [usize; 2] = [12, 48];

fn specs() -> [TensorSpec; 4] {
    let [q, k, v] = [[2, 1, 4], [1, 1, 4], [1, 1, 6]].map(|dims| TensorSpec::new(dims, DType::F32).unwrap());
    [q, k, v, TensorSpec::new([1], DType::I64).unwrap()]
}

fn caches(context: usize) -> [Tensor; 2] {
    [4, 6].map(|width| Tensor::zeros([1, context, width], DType::F16).unwrap())
}

/// Writes rows to caches, and attends to these: the rows, and what comes of it.
fn step([keys, values]: &[Tensor; 2], [q, k, v, row]: [&Tensor; 4]) -> rustorch_tensor::Result<[Tensor; 3]> {
    let row = row.select(0, 0)?;
    let k = k.to_dtype(DType::F16)?;
    keys.slice_update_(1, &k, &row)?;
    let v = v.to_dtype(DType::F16)?;
    values.slice_update_(1, &v, &row)?;
    let op = Op::CachedAttention(CachedAttention { attention: Attention::new(0.5) });
    let made = apply(&op, &[q, keys, values, &row])?.into_vec().remove(0);
    Ok([k, v, made])
}

/// Attention of two heads over a cache, which a run writes in place at a position that is data.
pub(crate) fn attention(context: usize) -> Program {
    let caches = caches(context);
    let [q, k, v, row] = specs();
    let program = capture(&[q, k, v, row], |x| {
        let [_, _, made] = step(&caches, [&x[0], &x[1], &x[2], &x[3]])?;
        Ok(vec![made])
    });
    program.unwrap()
}

/// Its region, as the fake runtime knows it: inputs in the order in which they are read, and the rows among the outputs.
pub(crate) fn region(context: usize) -> Program {
    let caches = caches(context);
    let [q, k, v, row] = specs();
    let program =
        capture(&[k, row, v, q], |x| Ok(step(&caches, [&x[3], &x[0], &x[2], &x[1]])?.into_iter().collect()));
    program.unwrap()
}

/// A program by a machine, and the same by the CPU.
struct Pair<'a> {
    machine: &'a Machine,
    program: Program,
    cpu: HybridExecutor,
    expected: Program,
    steps: u32,
}

impl Pair<'_> {
    fn new(machine: &Machine, context: usize) -> Pair<'_> {
        let cpu = HybridExecutor::builder().threads(1).build().unwrap();
        let (program, expected) =
            (machine.executor.scope(|| attention(context)), cpu.scope(|| attention(context)));
        Pair { machine, program, cpu, expected, steps: 0 }
    }

    /// Runs both, which return the same: what became of the region.
    fn step(&mut self) -> RegionReport {
        let step = self.steps;
        self.steps += 1;
        // Once the cache is full, the last row is written again and again.
        let row = Tensor::new([i64::from(step)]).unwrap();
        let tensor = |dims: &[usize], seed| cases::values(dims, 3 * (step % 50) + seed);
        let inputs = [tensor(&[2, 1, 4], 1), tensor(&[1, 1, 4], 2), tensor(&[1, 1, 6], 3), row];
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let want = self.cpu.scope(|| self.expected.run(&inputs)).unwrap();
        let got = self.machine.executor.scope(|| self.program.run(&inputs)).unwrap();
        assert_eq!(got[0].to_vec::<f32>().unwrap(), want[0].to_vec::<f32>().unwrap(), "step {step}");
        self.machine.executor.scope(|| reports(&self.program)).remove(0)
    }

    /// Runs both until the region is admitted or refused.
    fn settle(&mut self) -> RegionReport {
        let started = Instant::now();
        loop {
            let report = self.step();
            if !matches!(report.declined, Some(Decline::Compiling)) {
                return report;
            }
            assert!(started.elapsed() < Duration::from_secs(100), "{report:?}");
            sleep(Duration::from_millis(20));
        }
    }

    /// What another step moves: bytes, and whole states.
    fn moved(&mut self) -> (usize, usize) {
        let moved = &self.machine.fake.moved;
        let now = || (moved.bytes.load(Ordering::Relaxed), moved.states.load(Ordering::Relaxed));
        let before = now();
        let report = self.step();
        assert!(report.declined.is_none() && report.faults == 0, "{report:?}");
        (now().0 - before.0, now().1 - before.1)
    }

    /// What the caches hold is what they hold by the CPU.
    fn check_caches(&self) {
        for (got, want) in self.program.states().iter().zip(self.expected.states()) {
            assert_eq!(got.to_bytes().unwrap(), want.to_bytes().unwrap(), "step {}", self.steps);
        }
    }

    /// Somebody else writes to the keys, of both.
    fn scale_keys(&self) {
        let own = self.machine.executor.scope(|| self.program.states()[0].mul_(2.0));
        own.and_then(|()| self.cpu.scope(|| self.expected.states()[0].mul_(2.0))).unwrap();
    }
}

#[test]
fn a_step_moves_rows_and_not_the_cache() {
    let moved = CONTEXTS.map(|context| {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::new(folder.path(), Script::Right);
        let mut pair = Pair::new(&machine, context);
        let report = pair.settle();
        assert_eq!((report.runs, report.faults), (1, 0), "{report:?}");
        let plan = machine.executor.scope(|| pair.program.explain()).unwrap().regions.remove(0).plan;
        assert_eq!((plan.device, plan.nodes.len()), (Device::COREML, pair.program.graph().nodes.len()));
        let steps: Vec<_> = (0..6).map(|_| pair.moved()).collect();
        pair.check_caches();
        assert!(steps.iter().all(|step| *step == steps[0]), "{steps:?}");
        steps[0]
    });
    // Three rows in f32 and a position; what comes of it, and two rows in f16.
    let [q, k, v] = [4 * 8, 4 * 4, 4 * 6];
    assert_eq!(moved, [(q + k + v + 4 + 4 * 12 + 2 * (4 + 6), 0); 2]);
}

#[test]
fn what_others_read_and_write_is_what_the_region_writes_and_reads() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(folder.path(), Script::Right);
    let mut pair = Pair::new(&machine, CONTEXTS[1]);
    let report = pair.settle();
    assert_eq!((report.runs, report.faults), (1, 0), "{report:?}");
    let (rows, whole) = pair.moved();
    assert_eq!(whole, 0);
    for _ in 0..3 {
        pair.check_caches();
        pair.scale_keys();
        // The keys are given once more, and the values are not.
        assert_eq!(pair.moved(), (rows + 2 * 4 * CONTEXTS[1], 1));
        assert_eq!(pair.moved(), (rows, 0));
    }
    pair.check_caches();
    // In the middle of a step nobody knows what Core ML's states hold; the caches do.
    machine.fake.moved.fails.store(true, Ordering::Relaxed);
    let report = pair.step();
    assert_eq!((report.faults, report.quarantined), (1, true), "{report:?}");
    pair.check_caches();
    pair.step();
    pair.check_caches();
}

#[test]
fn runs_of_two_threads_are_one_after_the_other_in_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(folder.path(), Script::Right);
    let mut pair = Pair::new(&machine, CONTEXTS[1]);
    let report = pair.settle();
    assert_eq!((report.runs, report.faults), (1, 0), "{report:?}");
    // Each thread writes rows of its own, whose order does not matter.
    let inputs = |row: u32| {
        let tensor = |dims: &[usize], seed| cases::values(dims, row + seed);
        let row = Tensor::new([i64::from(row)]).unwrap();
        [tensor(&[2, 1, 4], 1), tensor(&[1, 1, 4], 2), tensor(&[1, 1, 6], 3), row]
    };
    let (program, executor) = (&pair.program, &machine.executor);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                for row in (thread..CONTEXTS[1] as u32 - 1).step_by(2) {
                    executor.scope(|| program.run(&inputs(row).iter().collect::<Vec<_>>())).unwrap();
                }
            });
        }
    });
    for row in 0..CONTEXTS[1] as u32 - 1 {
        pair.cpu.scope(|| pair.expected.run(&inputs(row).iter().collect::<Vec<_>>())).unwrap();
    }
    pair.check_caches();
    // Which the region's own memory holds as well.
    pair.steps = CONTEXTS[1] as u32 - 1;
    assert!(pair.step().faults == 0);
    pair.check_caches();
}

#[test]
fn programs_that_leave_something_else_in_their_states_are_refused() {
    for (script, reason) in [
        (Script::WrongState, "state_0 differs from the CPU's by"),
        (Script::Wrong, "differs from the CPU's by"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::new(folder.path(), script);
        let mut pair = Pair::new(&machine, CONTEXTS[0]);
        let report = pair.settle();
        let declined = report.declined.as_ref().map(ToString::to_string);
        let says = declined.is_some_and(|declined| declined.contains(reason));
        assert!(report.runs == 0 && says, "{script:?} {report:?}");
        pair.check_caches();
    }
}

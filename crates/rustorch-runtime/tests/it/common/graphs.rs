//! Graphs for tests of partitions: random ones, and tools to look at programs.

use super::{bytes, shape, upload_to};
use rustorch_core::{
    BinaryOp, Concat, DType, Device, Dropout, Graph, Layout, MatMul, Node, Op, PhiloxKey, Softmax, Source,
    UnaryOp,
};
use rustorch_runtime::{Captured, HybridExecutor, Operand, Output, OutputVec, PartitionPlan, Program};
use std::collections::BTreeSet;

/// Splitmix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// The side of the square matrices that random graphs compute with.
pub const SIDE: usize = 6;

/// The numbers of a matrix.
pub fn matrix(seed: usize) -> Vec<f32> {
    (0..SIDE * SIDE).map(|i| ((i * 7 + seed * 13) % 23) as f32 * 0.07 - 0.8).collect()
}

/// A view of all elements of a matrix, transposed or not.
fn view(rng: &mut Rng, x: &Output) -> Layout {
    match rng.chance(25) {
        true => x.layout.transpose(0, 1).unwrap(),
        false => x.layout.clone(),
    }
}

pub fn run(op: &Op, args: &[(&Output, &Layout)]) -> Output {
    let args: Vec<Operand<'_>> =
        args.iter().map(|(x, layout)| Operand { storage: &x.storage, dtype: x.dtype, layout }).collect();
    HybridExecutor::current().run(op, &args).unwrap().remove(0)
}

/// A random graph of two inputs, with weights, and what writes in place, draws random numbers and goes to devices. The same seed gives the
/// same graph. Returns its states' memory, too.
pub fn random(
    executor: &HybridExecutor,
    seed: u64,
    nodes: usize,
    has_effects: bool,
) -> (Captured, Vec<Output>) {
    random_on(executor, seed, nodes, has_effects, Device::CPU)
}

/// The same with inputs and weights on a device.
pub fn random_on(
    executor: &HybridExecutor,
    seed: u64,
    nodes: usize,
    has_effects: bool,
    home: Device,
) -> (Captured, Vec<Output>) {
    let mut rng = Rng(seed);
    let weights: Vec<Output> = (0..4).map(|i| upload_to(executor, &matrix(i), &[SIDE, SIDE], home)).collect();
    let spec = (DType::F32, shape(&[SIDE, SIDE]), home);
    let (captured, ()) = executor
        .capture(&[spec.clone(), spec], |inputs| {
            let recorder = HybridExecutor::current();
            let mut values: Vec<Output> = inputs;
            values.extend(weights.iter().cloned());
            // Which of them may be read: those that were not overwritten by another handle are all.
            for _ in 0..nodes {
                // Mostly recent ones, so that graphs are deep.
                let pick = |rng: &mut Rng, values: &[Output]| {
                    let n = values.len();
                    let back = if rng.chance(70) { n.min(5) } else { n };
                    values[n - 1 - rng.below(back)].clone()
                };
                let (a, b) = (pick(&mut rng, &values), pick(&mut rng, &values));
                let (la, lb) = (view(&mut rng, &a), view(&mut rng, &b));
                let kind = rng.below(if has_effects { 16 } else { 12 });
                let made = match kind {
                    0..=2 => run(&Op::MatMul(MatMul::default()), &[(&a, &la), (&b, &lb)]),
                    3..=4 => run(&Op::Binary(BinaryOp::Add), &[(&a, &la), (&b, &lb)]),
                    5 => run(&Op::Binary(BinaryOp::Mul), &[(&a, &la), (&b, &lb)]),
                    6..=8 => run(&Op::Unary(UnaryOp::Tanh), &[(&a, &la)]),
                    9 => run(&Op::Unary(UnaryOp::Relu), &[(&a, &la)]),
                    10 => run(&Op::Softmax(Softmax { axis: 1, log: false }), &[(&a, &la)]),
                    11 => {
                        let (top, low) = (
                            la.slice(0, 0, SIDE / 2, 1).unwrap(),
                            lb.slice(0, SIDE / 2, SIDE / 2, 1).unwrap(),
                        );
                        run(&Op::Concat(Concat { axis: 0 }), &[(&a, &top), (&b, &low)])
                    }
                    12 | 13 => {
                        // Into a weight, which makes it a state, or into a result.
                        let results: Vec<&Output> = values[2..].iter().collect();
                        let to = results[rng.below(results.len())].clone();
                        let rows = to.layout.slice(0, 0, SIDE / 2, 1).unwrap();
                        let whole = rng.chance(50);
                        let at = Operand {
                            storage: &to.storage,
                            dtype: DType::F32,
                            layout: if whole { &to.layout } else { &rows },
                        };
                        let from = la.slice(0, 0, if whole { SIDE } else { SIDE / 2 }, 1).unwrap();
                        let from = Operand { storage: &a.storage, dtype: DType::F32, layout: &from };
                        recorder.run_into(&Op::Unary(UnaryOp::Tanh), &[from], &[at]).unwrap();
                        continue;
                    }
                    14 => {
                        let key = recorder.record_draw(16).unwrap();
                        run(&Op::Dropout(Dropout { p: 0.5, key }), &[(&a, &la)])
                    }
                    _ => {
                        let to = [Device::CPU, super::CUDA, super::OPENCL][rng.below(3)];
                        let from = Operand { storage: &a.storage, dtype: DType::F32, layout: &la };
                        recorder.transfer(&from, to).unwrap()
                    }
                };
                values.push(made);
            }
            let count = values.len();
            // The last, and some others.
            let mut outputs = vec![values[count - 1].clone()];
            for _ in 0..rng.below(3) {
                outputs.push(values[6 + rng.below(count - 6).min(count - 7)].clone());
            }
            Ok((outputs, ()))
        })
        .unwrap();
    (captured, weights)
}

/// The bytes of what a run returns, on inputs by this seed.
pub fn outputs(executor: &HybridExecutor, program: &Program, seed: usize) -> Vec<Vec<u8>> {
    let outputs = run_program(executor, program, seed);
    outputs.iter().map(|output| bytes(executor, &output.operand())).collect()
}

/// What a run returns, on inputs by this seed.
pub fn run_program(executor: &HybridExecutor, program: &Program, seed: usize) -> OutputVec {
    let graph = program.graph();
    let home = |i: usize| graph.values[graph.inputs[i].index()].device;
    let inputs: Vec<Output> =
        (0..2).map(|i| upload_to(executor, &matrix(10 + seed + i), &[SIDE, SIDE], home(i))).collect();
    let operands: Vec<Operand<'_>> = inputs.iter().map(Output::operand).collect();
    let keys: Vec<PhiloxKey> = (0..program.graph().draws.len())
        .map(|i| PhiloxKey { seed: 99, offset: (1000 * seed + i) as u64 * 64 })
        .collect();
    program.run(&operands, || keys).unwrap()
}

/// What comes behind each node: those that read its results, and those that overwrite what it reads.
pub fn successors(graph: &Graph) -> Vec<BTreeSet<usize>> {
    let mut after = vec![BTreeSet::new(); graph.nodes.len()];
    let reads = |node: &Node| -> Vec<_> {
        let into = node.results.iter().filter_map(|result| result.into.as_deref());
        node.args.iter().chain(into).map(|operand| operand.value).collect()
    };
    for (n, node) in graph.nodes.iter().enumerate() {
        for value in reads(node) {
            if let Source::Result { node: maker, .. } = graph.values[value.index()].source {
                after[maker as usize].insert(n);
            }
        }
        for into in node.results.iter().filter_map(|result| result.into.as_deref()) {
            for (other, reader) in graph.nodes.iter().enumerate() {
                if other != n && reads(reader).contains(&into.value) {
                    after[other].insert(n);
                }
            }
        }
    }
    after
}

/// Checks that each node is in one region or outside, that the order is one, and that no path leaves a region and comes back.
pub fn check_plan(graph: &Graph, plan: &PartitionPlan) {
    graph.verify().unwrap();
    let mut nodes: Vec<usize> = plan.outside.iter().map(|outside| outside.node).collect();
    nodes.extend(plan.regions.iter().flat_map(|region| region.nodes.clone()));
    nodes.sort_unstable();
    assert_eq!(nodes, (0..graph.nodes.len()).collect::<Vec<_>>(), "each node once");
    let after = successors(graph);
    for (n, after) in after.iter().enumerate() {
        assert!(after.iter().all(|next| *next > n), "node {n} comes before {after:?}");
    }
    for region in &plan.regions {
        let mut reached: BTreeSet<usize> = BTreeSet::new();
        let mut open: Vec<usize> = region.nodes.clone().flat_map(|n| after[n].clone()).collect();
        while let Some(n) = open.pop() {
            if !region.nodes.contains(&n) && reached.insert(n) {
                for next in &after[n] {
                    assert!(!region.nodes.contains(next), "a path comes back to {region:?} from {n}");
                    open.push(*next);
                }
            }
        }
    }
}

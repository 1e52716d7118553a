//! Whatever devices support and however they fail, the result equals the CPU's, bit for bit.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::{self, CUDA, OPENCL, bytes, fake, shape};
use proptest::prelude::*;
use rustorch_core::{
    Backend, BinaryOp, DType, DTypeSet, Decline, Device, Error, Fault, Op, OpType, Softmax, UnaryOp,
};
use rustorch_cpu::CpuBackend;
use rustorch_runtime::{HybridExecutor, OpTable, Operand, Output, Placement};
use rustorch_testkit::{Act, FakeDevice, Point, Rule};
use std::sync::{Arc, LazyLock};

const TENSORS: usize = 4;
const SIDE: usize = 4;
const DEVICES: [Device; 3] = [Device::CPU, CUDA, OPENCL];

/// One for all cases: it measures its own speed once.
static CPU: LazyLock<Arc<dyn Backend>> = LazyLock::new(|| Arc::new(CpuBackend::new(1)));

#[derive(Clone, Debug)]
enum Step {
    Unary(UnaryOp, usize, usize),
    Binary(BinaryOp, usize, usize, usize),
    Softmax(usize, usize),
    InPlace(BinaryOp, usize, usize, usize),
    Transpose(usize),
    Move(usize, Device),
    Policy(Placement),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let tensor = || 0..TENSORS;
    let device = || prop::sample::select(&DEVICES[..]);
    let unary = || prop::sample::select(&[UnaryOp::Neg, UnaryOp::Relu, UnaryOp::Sigmoid, UnaryOp::Exp][..]);
    let binary =
        || prop::sample::select(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Maximum, BinaryOp::Atan2][..]);
    let policy = prop_oneof![
        Just(Placement::Auto),
        Just(Placement::FirstSupported),
        device().prop_map(Placement::Prefer),
        (0usize..200).prop_map(Placement::GpuThreshold),
        device().prop_map(|d| Placement::ByOp(
            OpTable::new().class(OpType::Elementwise, d).op(UnaryOp::Exp, CUDA)
        )),
    ];
    let step = prop_oneof![
        4 => (unary(), tensor(), tensor()).prop_map(|(op, x, to)| Step::Unary(op, x, to)),
        4 => (binary(), tensor(), tensor(), tensor()).prop_map(|(op, a, b, to)| Step::Binary(op, a, b, to)),
        1 => (tensor(), tensor()).prop_map(|(x, to)| Step::Softmax(x, to)),
        4 => (binary(), tensor(), tensor(), tensor()).prop_map(|(op, a, b, to)| Step::InPlace(op, a, b, to)),
        2 => tensor().prop_map(Step::Transpose),
        2 => (tensor(), device()).prop_map(|(x, to)| Step::Move(x, to)),
        2 => policy.prop_map(Step::Policy),
    ];
    prop::collection::vec(step, 1..30)
}

/// A device that can do some things and fails at some.
#[derive(Clone, Debug)]
struct Character {
    lacks: Vec<OpType>,
    max_ndim: usize,
    strided: bool,
    reaches_cpu: bool,
    peers: bool,
    memory: usize,
    script: Vec<Rule>,
}

fn character() -> impl Strategy<Value = Character> {
    const CLASSES: &[OpType] = &[OpType::Elementwise, OpType::Activation, OpType::DataMovement];
    let point = prop_oneof![
        4 => Just(Point::Run),
        1 => Just(Point::Alloc),
        1 => Just(Point::CopyIn),
        1 => Just(Point::CopyFromPeer),
    ];
    let act = prop_oneof![
        3 => Just(Act::Fail),
        2 => Just(Act::Doubt),
        2 => Just(Act::TimeOut),
        3 => Just(Act::RunOut),
        1 => Just(Act::Lose),
    ];
    let fault = (point, act, 0usize..8, 1usize..3)
        .prop_map(|(point, act, after, times)| Rule::at(point).act(act).after(after).times(times));
    let decline = (0usize..8, 1usize..4).prop_map(|(after, times)| {
        Rule::at(Point::Supports).act(Act::Decline(Decline::Compiling)).after(after).times(times)
    });
    let rule = prop_oneof![3 => fault, 1 => decline];
    (
        prop::sample::subsequence(CLASSES, 0..=2),
        prop::sample::select(&[1usize, 2, 8, 8][..]),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::sample::select(&[64usize, 256, 1024, usize::MAX, usize::MAX][..]),
        prop::collection::vec(rule, 0..4),
    )
        .prop_map(|(lacks, max_ndim, strided, reaches_cpu, peers, memory, script)| Character {
            lacks,
            max_ndim,
            strided,
            reaches_cpu,
            peers,
            memory,
            script,
        })
}

impl Character {
    fn build(&self, device: Device) -> Arc<FakeDevice> {
        let fake = FakeDevice::new(device, Arc::clone(&CPU)).memory_limit(self.memory).capability(|c| {
            for &class in &self.lacks {
                c.dtypes[class as usize] = DTypeSet::of(&[DType::F64]);
            }
            c.max_ndim = self.max_ndim;
            c.strided = self.strided;
            c.reaches = if self.reaches_cpu { vec![Device::CPU] } else { vec![] };
        });
        let fake = if self.peers { fake.with_peers() } else { fake };
        self.script.iter().for_each(|rule| fake.script(rule.clone()));
        Arc::new(fake)
    }
}

fn is_loss(error: &Error) -> bool {
    matches!(error, Error::Fault(fault) if matches!(**fault, Fault::DeviceLost { .. }))
}

fn starting_tensors(exec: &HybridExecutor) -> Vec<Output> {
    (0..TENSORS)
        .map(|t| {
            let values: Vec<f32> =
                (0..SIDE * SIDE).map(|i| ((i * 7 + t * 5) % 11) as f32 * 0.3 - 1.4).collect();
            common::upload(exec, &values, &[SIDE, SIDE])
        })
        .collect()
}

/// Runs the steps in both worlds. `Ok(false)` if data went down with a device, which ends the case.
fn follow(exec: HybridExecutor, reference: &HybridExecutor, steps: &[Step]) -> Result<bool, TestCaseError> {
    let mut exec = exec;
    let mut tensors = starting_tensors(&exec);
    let mut wanted = starting_tensors(reference);
    for step in steps {
        let (op, args, to) = match step {
            Step::Transpose(x) => {
                for world in [&mut tensors, &mut wanted] {
                    world[*x].layout = world[*x].layout.transpose(0, 1).unwrap();
                }
                continue;
            }
            Step::Move(x, device) => {
                // A transfer has no other way if it fails.
                if let Ok(moved) = exec.transfer(&tensors[*x].operand(), *device) {
                    tensors[*x] = moved;
                }
                continue;
            }
            Step::Policy(policy) => {
                exec = exec.with_policy(policy.clone()).unwrap();
                continue;
            }
            Step::Unary(op, x, to) => (Op::Unary(*op), vec![*x], *to),
            Step::Binary(op, a, b, to) | Step::InPlace(op, a, b, to) => (Op::Binary(*op), vec![*a, *b], *to),
            Step::Softmax(x, to) => (Op::Softmax(Softmax { axis: 1, log: false }), vec![*x], *to),
        };
        let run = |exec: &HybridExecutor, world: &[Output]| {
            let args: Vec<Operand<'_>> = args.iter().map(|&i| world[i].operand()).collect();
            exec.run(&op, &args).map(|mut outs| outs.pop().unwrap())
        };
        let expected = run(reference, &wanted).unwrap();
        let in_place = matches!(step, Step::InPlace(..)) && {
            let args: Vec<Operand<'_>> = args.iter().map(|&i| tensors[i].operand()).collect();
            // Bringing the result to its destination may fail for good; a fresh one must be had all the same.
            args.iter().all(|arg| !arg.storage.same(&tensors[to].storage))
                && exec.run_into(&op, &args, &[tensors[to].operand()]).is_ok()
        };
        if !in_place {
            match run(&exec, &tensors) {
                Ok(output) => tensors[to] = output,
                Err(error) if is_loss(&error) => return Ok(false),
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            }
        }
        wanted[to] = expected;
    }
    for (got, want) in tensors.iter().zip(&wanted) {
        let mut found = vec![0; 4 * SIDE * SIDE];
        match exec.download(&got.operand(), &mut found) {
            Ok(()) => prop_assert_eq!(&found, &bytes(reference, &want.operand())),
            Err(error) if is_loss(&error) => return Ok(false),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }
    Ok(true)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_result_is_the_cpu_s(steps in steps(), one in character(), other in character()) {
        let reference = HybridExecutor::builder().backend(Arc::clone(&CPU)).build().unwrap();
        let exec = HybridExecutor::builder()
            .backend(one.build(CUDA))
            .backend(other.build(OPENCL))
            .backend(Arc::clone(&CPU))
            .build()
            .unwrap();
        follow(exec, &reference, &steps)?;
    }
}

#[test]
fn threads_fall_back_together() {
    let cuda = Arc::new(fake(CUDA).memory_limit(1 << 14));
    cuda.script(Rule::at(Point::Run).after(10).times(3).act(Act::RunOut));
    cuda.script(Rule::at(Point::Run).op("neg").after(40).times(3));
    cuda.script(Rule::at(Point::Run).op("sub").after(200).act(Act::Lose));
    let opencl = Arc::new(fake(OPENCL));
    opencl.script(Rule::at(Point::Run).op("neg").after(100).times(1));
    let exec = common::builder(&[&cuda, &opencl]).placement(Placement::FirstSupported).build().unwrap();
    let x = common::upload(&exec, &common::ramp(256), &[16, 16]);
    let turned = x.layout.transpose(0, 1).unwrap();
    assert_eq!(turned.shape(), &shape(&[16, 16]));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (exec, x, turned) = (&exec, &x, &turned);
            scope.spawn(move || {
                let view = if thread % 2 == 0 { &x.layout } else { turned };
                let view = Operand { layout: view, ..x.operand() };
                let want: Vec<f32> = common::floats(exec, &view).iter().map(|x| -x - x).collect();
                for _ in 0..100 {
                    let neg = exec.run(&Op::Unary(UnaryOp::Neg), &[view]).unwrap();
                    // What became of the first result may have gone with its device.
                    match exec.run(&Op::Binary(BinaryOp::Sub), &[neg[0].operand(), view]) {
                        Ok(out) => {
                            let mut bytes = vec![0; 1024];
                            match exec.download(&out[0].operand(), &mut bytes) {
                                Ok(()) => {
                                    let got: Vec<f32> =
                                        bytes.as_chunks().0.iter().map(|&b| f32::from_ne_bytes(b)).collect();
                                    assert_eq!(got, want);
                                }
                                Err(error) => assert!(is_loss(&error), "{error}"),
                            }
                        }
                        Err(error) => assert!(is_loss(&error), "{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(exec.health().lost(), [CUDA]);
}

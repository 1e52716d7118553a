//! Passes leave the bits: random operations of the conformance suite's fuzz with others before and behind them, after each pass and all.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::graphs::{Rng, run};
use crate::common::regions::{captured, unary};
use crate::common::{builder, bytes, floats, shape, upload};
use rustorch_core::{
    BinaryOp, Concat, DType, Device, MatMul, Numerics, Op, QuantType, Result, RmsNorm, Softmax, UnaryOp,
};
use rustorch_runtime::{Captured, HybridExecutor, Operand, Output, Pass, Placement, Program};
use rustorch_testkit::conformance::{Argument, Case, Fuzz};

/// What operations of the fuzz are drawn, by `FUZZ_SEED` and `FUZZ_CASES`.
const CASES: usize = 800;

fn executor() -> HybridExecutor {
    builder(&[]).placement(Placement::CpuOnly).build().unwrap()
}

/// The memory of an argument as a tensor, whose layout is the argument's.
fn tensor(executor: &HybridExecutor, argument: &Argument) -> Output {
    let Argument { dtype, layout, bytes } = argument;
    let elements = bytes.len() / dtype.block_bytes() * dtype.block_len();
    let whole = executor.upload(bytes, *dtype, &shape(&[elements]), Device::CPU).unwrap();
    Output { layout: layout.clone(), ..whole }
}

/// A graph, its inputs, and the states that it changes.
struct Made {
    captured: Captured,
    inputs: Vec<Output>,
    states: Vec<Output>,
}

/// The operation of a case among others. The same seed gives the same graph, with states of its own.
fn graph_of(executor: &HybridExecutor, case: &Case, seed: u64) -> Result<Made> {
    let mut rng = Rng(seed);
    // Inputs, tensors that the test holds, and those that only the graph has.
    let roles: Vec<usize> =
        case.args.iter().map(|arg| if arg.dtype.is_quant() { 1 } else { rng.below(3) }).collect();
    let inputs: Vec<Output> = (case.args.iter().zip(&roles))
        .filter(|(_, role)| **role == 0)
        .map(|(arg, _)| tensor(executor, &arg.packed()))
        .collect();
    let held: Vec<Output> = case.args.iter().map(|arg| tensor(executor, arg)).collect();
    let specs: Vec<_> =
        inputs.iter().map(|input| (input.dtype, input.layout.shape().clone(), Device::CPU)).collect();
    let mut states = Vec::new();
    let (captured, ()) = executor.capture(&specs, |symbols| {
        let recorder = HybridExecutor::current();
        let mut symbols = symbols.into_iter();
        let args: Vec<Output> = (case.args.iter().zip(&roles).zip(&held))
            .map(|((arg, role), held)| match role {
                0 => symbols.next().unwrap(),
                1 => held.clone(),
                _ => tensor(&recorder, arg),
            })
            .collect();
        let operands: Vec<Operand<'_>> = args.iter().map(Output::operand).collect();
        let mut outputs: Vec<Output> = recorder.run(&case.op, &operands)?.into_iter().collect();
        if rng.chance(30) {
            // Equal to the first.
            outputs.extend(recorder.run(&case.op, &operands)?);
        }
        let mut results = Vec::new();
        for made in outputs {
            let made = behind(&recorder, &mut rng, made, &mut states)?;
            results.extend(made);
        }
        Ok((results, ()))
    })?;
    Ok(Made { captured, inputs, states })
}

/// Operations on a result, such as passes look for; what of them is returned.
fn behind(
    recorder: &HybridExecutor,
    rng: &mut Rng,
    first: Output,
    states: &mut Vec<Output>,
) -> Result<Vec<Output>> {
    let mut returned = Vec::new();
    let mut x = first;
    if matches!(x.dtype, DType::F32 | DType::F64) {
        for _ in 0..rng.below(6) {
            let dims = x.layout.dims().to_vec();
            let last = dims.last().copied();
            let row = |n: usize| -> Vec<f64> { (0..n).map(|i| (i * 7 % 11) as f64 * 0.25 - 1.0).collect() };
            let floats = |dims: &[usize]| -> Output {
                let values = row(dims.iter().product());
                let values: Vec<u8> = match x.dtype {
                    DType::F32 => values.iter().flat_map(|v| (*v as f32).to_ne_bytes()).collect(),
                    _ => values.iter().flat_map(|v| v.to_ne_bytes()).collect(),
                };
                recorder.upload(&values, x.dtype, &shape(dims), Device::CPU).unwrap()
            };
            x = match (rng.below(10), last) {
                (0..3, _) => {
                    let function =
                        [UnaryOp::Relu, UnaryOp::Tanh, UnaryOp::Neg, UnaryOp::Exp, UnaryOp::Sigmoid];
                    unary(function[rng.below(5)], &x)
                }
                (3, _) => binary(BinaryOp::Mul, &x, &floats(&[])),
                (4, Some(n)) => binary(BinaryOp::Add, &floats(&[n]), &x),
                (5, Some(_)) => {
                    let axis = rng.below(dims.len());
                    let softmax = Op::Softmax(Softmax { axis, log: rng.chance(30) });
                    unary(UnaryOp::Log, &run(&softmax, &[(&x, &x.layout)]))
                }
                (6, Some(n)) => {
                    let sum = binary(BinaryOp::Add, &x, &unary(UnaryOp::Abs, &x));
                    let weight = floats(&[n]);
                    let norm = Op::RmsNorm(RmsNorm { eps: 1e-5 });
                    let normed = run(&norm, &[(&sum, &sum.layout), (&weight, &weight.layout)]);
                    binary(BinaryOp::Sub, &sum, &normed)
                }
                (7, Some(n)) if dims.len() >= 2 && n > 0 && x.layout.numel() < 4000 => {
                    let weight = floats(&[n, 3]);
                    let bias = floats(&[3]);
                    let product = Op::MatMul(MatMul::default());
                    let product = run(&product, &[(&x, &x.layout), (&weight, &weight.layout)]);
                    unary(UnaryOp::Relu, &binary(BinaryOp::Add, &product, &bias))
                }
                (8, _) => {
                    // A state of zeros, of which later operations read what was written.
                    let zeros = vec![0; x.dtype.bytes_for(x.layout.numel()).unwrap()];
                    let state =
                        recorder.outside_capture().upload(&zeros, x.dtype, x.layout.shape(), Device::CPU)?;
                    let sum = binary(BinaryOp::Add, &state, &x);
                    recorder.run_into(&Op::Unary(UnaryOp::Abs), &[sum.operand()], &[state.operand()])?;
                    states.push(state.clone());
                    binary(BinaryOp::Maximum, &state, &x)
                }
                _ => {
                    // Nobody reads the first; what is read later may be returned as well.
                    let _ = unary(UnaryOp::Sqrt, &x);
                    if rng.chance(50) {
                        returned.push(x.clone());
                    }
                    x
                }
            };
        }
    }
    returned.push(x);
    Ok(returned)
}

fn binary(op: BinaryOp, a: &Output, b: &Output) -> Output {
    run(&Op::Binary(op), &[(a, &a.layout), (b, &b.layout)])
}

/// The bits of a tensor, any NaN as one: which of two a sum keeps is nobody's promise.
fn bits(executor: &HybridExecutor, x: &Output) -> Vec<u8> {
    let mut bytes = bytes(executor, &x.operand());
    let one_nan = |bytes: &mut [u8], size: usize| match size {
        4 => {
            let x = f32::from_ne_bytes(bytes.try_into().unwrap());
            bytes.copy_from_slice(&if x.is_nan() { f32::NAN } else { x }.to_ne_bytes());
        }
        _ => {
            let x = f64::from_ne_bytes(bytes.try_into().unwrap());
            bytes.copy_from_slice(&if x.is_nan() { f64::NAN } else { x }.to_ne_bytes());
        }
    };
    match x.dtype {
        DType::F32 | DType::C64 => bytes.chunks_exact_mut(4).for_each(|x| one_nan(x, 4)),
        DType::F64 | DType::C128 => bytes.chunks_exact_mut(8).for_each(|x| one_nan(x, 8)),
        _ => {}
    }
    bytes
}

/// What two runs of a program return, the states behind them, and how many operations it has.
fn outcome(executor: &HybridExecutor, made: Made, passes: &[Pass]) -> (Result<Vec<Vec<u8>>>, usize) {
    let Made { captured, inputs, states } = made;
    let program = Program::new(executor, captured, passes).unwrap();
    let operands: Vec<Operand<'_>> = inputs.iter().map(Output::operand).collect();
    let mut seen = Vec::new();
    for _ in 0..2 {
        match program.run(&operands, || []) {
            Ok(outputs) => seen.extend(outputs.iter().map(|output| bits(executor, output))),
            Err(error) => return (Err(error), program.graph().nodes.len()),
        }
    }
    seen.extend(states.iter().map(|state| bits(executor, state)));
    (Ok(seen), program.graph().nodes.len())
}

#[test]
fn random_operations_have_the_same_bits_after_every_pass_and_all_of_them() {
    let executor = executor();
    let backwards: Vec<Pass> = Pass::ALL.iter().rev().copied().collect();
    let mut choices: Vec<&[Pass]> = Pass::ALL.iter().map(std::slice::from_ref).collect();
    choices.extend([Pass::ALL, &backwards]);
    let mut changed = vec![0; choices.len()];
    let (mut graphs, mut refused) = (0, 0);
    for (seed, case) in Fuzz::from_env(CASES).drawn().enumerate() {
        let seed = seed as u64;
        // Keys of random numbers are those of a generator, of which there is none here; a custom op has no values to draw.
        if case.op.philox_key().is_some() {
            continue;
        }
        let Ok(made) = graph_of(&executor, &case, seed) else { continue };
        graphs += 1;
        let (expected, before) = outcome(&executor, made, &[]);
        refused += usize::from(expected.is_err());
        for (passes, changed) in choices.iter().zip(&mut changed) {
            let made = graph_of(&executor, &case, seed).unwrap();
            let listing = made.captured.graph.to_string();
            let (found, after) = outcome(&executor, made, passes);
            *changed += usize::from(after != before);
            // An operation that fails for its values does so in each.
            let is_same = match (&expected, &found) {
                (Ok(expected), Ok(found)) => expected == found,
                (Err(expected), Err(found)) => expected.to_string() == found.to_string(),
                _ => false,
            };
            assert!(is_same, "{passes:?} of case {seed}, {case}\n{expected:?}\n{found:?}\n{listing}");
        }
    }
    println!(
        "{graphs} graphs, of which {refused} fail for their values; fewer operations after each pass: {changed:?}"
    );
    if graphs >= CASES / 2 {
        // Each pass finds something to do, but the one that only orders, and something fails.
        let all_work = choices
            .iter()
            .zip(&changed)
            .all(|(passes, changed)| matches!(passes, [Pass::GroupMatMuls]) || changed * 50 >= graphs);
        assert!(refused > 0 && all_work, "{changed:?} of {graphs}");
    }
}

#[test]
fn what_rounds_otherwise_is_left_as_it_was_written() {
    let executor = executor();
    let of = |log: bool| {
        let softmax = Op::Softmax(Softmax { axis: 1, log });
        let captured = captured(&executor, &[4, 8], |x| {
            let y = run(&softmax, &[(x, &x.layout)]);
            vec![if log { y } else { unary(UnaryOp::Log, &y) }]
        });
        Program::new(&executor, captured, Pass::ALL).unwrap()
    };
    // Beside a large element, the logarithm of softmax is −∞ where log_softmax is not.
    let mut values = vec![0.0f32; 32];
    values[0] = 200.0;
    let x = upload(&executor, &values, &[4, 8]);
    let second = |program: &Program| {
        let y = program.run(&[x.operand()], || []).unwrap().remove(0);
        floats(&executor, &y.operand())[1]
    };
    assert_eq!(second(&of(false)), f32::NEG_INFINITY);
    assert_eq!(second(&of(true)), -200.0);
}

/// A weight of this type, `[n, k]`, seen as `[k, n]`.
fn quant_weight(executor: &HybridExecutor, quant: QuantType, n: usize, k: usize) -> Output {
    let half = |value: u16| value.to_le_bytes();
    let mut bytes = Vec::new();
    for block in 0..n * k / 32 {
        // Scales of 2⁻⁶ and 2⁻⁵, a minimum of ½.
        bytes.extend(half(if block % 3 == 0 { 0x2400 } else { 0x2800 }));
        let codes = match quant {
            QuantType::Q8_0 => 32,
            QuantType::Q4_0 => 16,
            QuantType::Q4_1 => {
                bytes.extend(half(0x3800));
                16
            }
            other => panic!("{other} is not one of these types"),
        };
        bytes.extend((0..codes).map(|i| (block * 31 + i * 7) as u8));
    }
    let whole = executor.upload(&bytes, DType::Quant(quant), &shape(&[n, k]), Device::CPU).unwrap();
    Output { layout: whole.layout.transpose(0, 1).unwrap(), ..whole }
}

#[test]
fn matmuls_of_one_left_operand_follow_one_another_and_have_the_same_bits() {
    let executor = executor();
    let k = 96;
    let weights = [(QuantType::Q8_0, 40), (QuantType::Q4_0, 7), (QuantType::Q4_1, 33), (QuantType::Q8_0, 40)]
        .map(|(quant, n)| quant_weight(&executor, quant, n, k));
    let back = quant_weight(&executor, QuantType::Q8_0, k, 64);
    for numerics in [Numerics::Ggml, Numerics::Fast, Numerics::F32] {
        for dims in [&[1, k][..], &[5, k], &[40, k], &[2, 3, k], &[4, 1, k]] {
            let make = || {
                captured(&executor, dims, |x| {
                    let product = |x: &Output, w: &Output| {
                        let op = Op::MatMul(MatMul { numerics, ..MatMul::default() });
                        run(&op, &[(x, &x.layout), (w, &w.layout)])
                    };
                    // Something between each two, one left operand that depends on another, and one of other rows.
                    let q = unary(UnaryOp::Tanh, &product(x, &weights[0]));
                    let k = unary(UnaryOp::Abs, &product(x, &weights[1]));
                    let v = product(x, &weights[2]);
                    let wide = {
                        let last = q.layout.ndim() - 1;
                        Output { layout: q.layout.slice(last, 0, 32, 1).unwrap(), ..q.clone() }
                    };
                    let both = run(
                        &Op::Concat(Concat { axis: dims.len() - 1 }),
                        &[(&wide, &wide.layout), (&wide, &wide.layout)],
                    );
                    let y = unary(UnaryOp::Tanh, &product(&both, &back));
                    vec![product(x, &weights[3]), product(&y, &weights[0]), k, v, product(&y, &weights[2])]
                })
            };
            let values: Vec<f32> =
                (0..dims.iter().product()).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.03).collect();
            let x = upload(&executor, &values, dims);
            let outputs = |passes: &[Pass]| {
                let program = Program::new(&executor, make(), passes).unwrap();
                let names = program.graph().nodes.iter().map(|node| node.op.name()).collect::<Vec<_>>();
                let outputs = program.run(&[x.operand()], || []).unwrap();
                let bits: Vec<_> = outputs.iter().map(|output| bytes(&executor, &output.operand())).collect();
                (names, bits)
            };
            let ((_, expected), (names, found)) = (outputs(&[]), outputs(&[Pass::GroupMatMuls]));
            assert!(expected == found, "{numerics:?}, x {dims:?}");
            assert_eq!(names[..4], ["matmul"; 4], "{names:?}");
            assert_eq!(names[names.len() - 2..], ["matmul"; 2], "{names:?}");
        }
    }
}

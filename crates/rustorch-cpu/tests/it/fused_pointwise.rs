//! A fused op gives, to the last bit, what its steps give one after another.

use crate::testing::{Tensor, bits, run};
use rustorch_core::{
    BinaryOp, C128, Cast, Clamp, CompareOp, DType, Device, Error, Fault, FusedPointwise, FusedValue, GluOp,
    Layout, Op, Philox, Scalar, Shape, TensorMeta, UnaryOp, Where, bf16, f16,
};

/// Numbers below `n`.
fn below(random: &mut Philox, n: usize) -> usize {
    (random.next_f64() * n as f64) as usize
}

fn pick<T: Copy>(random: &mut Philox, list: &[T]) -> T {
    list[below(random, list.len())]
}

/// Bytes of elements, among them zeros, negative numbers, large ones, and of floats infinities and NaN.
fn bytes(random: &mut Philox, dtype: DType, n: usize) -> Vec<u8> {
    let mut next = || match below(random, 40) {
        0 => 0.0,
        1 => f64::INFINITY,
        2 => f64::NAN,
        3 => -1e4,
        4 => 7e4,
        _ => random.next_f64() * 8.0 - 4.0,
    };
    let mut bytes = Vec::new();
    for _ in 0..n {
        let x = next();
        match dtype {
            DType::Bool => bytes.push(u8::from(x > 0.0)),
            DType::U8 => bytes.push(x as i64 as u8),
            DType::I8 => bytes.push(x as i64 as u8),
            DType::I16 => bytes.extend((x as i64 as i16).to_ne_bytes()),
            DType::I32 => bytes.extend((x as i32).to_ne_bytes()),
            DType::U32 => bytes.extend((x as i64 as u32).to_ne_bytes()),
            DType::I64 => bytes.extend((x as i64).to_ne_bytes()),
            DType::F16 => bytes.extend(f16::from_f64(x).to_ne_bytes()),
            DType::BF16 => bytes.extend(bf16::from_f64(x).to_ne_bytes()),
            DType::F32 => bytes.extend((x as f32).to_ne_bytes()),
            DType::F64 => bytes.extend(x.to_ne_bytes()),
            DType::C64 => [x, next()].iter().for_each(|&x| bytes.extend((x as f32).to_ne_bytes())),
            DType::C128 => [x, next()].iter().for_each(|&x| bytes.extend(x.to_ne_bytes())),
            DType::Quant(_) => unreachable!(),
        }
    }
    bytes
}

/// A tensor that broadcasts to `dims`, in some arrangement.
fn input(random: &mut Philox, dtype: DType, dims: &[usize]) -> Tensor {
    let mut own: Vec<usize> = dims.iter().map(|&dim| if below(random, 4) == 0 { 1 } else { dim }).collect();
    own.drain(..below(random, 2 * dims.len()).saturating_sub(dims.len()));
    let ndim = own.len();
    let make = |random: &mut Philox, dims: &[usize]| {
        let bytes = bytes(random, dtype, dims.iter().product());
        Tensor::of_bytes(dtype, dims, &bytes)
    };
    match below(random, 3) {
        1 if ndim >= 2 => {
            own.swap(0, ndim - 1);
            make(random, &own).with(|layout| layout.transpose(0, ndim - 1).unwrap())
        }
        2 if ndim >= 1 => {
            let len = own[ndim - 1];
            own[ndim - 1] = 2 * len + 1;
            make(random, &own).with(|layout| layout.slice(ndim - 1, 1, len, 2).unwrap())
        }
        _ => make(random, &own),
    }
}

fn number(random: &mut Philox, dtype: DType) -> Scalar {
    let x = (random.next_f64() * 16.0 - 8.0).round() / 2.0;
    match dtype {
        DType::Bool => Scalar::Bool(x > 0.0),
        dtype if dtype.is_float() => Scalar::Float(x),
        dtype if dtype.is_complex() => Scalar::Complex(C128::new(x, 0.5)),
        DType::U8 | DType::U32 => Scalar::Int(x.abs() as i64),
        _ => Scalar::Int(x as i64),
    }
}

/// Any pointwise operation.
fn operation(random: &mut Philox, dtype: DType) -> Op {
    match below(random, 12) {
        0..4 => Op::Unary(pick(random, UnaryOp::ALL)),
        4..8 => Op::Binary(pick(random, BinaryOp::ALL)),
        8 => Op::Compare(pick(random, CompareOp::ALL)),
        9 => Op::Where(Where),
        10 => match below(random, 3) {
            0 => Op::Glu(pick(random, GluOp::ALL)),
            1 => Op::Clamp(Clamp { min: Some(number(random, dtype)), max: None }),
            _ => Op::Clamp(Clamp { min: Some(number(random, dtype)), max: Some(number(random, dtype)) }),
        },
        _ => Op::Cast(Cast { to: pick(random, DType::DENSE) }),
    }
}

/// A random fused op that takes inputs of these dtypes and uses them all.
fn program(random: &mut Philox, inputs: &[DType]) -> FusedPointwise {
    let scalar = Layout::contiguous(Shape::scalar());
    let infer = |op: &Op, dtypes: &[DType]| {
        let metas: Vec<TensorMeta<'_>> =
            dtypes.iter().map(|&dtype| TensorMeta { dtype, layout: &scalar, device: Device::CPU }).collect();
        op.infer(&metas).ok().map(|outs| outs[0].dtype)
    };
    let mut b = FusedPointwise::builder(inputs.len()).unwrap();
    let mut values: Vec<(FusedValue, DType)> =
        inputs.iter().enumerate().map(|(i, &dtype)| (b.input(i).unwrap(), dtype)).collect();
    for _ in 0..below(random, 3) {
        let dtype = pick(random, inputs);
        let value = number(random, dtype);
        values.push((b.constant(value, dtype).unwrap(), dtype));
    }
    let (mut have, want) = (0, 1 + below(random, 14));
    while have < want {
        let op = operation(random, values[0].1);
        let args: Vec<(FusedValue, DType)> =
            (0..1 + below(random, 3)).map(|_| pick(random, &values)).collect();
        let dtypes: Vec<DType> = args.iter().map(|arg| arg.1).collect();
        if let Some(dtype) = infer(&op, &dtypes) {
            let args: Vec<FusedValue> = args.iter().map(|arg| arg.0).collect();
            values.push((b.step(op, &args).unwrap(), dtype));
            have += 1;
        }
    }
    // All that is left over comes together, so that every input is used.
    let mut result: Option<FusedValue> = None;
    for &(value, dtype) in &values {
        if dtype != DType::F32 || matches!(value, FusedValue::Input(_)) {
            let single = b.step(Op::Cast(Cast { to: DType::F32 }), &[value]).unwrap();
            result = Some(match result {
                None => single,
                Some(result) => b.step(Op::Binary(BinaryOp::Add), &[result, single]).unwrap(),
            });
        }
    }
    // Sometimes the last step itself, where it happens to need every input.
    let last = values.last().unwrap().0;
    match b.clone().finish(last) {
        Ok(fused) if below(random, 2) == 0 => fused,
        _ => b.finish(result.unwrap()).unwrap(),
    }
}

/// The steps one after another.
fn separately(fused: &FusedPointwise, inputs: &[Tensor]) -> Result<Tensor, Fault> {
    let constants: Vec<Tensor> = fused.constants().iter().map(|c| Tensor::number(c.dtype, c.value)).collect();
    let mut results: Vec<Tensor> = Vec::new();
    for step in fused.steps() {
        let args: Vec<&Tensor> = step
            .args()
            .iter()
            .map(|&arg| match arg {
                FusedValue::Input(i) => &inputs[i],
                FusedValue::Constant(i) => &constants[i],
                FusedValue::Step(i) => &results[i],
            })
            .collect();
        let result = run(step.op(), &args)?.remove(0);
        results.push(result);
    }
    Ok(results.pop().unwrap())
}

#[test]
fn fused_ops_equal_their_steps() {
    let mut random = Philox::new(24);
    let (mut failures, mut steps) = (0, 0);
    let mut results = std::collections::HashSet::new();
    for i in 0..400 {
        let dims: Vec<usize> = match i % 20 {
            0 => vec![40, 300, 3],
            1 => vec![20_000],
            2 => vec![3, 0, 2],
            3 => vec![],
            _ => (0..1 + below(&mut random, 3)).map(|_| 1 + below(&mut random, 9)).collect(),
        };
        let dtypes: Vec<DType> = (0..1 + below(&mut random, 6))
            .map(|_| if below(&mut random, 2) == 0 { DType::F32 } else { pick(&mut random, DType::DENSE) })
            .collect();
        let fused = program(&mut random, &dtypes);
        let inputs: Vec<Tensor> = dtypes.iter().map(|&dtype| input(&mut random, dtype, &dims)).collect();
        let args: Vec<&Tensor> = inputs.iter().collect();
        let empty = args.iter().any(|x| x.layout.numel() == 0);
        let what = format!("{i}: {fused} of {dtypes:?}, {dims:?}");
        steps += fused.steps().len();
        match (run(&Op::FusedPointwise(fused.clone()), &args), separately(&fused, &inputs)) {
            (Ok(mut got), Ok(want)) => {
                let got = got.remove(0);
                assert_eq!(got.dtype(), want.dtype(), "{what}");
                assert_eq!(got.layout.dims(), want.layout.dims(), "{what}");
                assert!(bits(&got) == bits(&want), "{what}");
                results.insert(got.dtype());
            }
            (Err(got), Err(want)) => {
                assert_eq!(got, want, "{what}");
                failures += 1;
            }
            // A step that has no elements to be wrong with, alone has those of its own shape.
            (Ok(_), Err(_)) if empty => {}
            (got, want) => panic!("{what}: {:?} but {:?}", got.map(|_| ()), want.map(|_| ())),
        }
    }
    println!("{steps} steps, {failures} fused ops that divide by zero, results in {results:?}");
    assert!(failures > 3 && failures < 100 && results.len() >= 10);
}

#[test]
fn as_many_inputs_as_there_may_be() {
    let mut b = FusedPointwise::builder(FusedPointwise::MAX_INPUTS).unwrap();
    let mut sum = b.input(0).unwrap();
    for i in 1..FusedPointwise::MAX_INPUTS {
        let x = b.input(i).unwrap();
        sum = b.step(Op::Binary(BinaryOp::Add), &[sum, x]).unwrap();
    }
    let op = Op::FusedPointwise(b.finish(sum).unwrap());
    for dims in [&[5000usize][..], &[70, 90]] {
        let n: usize = dims.iter().product();
        let inputs: Vec<Tensor> = (0..FusedPointwise::MAX_INPUTS)
            .map(|i| {
                let values: Vec<i32> = (0..n).map(|j| (i * j) as i32).collect();
                // Every second one lies otherwise.
                match (i % 2, dims) {
                    (1, &[rows, columns]) => {
                        Tensor::new(&[columns, rows], &values).with(|layout| layout.transpose(0, 1).unwrap())
                    }
                    _ => Tensor::new(dims, &values),
                }
            })
            .collect();
        let args: Vec<&Tensor> = inputs.iter().collect();
        let got: Vec<i32> = run(&op, &args).unwrap()[0].values();
        let each: Vec<Vec<i32>> = inputs.iter().map(Tensor::values).collect();
        let want: Vec<i32> = (0..n).map(|j| each.iter().map(|values| values[j]).sum()).collect();
        assert_eq!(got, want);
    }
}

#[test]
fn the_first_step_that_divides_by_zero_is_named() {
    let mut b = FusedPointwise::builder(2).unwrap();
    let (x, y) = (b.input(0).unwrap(), b.input(1).unwrap());
    let rest = b.step(Op::Binary(BinaryOp::Remainder), &[x, y]).unwrap();
    let quotient = b.step(Op::Binary(BinaryOp::FloorDiv), &[y, x]).unwrap();
    let sum = b.step(Op::Binary(BinaryOp::Add), &[rest, quotient]).unwrap();
    let op = Op::FusedPointwise(b.finish(sum).unwrap());
    let mut values = vec![1i64; 40_000];
    let ones = Tensor::new(&[40_000], &values);
    values[3] = 0;
    let early = Tensor::new(&[40_000], &values);
    values[3] = 1;
    values[39_999] = 0;
    let late = Tensor::new(&[40_000], &values);
    let name = |x: &Tensor, y: &Tensor| match run(&op, &[x, y]) {
        Err(Fault::Invalid(error)) => match *error {
            Error::Argument { op, .. } => op,
            other => panic!("{other}"),
        },
        other => panic!("{:?}", other.map(|_| ())),
    };
    assert_eq!(name(&early, &late), "remainder");
    assert_eq!(name(&early, &ones), "floor_divide");
    assert_eq!(run(&op, &[&ones, &ones]).unwrap()[0].values::<i64>(), [1; 40_000]);
}

#[test]
fn numbers_of_every_dtype_are_constants() {
    for &dtype in DType::DENSE {
        let mut b = FusedPointwise::builder(1).unwrap();
        let x = b.input(0).unwrap();
        let value = match dtype {
            DType::Bool => Scalar::Bool(true),
            dtype if dtype.is_complex() => Scalar::Complex(C128::new(2.5, -0.5)),
            dtype if dtype.is_float() => Scalar::Float(0.1),
            _ => Scalar::Int(-7),
        };
        let constant = b.constant(value, dtype).unwrap();
        let equal = b.step(Op::Compare(CompareOp::Eq), &[x, constant]).unwrap();
        let op = Op::FusedPointwise(b.finish(equal).unwrap());
        let same = Tensor::number(dtype, value);
        assert_eq!(run(&op, &[&same]).unwrap()[0].values::<bool>(), [true], "{dtype}");
    }
}

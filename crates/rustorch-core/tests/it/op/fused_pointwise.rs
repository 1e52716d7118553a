//! Programs of pointwise operations.

use rustorch_core::{
    BinaryOp, Cast, Clamp, CompareOp, DType, Device, Error, FusedPointwise, FusedValue, Layout, Op, OpType,
    Result, Scalar, Shape, Sort, TensorMeta, UnaryOp, Where,
};
use std::fmt;

use DType::{Bool, F16, F32, I32};

fn add() -> Op {
    Op::Binary(BinaryOp::Add)
}

fn message<T: fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn what_makes_no_program_is_named() {
    assert!(message(FusedPointwise::builder(0)).contains("1 to 16 inputs, not 0"));
    assert!(message(FusedPointwise::builder(17)).contains("not 17"));
    let mut b = FusedPointwise::builder(2).unwrap();
    let (x, y) = (b.input(0).unwrap(), b.input(1).unwrap());
    assert!(message(b.input(2)).contains("has no input 2, only 2 so far"));
    assert!(message(b.step(add(), &[x])).contains("add takes 2 arguments, 1 were given"));
    assert!(message(b.step(add(), &[x, FusedValue::Step(0)])).contains("has no step 0, only 0 so far"));
    assert!(message(b.step(add(), &[x, FusedValue::Constant(1)])).contains("has no constant 1"));
    let sort = Op::Sort(Sort { axis: 0, descending: false });
    assert!(message(b.step(sort, &[x])).contains("sort is not a pointwise op"));
    let blocks = DType::Quant(rustorch_core::QuantType::Q4_0);
    assert!(message(b.step(Op::Cast(Cast { to: blocks }), &[x])).contains("dense dtypes only"));
    assert!(message(b.constant(1, blocks)).contains("block type"));
    assert!(message(b.step(Op::Clamp(Clamp { min: None, max: None }), &[x])).contains("bound"));
    assert!(message(b.clone().finish(x)).contains("computes nothing"));
    let double = b.step(add(), &[x, x]).unwrap();
    assert!(message(b.clone().finish(double)).contains("does not use its input 1"));
    let mut value = b.step(add(), &[double, y]).unwrap();
    for _ in 2..FusedPointwise::MAX_STEPS {
        value = b.step(add(), &[value, y]).unwrap();
    }
    assert!(message(b.step(add(), &[value, y])).contains("64 steps at most"));
    // What is there already is no new step.
    assert_eq!(b.step(add(), &[double, y]).unwrap(), FusedValue::Step(1));
    assert_eq!(b.finish(value).unwrap().steps().len(), FusedPointwise::MAX_STEPS);
}

#[test]
fn what_is_not_needed_is_left_out() {
    let mut b = FusedPointwise::builder(1).unwrap();
    let x = b.input(0).unwrap();
    let (zero, one) = (b.constant(-0.0, F32).unwrap(), b.constant(1.0, F32).unwrap());
    assert_ne!(zero, b.constant(0.0, F32).unwrap());
    assert_eq!(one, b.constant(1.0, F32).unwrap());
    assert_ne!(one, b.constant(1.0, F16).unwrap());
    b.step(add(), &[x, zero]).unwrap();
    let kept = b.step(add(), &[x, one]).unwrap();
    let result = b.step(Op::Unary(UnaryOp::Exp), &[kept]).unwrap();
    b.step(Op::Unary(UnaryOp::Sin), &[result]).unwrap();
    let fused = b.finish(result).unwrap();
    assert_eq!((fused.steps().len(), fused.constants().len()), (2, 1));
    assert_eq!(fused.to_string(), "exp(x0 + 1)");
    assert_eq!(fused.steps()[1].args(), [FusedValue::Step(0)]);
}

#[test]
fn expressions_are_readable() {
    let mut b = FusedPointwise::builder(2).unwrap();
    let (x, y) = (b.input(0).unwrap(), b.input(1).unwrap());
    let sum = b.step(add(), &[x, y]).unwrap();
    let less = b.step(Op::Binary(BinaryOp::Sub), &[x, sum]).unwrap();
    let negative = b.step(Op::Unary(UnaryOp::Neg), &[less]).unwrap();
    let quotient = b.step(Op::Binary(BinaryOp::Div), &[negative, sum]).unwrap();
    let bounds = Op::Clamp(Clamp { min: Some(Scalar::Int(0)), max: Some(Scalar::Float(0.5)) });
    let bounded = b.step(bounds, &[quotient]).unwrap();
    let narrow = b.step(Op::Cast(Cast { to: F16 }), &[bounded]).unwrap();
    let wide = b.step(Op::Cast(Cast { to: F32 }), &[narrow]).unwrap();
    let greater = b.step(Op::Compare(CompareOp::Gt), &[wide, y]).unwrap();
    let larger = b.step(Op::Binary(BinaryOp::Maximum), &[x, y]).unwrap();
    let result = b.step(Op::Where(Where), &[greater, larger, wide]).unwrap();
    assert_eq!(
        b.finish(result).unwrap().to_string(),
        "t0 = x0 + x1; t6 = f32(f16(clamp(-(x0 - t0) / t0, min=0, max=0.5))); \
         where(t6 > x1, maximum(x0, x1), t6)"
    );
}

#[test]
fn steps_say_what_they_take() {
    let mut b = FusedPointwise::builder(2).unwrap();
    let (x, y) = (b.input(0).unwrap(), b.input(1).unwrap());
    let less = b.step(Op::Compare(CompareOp::Lt), &[x, y]).unwrap();
    let result = b.step(Op::Where(Where), &[less, x, y]).unwrap();
    let op = Op::FusedPointwise(b.finish(result).unwrap());
    assert_eq!(op.name(), "fused_pointwise");
    let [tall, wide, bad] =
        [&[3usize, 1][..], &[1, 4], &[3, 2]].map(|dims| Layout::contiguous(Shape::new(dims).unwrap()));
    let meta = |dtype, layout| TensorMeta { dtype, layout, device: Device::CPU };
    let args = [meta(I32, &tall), meta(I32, &wide)];
    let outs = op.infer(&args).unwrap();
    assert_eq!((outs[0].dtype, outs[0].shape.dims()), (I32, &[3, 4][..]));
    assert_eq!(op.class(&args), OpType::Elementwise);
    let work = op.work(&args, &outs);
    assert_eq!((work.flops, work.bytes), (24, 4 * (3 + 4 + 12)));
    let wrong = |args: &[TensorMeta<'_>]| op.infer(args).unwrap_err();
    assert!(matches!(wrong(&[meta(I32, &tall), meta(F32, &wide)]), Error::DType { op: "lt", .. }));
    assert!(matches!(
        wrong(&[meta(Bool, &wide), meta(Bool, &bad)]),
        Error::Shape { op: "fused_pointwise", .. }
    ));
    assert!(wrong(&[meta(I32, &tall)]).to_string().contains("takes 2 inputs, 1 were given"));
    let complex = [meta(DType::C64, &tall), meta(DType::C64, &wide)];
    assert!(matches!(wrong(&complex), Error::DType { op: "lt", .. }));
    let blocks = DType::Quant(rustorch_core::QuantType::Q8_0);
    assert!(matches!(
        wrong(&[meta(blocks, &tall), meta(blocks, &wide)]),
        Error::DType { op: "fused_pointwise", .. }
    ));
}

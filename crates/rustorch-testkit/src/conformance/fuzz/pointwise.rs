//! Random cases of pointwise ops, casts, creation.

use super::super::cases::positive;
use super::super::fused_pointwise;
use super::super::{Argument, Case};
use super::draw::{Draw, Numbers, Special};
use rustorch_core::{
    Arange, BinaryOp, Cast, Clamp, CompareOp, CopyOp, DType, DTypeKind, Distribution, Fill, GluOp, Op,
    PhiloxKey, Random, Scalar, Shape, UnaryOp, Where,
};

/// The most elements of a result.
const MOST: usize = 6000;

/// Numbers of any size that a dtype has.
pub(super) fn any(dtype: DType) -> Numbers {
    let numbers = match dtype.kind() {
        DTypeKind::Int => match dtype {
            DType::U8 => Numbers::within(0.0, 255.9),
            DType::I8 => Numbers::within(-128.0, 127.9),
            DType::I16 => Numbers::within(-32768.0, 32767.9),
            DType::U32 => Numbers::within(0.0, 4294967295.0),
            DType::I64 => Numbers::within(-9.2e18, 9.2e18),
            _ => Numbers::within(-2147483648.0, 2147483647.0),
        },
        _ => Numbers::within(-300.0, 300.0),
    };
    numbers.with(Special::All)
}

/// Ordinary numbers, with some that are not.
pub(super) fn plain(dtype: DType) -> Numbers {
    let special = match dtype.kind() {
        // What infinite complex numbers make is not agreed on.
        DTypeKind::Complex => Special::Zeros,
        _ => Special::Infinite,
    };
    Numbers::within(-3.0, 3.0).with(special)
}

pub(super) fn unary(draw: &mut Draw) -> Option<Case> {
    let op = draw.kind.pick(UnaryOp::ALL);
    let takes: Vec<DType> =
        DType::DENSE.iter().copied().filter(|&dtype| op.output(dtype).is_some()).collect();
    let dtype = draw.dtype(&takes);
    let dims = shape(draw);
    let near = match positive(op) {
        true => Numbers::within(1.0, 1.99),
        false => Numbers::within(-0.99, 0.99),
    };
    let numbers = match dtype.kind() {
        DTypeKind::Float if draw.fine.chance(60) => near.with(Special::All),
        DTypeKind::Float => Numbers::within(-20.0, 20.0).with(Special::All),
        DTypeKind::Complex => near,
        _ => any(dtype),
    };
    let x = draw.argument(dtype, &dims, numbers);
    draw.case(Op::Unary(op), vec![x])
}

fn shape(draw: &mut Draw) -> Vec<usize> {
    let ndim = draw.ndim(0, 6);
    draw.dims(ndim, MOST)
}

/// Two operands that broadcast to one shape.
fn pair(draw: &mut Draw, dtype: DType, a: Numbers, b: Numbers) -> Vec<Argument> {
    let dims = shape(draw);
    let (left, right) = match draw.kind.below(4) {
        0 => (draw.narrower(&dims), dims.clone()),
        1 => (dims.clone(), draw.narrower(&dims)),
        2 => (draw.narrower(&dims), draw.narrower(&dims)),
        _ => (dims.clone(), dims.clone()),
    };
    let a = draw.argument(dtype, &left, a);
    let b = draw.argument(dtype, &right, b);
    vec![a, b]
}

pub(super) fn binary(draw: &mut Draw) -> Option<Case> {
    use BinaryOp::*;
    let op = draw.kind.pick(BinaryOp::ALL);
    let takes: Vec<DType> = DType::DENSE.iter().copied().filter(|&dtype| op.accepts(dtype)).collect();
    let dtype = draw.dtype(&takes);
    let (a, b) = match (dtype.kind(), op) {
        // Integers must not be divided by zero, which is a mistake that must be noticed.
        (DTypeKind::Int, FloorDiv | Remainder) if draw.mistake() => (any(dtype), any(dtype)),
        (DTypeKind::Int, FloorDiv | Remainder) => (any(dtype), any(dtype).nonzero()),
        (DTypeKind::Int, Pow) => (any(dtype), Numbers::within(0.0, 9.0)),
        (DTypeKind::Int, ShiftLeft | ShiftRight) => (any(dtype), Numbers::within(0.0, 70.0)),
        (DTypeKind::Int | DTypeKind::Bool, _) => (any(dtype), any(dtype)),
        // Numbers whose quotients and powers are far from the ends.
        (DTypeKind::Complex, Div | Pow) => (Numbers::within(0.5, 5.0), Numbers::within(1.0, 4.0)),
        (DTypeKind::Complex, _) => (plain(dtype), plain(dtype)),
        (_, Pow) => {
            (Numbers::within(-4.0, 6.0).with(Special::All), Numbers::within(-4.0, 4.0).with(Special::All))
        }
        _ => {
            let numbers = Numbers::within(-10.0, 10.0).with(Special::All);
            (numbers, numbers)
        }
    };
    let args = pair(draw, dtype, a, b);
    draw.case(Op::Binary(op), args)
}

pub(super) fn compare(draw: &mut Draw) -> Option<Case> {
    let op = draw.kind.pick(CompareOp::ALL);
    let takes: Vec<DType> = DType::DENSE.iter().copied().filter(|&dtype| op.accepts(dtype)).collect();
    let dtype = draw.dtype(&takes);
    // Few values, so that some are equal.
    let numbers = if draw.fine.chance(50) { Numbers::GRID.with(Special::All) } else { any(dtype) };
    let args = pair(draw, dtype, numbers, numbers);
    draw.case(Op::Compare(op), args)
}

pub(super) fn choose(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(DType::DENSE);
    let mut args = pair(draw, dtype, any(dtype), any(dtype));
    let ndim = args.iter().map(|arg| arg.layout.ndim()).max().unwrap_or(0);
    let dims: Vec<usize> = (0..ndim)
        .map(|axis| {
            let len = |arg: &Argument| {
                (axis + arg.layout.ndim()).checked_sub(ndim).map_or(1, |own| arg.layout.dims()[own])
            };
            args.iter().map(len).find(|&len| len != 1).unwrap_or(1)
        })
        .collect();
    let own = draw.narrower(&dims);
    let condition = draw.argument(DType::Bool, &own, Numbers::within(-3.0, 3.0));
    args.insert(0, condition);
    draw.case(Op::Where(Where), args)
}

pub(super) fn clamp(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(DType::DENSE);
    let mut bound = || {
        let bound = match dtype.is_int() {
            true => Scalar::Int(draw.fine.below(200) as i64 - if dtype == DType::U8 { 0 } else { 100 }),
            false => Scalar::Float(draw.fine.between(-100.0, 100.0)),
        };
        draw.fine.chance(70).then_some(bound)
    };
    let op = Op::Clamp(Clamp { min: bound(), max: bound() });
    let dims = shape(draw);
    let x = draw.argument(dtype, &dims, any(dtype));
    draw.case(op, vec![x])
}

pub(super) fn gate(draw: &mut Draw) -> Option<Case> {
    let op = draw.kind.pick(GluOp::ALL);
    let dtype = draw.dtype(super::super::cases::FLOATS);
    // Of a gate that nearly closes, one device has a small number and another zero, which infinity times makes NaN.
    let (gates, ups) = match draw.fine.chance(50) {
        true => (Numbers::within(-4.0, 4.0).with(Special::NotFinite), Special::NotFinite),
        false => (Numbers::within(-20.0, 20.0).with(Special::Finite), Special::Subnormal),
    };
    let args = pair(draw, dtype, gates, plain(dtype).with(ups));
    draw.case(Op::Glu(op), args)
}

pub(super) fn fused(draw: &mut Draw) -> Option<Case> {
    let kind = draw.kind.below(fused_pointwise::KINDS);
    let dtype = draw.dtype(DType::DENSE);
    let numbers = match dtype.kind() {
        DTypeKind::Int => any(dtype),
        // Quotients whose parts nearly cancel have few places in common.
        DTypeKind::Complex => Numbers::within(-1.0, 1.0).with(Special::Zeros),
        _ => plain(dtype),
    };
    let args = pair(draw, dtype, numbers, numbers);
    draw.case(fused_pointwise::of_two(kind, dtype), args)
}

pub(super) fn cast(draw: &mut Draw) -> Option<Case> {
    let (from, to) = (draw.dtype(DType::DENSE), draw.dtype(DType::DENSE));
    let dims = shape(draw);
    let numbers = if draw.fine.chance(50) { plain(from) } else { any(from) };
    let x = draw.argument(from, &dims, numbers);
    draw.case(Op::Cast(Cast { to }), vec![x])
}

pub(super) fn copy(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(DType::DENSE);
    let dims = shape(draw);
    let x = draw.argument(dtype, &dims, any(dtype));
    draw.case(Op::Copy(CopyOp), vec![x])
}

pub(super) fn create(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(DType::DENSE);
    let dims = shape(draw);
    let shape = Shape::new(dims.as_slice()).ok()?;
    let fine = &mut draw.fine;
    let (x, n) = (fine.between(-9.0, 9.0), fine.below(100) as i64);
    // Distributions are five, of which some have few dtypes.
    let op = match draw.kind.below(5) {
        0 => {
            let special = [0.0, -0.0, f64::INFINITY, f64::NAN, 1e30][fine.below(5)];
            let value = [Scalar::Float(x), Scalar::Int(n), Scalar::Bool(true), Scalar::Float(special)];
            Op::Fill(Fill { shape, dtype, value: fine.pick(&value) })
        }
        1 => {
            let len = dims.first().copied().unwrap_or(5);
            let real = dtype.is_float() && fine.chance(50);
            let (start, step) = match real {
                true => (Scalar::Float(x), Scalar::Float(fine.between(-1.0, 1.0))),
                false => (Scalar::Int(n), Scalar::Int(fine.below(7) as i64)),
            };
            Op::Arange(Arange { start, step, len, dtype })
        }
        _ => {
            let low =
                fine.below(200) as i64 - if dtype == DType::U8 || dtype == DType::U32 { 0 } else { 100 };
            let distribution = [
                Distribution::Uniform { low: x, high: x + 2.0 },
                Distribution::Normal { mean: x, std: 2.0 },
                Distribution::Integer { low, high: low + 1 + n },
                Distribution::Bernoulli { p: x.abs() / 9.0 },
                Distribution::Permutation {},
            ][draw.kind.below(5)];
            let key = PhiloxKey { seed: fine.next(), offset: fine.next() >> fine.below(64) };
            Op::Random(Random { distribution, shape, dtype, key })
        }
    };
    draw.case(op, vec![])
}

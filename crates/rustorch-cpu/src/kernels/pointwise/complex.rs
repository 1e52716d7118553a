//! Pointwise functions of complex numbers. Functions beyond addition and multiplication are computed in double
//! precision; branch cuts are those of C.

use super::each;
use crate::math::complex;
use num_complex::{Complex, ComplexFloat};
use rustorch_core::{BinaryOp, C128, CompareOp, Element, UnaryOp};
use std::ops::{Add, Mul, Neg, Sub};

/// A complex number type.
pub(super) trait Number:
    Element + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// The type of its parts.
    type Part: Element;
    fn widen(self) -> C128;
    fn narrow(z: C128) -> Self;
    fn conjugate(self) -> Self;
    fn narrow_part(x: f64) -> Self::Part;
}

macro_rules! numbers {
    ($($part:ty),*) => {$(
        impl Number for Complex<$part> {
            type Part = $part;
            #[inline(always)]
            fn widen(self) -> C128 {
                C128::new(self.re.into(), self.im.into())
            }
            #[inline(always)]
            fn narrow(z: C128) -> Self {
                Complex::new(z.re as $part, z.im as $part)
            }
            #[inline(always)]
            fn conjugate(self) -> Self {
                self.conj()
            }
            #[inline(always)]
            fn narrow_part(x: f64) -> $part {
                x as $part
            }
        }
    )*};
}

numbers!(f32, f64);

/// `Abs`, `Real`, `Imag` or `Angle`.
pub(super) fn part<T: Number>(op: UnaryOp, x: &[T], out: &mut [T::Part]) {
    each!(out, x in x => {
        let z = x.widen();
        T::narrow_part(match op {
            UnaryOp::Abs => z.norm(),
            UnaryOp::Real => z.re,
            UnaryOp::Imag => z.im,
            _ => z.arg(),
        })
    });
}

pub(super) fn unary<T: Number>(op: UnaryOp, x: &[T], out: &mut [T]) {
    match op {
        UnaryOp::Neg => each!(out, x in x => -x),
        UnaryOp::Square => each!(out, x in x => x * x),
        UnaryOp::Conj => each!(out, x in x => x.conjugate()),
        _ => each!(out, x in x => T::narrow(function(op, x.widen()))),
    }
}

fn function(op: UnaryOp, z: C128) -> C128 {
    let one = C128::new(1.0, 0.0);
    match op {
        UnaryOp::Exp => z.exp(),
        UnaryOp::Log => complex::ln(z),
        UnaryOp::Log2 => complex::ln(z) * std::f64::consts::LOG2_E,
        UnaryOp::Log10 => complex::ln(z) * std::f64::consts::LOG10_E,
        UnaryOp::Sqrt => complex::sqrt(z),
        UnaryOp::Rsqrt => divide(one, complex::sqrt(z)),
        UnaryOp::Reciprocal => divide(one, z),
        UnaryOp::Sin => z.sin(),
        UnaryOp::Cos => z.cos(),
        UnaryOp::Tan => complex::tan(z),
        UnaryOp::Asin => complex::asin(z),
        UnaryOp::Acos => complex::acos(z),
        UnaryOp::Atan => complex::atan(z),
        UnaryOp::Sinh => z.sinh(),
        UnaryOp::Cosh => z.cosh(),
        UnaryOp::Tanh => complex::tanh(z),
        UnaryOp::Asinh => complex::asinh(z),
        UnaryOp::Acosh => complex::acosh(z),
        UnaryOp::Atanh => complex::atanh(z),
        UnaryOp::Sigmoid => divide(one, one + (-z).exp()),
        UnaryOp::Silu => divide(z, one + (-z).exp()),
        _ => unreachable!("{} is not inferred for complex numbers", op.name()),
    }
}

/// Division that neither overflows nor underflows on the way (Smith, 1962).
fn divide(a: C128, b: C128) -> C128 {
    if b.re.abs() >= b.im.abs() {
        if b.re == 0.0 && b.im == 0.0 {
            return C128::new(a.re / b.re.abs(), a.im / b.re.abs());
        }
        let ratio = b.im / b.re;
        let scale = 1.0 / (b.re + b.im * ratio);
        C128::new((a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale)
    } else {
        let ratio = b.re / b.im;
        let scale = 1.0 / (b.re * ratio + b.im);
        C128::new((a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale)
    }
}

pub(super) fn binary<T: Number>(op: BinaryOp, a: &[T], b: &[T], out: &mut [T]) -> bool {
    match op {
        BinaryOp::Add => each!(out, a in a, b in b => a + b),
        BinaryOp::Sub => each!(out, a in a, b in b => a - b),
        BinaryOp::Mul => each!(out, a in a, b in b => a * b),
        BinaryOp::Div => each!(out, a in a, b in b => T::narrow(divide(a.widen(), b.widen()))),
        BinaryOp::Pow => each!(out, a in a, b in b => T::narrow(power(a.widen(), b.widen()))),
        _ => unreachable!("{} is not inferred for complex numbers", op.name()),
    }
    true
}

fn power(a: C128, b: C128) -> C128 {
    let (zero, one) = (C128::new(0.0, 0.0), C128::new(1.0, 0.0));
    if b == zero {
        one
    } else if a == zero {
        if b.re > 0.0 { zero } else { C128::new(f64::NAN, f64::NAN) }
    } else {
        (b * complex::ln(a)).exp()
    }
}

pub(super) fn compare<T: Number>(op: CompareOp, a: &[T], b: &[T], out: &mut [bool]) {
    match op {
        CompareOp::Eq => each!(out, a in a, b in b => a == b),
        CompareOp::Ne => each!(out, a in a, b in b => a != b),
        _ => unreachable!("{} is not inferred for complex numbers", op.name()),
    }
}

pub(super) fn property<T: Number>(op: UnaryOp, x: &[T], out: &mut [bool]) {
    each!(out, x in x => {
        let z = x.widen();
        match op {
            UnaryOp::LogicalNot => z == C128::new(0.0, 0.0),
            UnaryOp::IsNan => z.is_nan(),
            UnaryOp::IsInf => z.is_infinite(),
            _ => z.is_finite(),
        }
    });
}

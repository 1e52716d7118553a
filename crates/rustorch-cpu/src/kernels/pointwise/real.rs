//! Pointwise functions of `f32` and `f64`.

use super::{Ordered, each, has};
use crate::kernels::strided::Side;
use crate::math::Real;
use crate::simd::{self, Level, Task};
use rustorch_core::{BinaryOp, CompareOp, UnaryOp};

pub(super) fn unary<T: Real>(op: UnaryOp, x: &[T], out: &mut [T]) {
    simd::run(Unary(op, x, out));
}

pub(super) fn binary<T: Real>(op: BinaryOp, a: &[T], b: &[T], out: &mut [T]) -> bool {
    simd::run(Binary(op, a, b, out));
    true
}

pub(super) fn scalar<T: Real>(op: BinaryOp, side: Side, scalar: T, x: &[T], out: &mut [T]) {
    simd::run(Scalar { op, side, scalar, x, out });
}

pub(super) fn compare<T: Real>(op: CompareOp, a: &[T], b: &[T], out: &mut [bool]) {
    simd::run(Ordered(op, a, b, out));
}

pub(super) fn property<T: Real>(op: UnaryOp, x: &[T], out: &mut [bool]) {
    each!(out, x in x => has(op, x));
}

struct Unary<'a, T>(UnaryOp, &'a [T], &'a mut [T]);

impl<T: Real> Task for Unary<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Unary(op, xs, out) = self;
        use UnaryOp::*;
        match op {
            Neg => each!(out, x in xs => -x),
            Abs => each!(out, x in xs => x.abs()),
            // NaN is neither above nor below zero.
            Sign => each!(out, x in xs => {
                let sign = if x > T::ZERO { T::ONE } else { T::ZERO };
                if x < T::ZERO { -T::ONE } else { sign }
            }),
            Floor => each!(out, x in xs => x.floor()),
            Ceil => each!(out, x in xs => x.ceil()),
            Round => each!(out, x in xs => x.round()),
            Trunc => each!(out, x in xs => x.trunc()),
            Exp => by_blocks(xs, out, T::exp_is_normal, |x| x.exp_within(l), |x| x.exp(l)),
            Expm1 => each!(out, x in xs => x.expm1(l)),
            Log => by_blocks(xs, out, T::is_positive_normal, |x| x.ln_normal(l), |x| x.ln(l)),
            Log2 => each!(out, x in xs => x.log2(l)),
            Log10 => each!(out, x in xs => x.log10(l)),
            Log1p => each!(out, x in xs => x.log1p(l)),
            Sqrt => each!(out, x in xs => x.sqrt()),
            Rsqrt => each!(out, x in xs => T::ONE / x.sqrt()),
            Reciprocal => each!(out, x in xs => T::ONE / x),
            Square => each!(out, x in xs => x * x),
            Sin => {
                each!(out, x in xs => x.sin(l));
                mend(xs, out, T::far_sin);
            }
            Cos => {
                each!(out, x in xs => x.cos(l));
                mend(xs, out, T::far_cos);
            }
            Tan => {
                each!(out, x in xs => x.tan(l));
                mend(xs, out, T::far_tan);
            }
            Asin => each!(out, x in xs => x.asin(l)),
            Acos => each!(out, x in xs => x.acos(l)),
            Atan => each!(out, x in xs => x.atan(l)),
            Sinh => each!(out, x in xs => x.sinh(l)),
            Cosh => each!(out, x in xs => x.cosh(l)),
            Tanh => each!(out, x in xs => x.tanh(l)),
            Asinh => each!(out, x in xs => x.asinh(l)),
            Acosh => each!(out, x in xs => x.acosh(l)),
            Atanh => each!(out, x in xs => x.atanh(l)),
            Erf => each!(out, x in xs => x.erf(l)),
            Erfinv => each!(out, x in xs => x.erfinv()),
            Erfc => each!(out, x in xs => x.erfc()),
            Lgamma => each!(out, x in xs => x.lgamma()),
            Digamma => each!(out, x in xs => x.digamma()),
            Trigamma => each!(out, x in xs => x.trigamma()),
            Sigmoid => each!(out, x in xs => x.sigmoid(l)),
            Relu => each!(out, x in xs => if x < T::ZERO { T::ZERO } else { x }),
            Gelu => each!(out, x in xs => x.gelu(l)),
            GeluTanh => each!(out, x in xs => x.gelu_tanh(l)),
            Silu => each!(out, x in xs => x.silu(l)),
            Softplus => each!(out, x in xs => x.softplus(l)),
            LogicalNot | BitwiseNot | IsNan | IsInf | IsFinite | Conj | Real | Imag | Angle => {
                unreachable!("{} is not inferred for floats with a float result", op.name())
            }
        }
    }
}

/// Computes blocks of arguments that are all usual by a function that is quicker for them, and others by the one for any.
#[inline(always)]
fn by_blocks<T: Real>(
    xs: &[T],
    out: &mut [T],
    is_usual: impl Fn(T) -> bool,
    usual: impl Fn(T) -> T,
    any: impl Fn(T) -> T,
) {
    const BLOCK: usize = 256;
    for (xs, out) in xs.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        match xs.iter().fold(true, |all, &x| all & is_usual(x)) {
            true => each!(out, x in xs => usual(x)),
            false => each!(out, x in xs => any(x)),
        }
    }
}

/// Computes anew where arguments are too large for the vector code.
fn mend<T: Real>(xs: &[T], out: &mut [T], f: impl Fn(T) -> T) {
    if xs.iter().fold(false, |far, x| far | x.is_far()) {
        for (out, &x) in out.iter_mut().zip(xs) {
            if x.is_far() {
                *out = f(x);
            }
        }
    }
}

struct Binary<'a, T>(BinaryOp, &'a [T], &'a [T], &'a mut [T]);

impl<T: Real> Task for Binary<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Binary(op, xs, ys, out) = self;
        use BinaryOp::*;
        match op {
            Add => each!(out, a in xs, b in ys => a + b),
            Sub => each!(out, a in xs, b in ys => a - b),
            Mul => each!(out, a in xs, b in ys => a * b),
            Div => each!(out, a in xs, b in ys => a / b),
            FloorDiv => each!(out, a in xs, b in ys => a.floor_div(b)),
            Remainder => each!(out, a in xs, b in ys => a.remainder(b)),
            Pow => each!(out, a in xs, b in ys => a.pow(l, b)),
            Maximum => each!(out, a in xs, b in ys => a.larger(b)),
            Minimum => each!(out, a in xs, b in ys => a.smaller(b)),
            Atan2 => each!(out, a in xs, b in ys => a.atan2(l, b)),
            LogAddExp => T::log_add_exp(l, xs, ys, out),
            BitwiseAnd | BitwiseOr | BitwiseXor | ShiftLeft | ShiftRight => {
                unreachable!("{} is not inferred for floats", op.name())
            }
        }
    }
}

/// A binary op one operand of which is a scalar.
struct Scalar<'a, T> {
    op: BinaryOp,
    side: Side,
    scalar: T,
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Task for Scalar<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        use BinaryOp::*;
        match self.op {
            Add => self.each(|a, b| a + b),
            Sub => self.each(|a, b| a - b),
            Mul => self.each(|a, b| a * b),
            Div => self.each(|a, b| a / b),
            Maximum => self.each(|a, b| a.larger(b)),
            Minimum => self.each(|a, b| a.smaller(b)),
            op => unreachable!("{} has no kernel for scalars", op.name()),
        }
    }
}

impl<T: Real> Scalar<'_, T> {
    #[inline(always)]
    fn each(self, f: impl Fn(T, T) -> T) {
        let Scalar { side, scalar, x, out, .. } = self;
        match side {
            Side::Left => each!(out, x in x => f(scalar, x)),
            Side::Right => each!(out, x in x => f(x, scalar)),
        }
    }
}

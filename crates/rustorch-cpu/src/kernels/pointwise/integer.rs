//! Pointwise functions of the integers. Overflow wraps.

use super::{Ordered, each};
use crate::simd::{self, Level, Task};
use rustorch_core::{BinaryOp, CompareOp, Element, UnaryOp};

/// What an integer type needs for the functions here.
pub(crate) trait Integer: Element + Ord {
    const ZERO: Self;
    const ONE: Self;
    fn negate(self) -> Self;
    fn magnitude(self) -> Self;
    fn invert(self) -> Self;
    fn plus(self, b: Self) -> Self;
    fn minus(self, b: Self) -> Self;
    fn times(self, b: Self) -> Self;
    /// Rounded down; `b` is not zero.
    fn floor_div(self, b: Self) -> Self;
    /// With the sign of `b`, which is not zero.
    fn remainder(self, b: Self) -> Self;
    fn power(self, b: Self) -> Self;
    fn and(self, b: Self) -> Self;
    fn or(self, b: Self) -> Self;
    fn xor(self, b: Self) -> Self;
    fn shift_left(self, b: Self) -> Self;
    fn shift_right(self, b: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Integer for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            #[inline(always)]
            fn negate(self) -> $t {
                self.wrapping_neg()
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "unsigned types are their own magnitude")]
            fn magnitude(self) -> $t {
                if self < 0 { self.wrapping_neg() } else { self }
            }
            #[inline(always)]
            fn invert(self) -> $t {
                !self
            }
            #[inline(always)]
            fn plus(self, b: $t) -> $t {
                self.wrapping_add(b)
            }
            #[inline(always)]
            fn minus(self, b: $t) -> $t {
                self.wrapping_sub(b)
            }
            #[inline(always)]
            fn times(self, b: $t) -> $t {
                self.wrapping_mul(b)
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "unsigned quotients need no correction")]
            fn floor_div(self, b: $t) -> $t {
                let quotient = self.wrapping_div(b);
                let inexact = self.wrapping_rem(b) != 0;
                if inexact && (self < 0) != (b < 0) { quotient - 1 } else { quotient }
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "unsigned remainders need no correction")]
            fn remainder(self, b: $t) -> $t {
                let rest = self.wrapping_rem(b);
                if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "only signed exponents can be negative")]
            fn power(self, b: $t) -> $t {
                if b < 0 {
                    // The rounded-to-zero reciprocal: only ±1 have one other than 0.
                    return match self {
                        1 => 1,
                        x if x == (0 as $t).wrapping_sub(1) => if b & 1 == 0 { 1 } else { x },
                        _ => 0,
                    };
                }
                let (mut base, mut rest, mut power) = (self, b, 1 as $t);
                while rest != 0 {
                    if rest & 1 == 1 {
                        power = power.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    rest >>= 1;
                }
                power
            }
            #[inline(always)]
            fn and(self, b: $t) -> $t {
                self & b
            }
            #[inline(always)]
            fn or(self, b: $t) -> $t {
                self | b
            }
            #[inline(always)]
            fn xor(self, b: $t) -> $t {
                self ^ b
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "only signed widths can be negative")]
            fn shift_left(self, b: $t) -> $t {
                if b < 0 || b >= <$t>::BITS as $t { 0 } else { self << b }
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "only signed numbers have a sign to fill with")]
            fn shift_right(self, b: $t) -> $t {
                if b < 0 || b >= <$t>::BITS as $t {
                    if self < 0 { !0 } else { 0 }
                } else {
                    self >> b
                }
            }
        }
    )*};
}

integers!(u8, i8, i16, i32, u32, i64);

pub(super) fn unary<T: Integer>(op: UnaryOp, x: &[T], out: &mut [T]) {
    simd::run(Unary(op, x, out));
}

pub(super) fn binary<T: Integer>(op: BinaryOp, a: &[T], b: &[T], out: &mut [T]) -> bool {
    simd::run(Binary(op, a, b, out))
}

pub(super) fn compare<T: Integer>(op: CompareOp, a: &[T], b: &[T], out: &mut [bool]) {
    simd::run(Ordered(op, a, b, out));
}

pub(super) fn property<T: Integer>(op: UnaryOp, x: &[T], out: &mut [bool]) {
    match op {
        UnaryOp::LogicalNot => each!(out, x in x => x == T::ZERO),
        _ => out.fill(op == UnaryOp::IsFinite),
    }
}

struct Unary<'a, T>(UnaryOp, &'a [T], &'a mut [T]);

impl<T: Integer> Task for Unary<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Unary(op, xs, out) = self;
        match op {
            UnaryOp::Neg => each!(out, x in xs => x.negate()),
            UnaryOp::Square => each!(out, x in xs => x.times(x)),
            UnaryOp::Abs => each!(out, x in xs => x.magnitude()),
            UnaryOp::Sign => each!(out, x in xs => {
                let sign = if x > T::ZERO { T::ONE } else { T::ZERO };
                if x < T::ZERO { T::ONE.negate() } else { sign }
            }),
            UnaryOp::Relu => each!(out, x in xs => x.max(T::ZERO)),
            UnaryOp::BitwiseNot => each!(out, x in xs => x.invert()),
            _ => unreachable!("{} is not inferred for integers", op.name()),
        }
    }
}

struct Binary<'a, T>(BinaryOp, &'a [T], &'a [T], &'a mut [T]);

impl<T: Integer> Task for Binary<'_, T> {
    type Output = bool;
    #[inline(always)]
    fn run<L: Level>(self, _: L) -> bool {
        let Binary(op, xs, ys, out) = self;
        use BinaryOp::*;
        if matches!(op, FloorDiv | Remainder) && ys.contains(&T::ZERO) {
            // The operation fails; the output is still plain data.
            out.fill(T::ZERO);
            return false;
        }
        match op {
            Add => each!(out, a in xs, b in ys => a.plus(b)),
            Sub => each!(out, a in xs, b in ys => a.minus(b)),
            Mul => each!(out, a in xs, b in ys => a.times(b)),
            FloorDiv => each!(out, a in xs, b in ys => a.floor_div(b)),
            Remainder => each!(out, a in xs, b in ys => a.remainder(b)),
            Pow => each!(out, a in xs, b in ys => a.power(b)),
            Maximum => each!(out, a in xs, b in ys => a.max(b)),
            Minimum => each!(out, a in xs, b in ys => a.min(b)),
            BitwiseAnd => each!(out, a in xs, b in ys => a.and(b)),
            BitwiseOr => each!(out, a in xs, b in ys => a.or(b)),
            BitwiseXor => each!(out, a in xs, b in ys => a.xor(b)),
            ShiftLeft => each!(out, a in xs, b in ys => a.shift_left(b)),
            ShiftRight => each!(out, a in xs, b in ys => a.shift_right(b)),
            Div | Atan2 | LogAddExp => unreachable!("{} is not inferred for integers", op.name()),
        }
        true
    }
}

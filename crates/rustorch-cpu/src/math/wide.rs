//! Accumulation types: `f32` for 16-bit floats, others themselves.

use super::Real;
use crate::simd::{self, Level, Task, from_bf16, to_bf16};
use rustorch_core::{BinaryOp, Element, bf16, f16};

/// A float with the type in which kernels compute it.
pub(crate) trait Wide: Element {
    /// `f32`, or `f64` for itself.
    type Acc: Real;
    /// The numbers as `Acc`: borrowed, or converted into `scratch`.
    fn widen<'s>(x: &'s [Self], scratch: &'s mut Vec<Self::Acc>) -> &'s [Self::Acc];
    /// Runs `fill` on the output, or on `scratch`, which is rounded to it afterwards. `fill` writes before it reads.
    fn narrow(out: &mut [Self], scratch: &mut Vec<Self::Acc>, fill: impl FnOnce(&mut [Self::Acc]));
}

/// A 16-bit float.
pub(crate) trait Half: Element {
    /// To `f32`, for slices of equal length.
    fn widen_all(x: &[Self], out: &mut [f32]);
    /// From `f32`, to nearest even.
    fn narrow_all(x: &[f32], out: &mut [Self]);
    /// Sums, differences, products or quotients, converted in registers. `false`, and nothing is done, for other operations, and for `f16`,
    /// whose conversions compilers do not vectorise.
    fn arithmetic(_op: BinaryOp, _a: &[Self], _b: &[Self], _out: &mut [Self]) -> bool {
        false
    }
}

macro_rules! itself {
    ($($t:ty),*) => {$(
        impl Wide for $t {
            type Acc = $t;
            #[inline]
            fn widen<'s>(x: &'s [$t], _: &'s mut Vec<$t>) -> &'s [$t] {
                x
            }
            #[inline]
            fn narrow(out: &mut [$t], _: &mut Vec<$t>, fill: impl FnOnce(&mut [$t])) {
                fill(out);
            }
        }
    )*};
}

itself!(f32, f64);

macro_rules! through_f32 {
    ($($t:ty),*) => {$(
        impl Wide for $t {
            type Acc = f32;
            #[inline]
            fn widen<'s>(x: &'s [$t], scratch: &'s mut Vec<f32>) -> &'s [f32] {
                scratch.resize(x.len(), 0.0);
                <$t as Half>::widen_all(x, scratch);
                scratch
            }
            #[inline]
            fn narrow(out: &mut [$t], scratch: &mut Vec<f32>, fill: impl FnOnce(&mut [f32])) {
                scratch.resize(out.len(), 0.0);
                fill(scratch);
                <$t as Half>::narrow_all(scratch, out);
            }
        }
    )*};
}

through_f32!(f16, bf16);

impl Half for f16 {
    #[inline]
    fn widen_all(x: &[f16], out: &mut [f32]) {
        simd::run(Widen(x, out));
    }
    #[inline]
    fn narrow_all(x: &[f32], out: &mut [f16]) {
        simd::run(Narrow(x, out));
    }
}

impl Half for bf16 {
    #[inline]
    fn widen_all(x: &[bf16], out: &mut [f32]) {
        simd::run(WidenB(x, out));
    }
    #[inline]
    fn narrow_all(x: &[f32], out: &mut [bf16]) {
        simd::run(NarrowB(x, out));
    }
    fn arithmetic(op: BinaryOp, a: &[bf16], b: &[bf16], out: &mut [bf16]) -> bool {
        simd::run(Arithmetic(op, a, b, out))
    }
}

struct Widen<'a>(&'a [f16], &'a mut [f32]);
struct Narrow<'a>(&'a [f32], &'a mut [f16]);
struct WidenB<'a>(&'a [bf16], &'a mut [f32]);
struct NarrowB<'a>(&'a [f32], &'a mut [bf16]);
struct Arithmetic<'a>(BinaryOp, &'a [bf16], &'a [bf16], &'a mut [bf16]);

impl Task for Widen<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        l.widen(self.0, self.1);
    }
}

impl Task for Narrow<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        l.narrow(self.0, self.1);
    }
}

impl Task for WidenB<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        for (x, out) in self.0.iter().zip(self.1) {
            *out = from_bf16(*x);
        }
    }
}

impl Task for NarrowB<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        for (x, out) in self.0.iter().zip(self.1) {
            *out = to_bf16(*x);
        }
    }
}

impl Task for Arithmetic<'_> {
    type Output = bool;
    #[inline(always)]
    fn run<L: Level>(self, _: L) -> bool {
        match self.0 {
            BinaryOp::Add => self.pairs(|a, b| a + b),
            BinaryOp::Sub => self.pairs(|a, b| a - b),
            BinaryOp::Mul => self.pairs(|a, b| a * b),
            BinaryOp::Div => self.pairs(|a, b| a / b),
            _ => return false,
        }
        true
    }
}

impl Arithmetic<'_> {
    #[inline(always)]
    fn pairs(self, f: impl Fn(f32, f32) -> f32) {
        let Arithmetic(_, a, b, out) = self;
        for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
            *out = to_bf16(f(from_bf16(a), from_bf16(b)));
        }
    }
}

//! Pointwise kernels: unary, binary, ternary.
//!
//! A function is written once for `f32` and `f64` ([`real`]), once for the integers ([`integer`]), once for complex
//! numbers ([`complex`]); 16-bit floats go through `f32`, block by block.

mod cast;
mod complex;
mod fused;
mod half;
mod integer;
pub(crate) mod packed;
mod real;
mod select;

pub(super) use cast::{cast, decode_run};
pub(super) use fused::fused;
pub(super) use select::{clamp, gate, select};

use super::strided::{Side, for_scalar_rows, map1, map2, unreachable_memory};
use crate::ThreadPool;
use crate::math::Real;
use crate::simd::{self, Level, Task};
use rustorch_core::{
    BinaryOp, C64, C128, CompareOp, DTypeKind, Element, Error, Fault, UnaryOp, View, ViewMut, bf16,
    dispatch_dtype, f16,
};
use std::sync::atomic::{AtomicBool, Ordering};

/// Elements that make a thread worth its while: for arithmetic, and for functions that take longer.
const GRAIN: usize = 1 << 15;
const LONG_GRAIN: usize = 1 << 12;

/// Elements for which there are pointwise functions.
pub(crate) trait Pointwise: Element {
    /// A function with a result of the same type; `out` and `x` have one length.
    fn unary(op: UnaryOp, x: &[Self], out: &mut [Self]);
    /// A binary op. `false` if an integer was to be divided by zero.
    fn binary(op: BinaryOp, a: &[Self], b: &[Self], out: &mut [Self]) -> bool;
    /// A comparison.
    fn compare(op: CompareOp, a: &[Self], b: &[Self], out: &mut [bool]);
    /// A property: `LogicalNot`, `IsNan`, `IsInf` or `IsFinite`.
    fn property(op: UnaryOp, x: &[Self], out: &mut [bool]);
}

/// Elements whose arithmetic has kernels for a scalar.
trait WithScalar: Element {
    /// A binary op of [`has_scalar`] with a scalar on one side.
    fn scalar(op: BinaryOp, side: Side, scalar: Self, x: &[Self], out: &mut [Self]);
}

/// The elements that make a thread worth its while.
fn unary_grain(op: UnaryOp) -> usize {
    use UnaryOp::*;
    match op {
        Neg | Abs | Sign | Floor | Ceil | Round | Trunc | Square | Relu | LogicalNot | BitwiseNot | IsNan
        | IsInf | IsFinite | Conj | Real | Imag | Sqrt => GRAIN,
        _ => LONG_GRAIN,
    }
}

/// The elements that make a thread worth its while.
fn binary_grain(op: BinaryOp) -> usize {
    match op {
        BinaryOp::Pow | BinaryOp::Atan2 | BinaryOp::LogAddExp | BinaryOp::FloorDiv | BinaryOp::Remainder => {
            LONG_GRAIN
        }
        _ => GRAIN,
    }
}

/// Whether there is a kernel for rows of floats with a scalar: of those whose time is that of memory, which a buffer full of the scalar would
/// take as well.
fn has_scalar(op: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(op, Add | Sub | Mul | Div | Maximum | Minimum)
}

pub(super) fn unary(
    pool: &ThreadPool,
    op: UnaryOp,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    use UnaryOp::*;
    let grain = unary_grain(op);
    if matches!(op, LogicalNot | IsNan | IsInf | IsFinite) {
        return dispatch_dtype!(x.dtype(), all, T => {
            map1(pool, out, x, grain, &|x: &[T], out| T::property(op, x, out))
        }, _ => Err(unreachable_memory()));
    }
    if x.dtype().kind() == DTypeKind::Complex && matches!(op, Abs | Real | Imag | Angle) {
        return dispatch_dtype!(x.dtype(), complex, T => {
            map1(pool, out, x, grain, &|x: &[T], out| complex::part(op, x, out))
        }, _ => Err(unreachable_memory()));
    }
    dispatch_dtype!(x.dtype(), all, T => {
        map1(pool, out, x, grain, &|x: &[T], out| T::unary(op, x, out))
    }, _ => Err(unreachable_memory()))
}

pub(super) fn binary(
    pool: &ThreadPool,
    op: BinaryOp,
    [a, b]: [&View<'_>; 2],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let grain = binary_grain(op);
    let divided = AtomicBool::new(true);
    if has_scalar(op) {
        let done = dispatch_dtype!(a.dtype(), float, T => {
            let each = |side, scalar: T, x: &[T], out: &mut [T]| T::scalar(op, side, scalar, x, out);
            for_scalar_rows(pool, out, [a, b], grain, &each)?
        }, _ => false);
        if done {
            return Ok(());
        }
    }
    dispatch_dtype!(a.dtype(), all, T => {
        map2(pool, out, (a, b), grain, &|a: &[T], b: &[T], out: &mut [T]| {
            if !T::binary(op, a, b, out) {
                divided.store(false, Ordering::Relaxed);
            }
        })
    }, _ => Err(unreachable_memory()))?;
    checked(op, divided.into_inner())
}

/// The sums of pairs, for slices of equal length.
pub(super) fn add<T: Pointwise>(a: &[T], b: &[T], out: &mut [T]) {
    // The flag is of divisions.
    T::binary(BinaryOp::Add, a, b, out);
}

/// The outcome of [`Pointwise::binary`].
fn checked(op: BinaryOp, divided: bool) -> Result<(), Fault> {
    if divided {
        Ok(())
    } else {
        Err(Error::argument(op.name(), "an integer is divided by zero; check the divisor or cast to a float")
            .into())
    }
}

pub(super) fn compare(
    pool: &ThreadPool,
    op: CompareOp,
    [a, b]: [&View<'_>; 2],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    dispatch_dtype!(a.dtype(), all, T => {
        map2(pool, out, (a, b), GRAIN, &|a: &[T], b: &[T], out| T::compare(op, a, b, out))
    }, _ => Err(unreachable_memory()))
}

/// Writes `$value` of each `$x` (and `$y`) to the output.
macro_rules! each {
    ($out:expr, $x:ident in $xs:expr => $value:expr) => {
        for (out, &$x) in $out.iter_mut().zip($xs) {
            *out = $value;
        }
    };
    ($out:expr, $x:ident in $xs:expr, $y:ident in $ys:expr => $value:expr) => {
        for ((out, &$x), &$y) in $out.iter_mut().zip($xs).zip($ys) {
            *out = $value;
        }
    };
}
use each;

/// A comparison of elements that have an order.
struct Ordered<'a, T>(CompareOp, &'a [T], &'a [T], &'a mut [bool]);

impl<T: Element + PartialOrd> Task for Ordered<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Ordered(op, xs, ys, out) = self;
        match op {
            CompareOp::Eq => each!(out, a in xs, b in ys => a == b),
            CompareOp::Ne => each!(out, a in xs, b in ys => a != b),
            CompareOp::Lt => each!(out, a in xs, b in ys => a < b),
            CompareOp::Le => each!(out, a in xs, b in ys => a <= b),
            CompareOp::Gt => each!(out, a in xs, b in ys => a > b),
            CompareOp::Ge => each!(out, a in xs, b in ys => a >= b),
        }
    }
}

impl Pointwise for bool {
    fn unary(op: UnaryOp, x: &[bool], out: &mut [bool]) {
        match op {
            UnaryOp::BitwiseNot => each!(out, x in x => !x),
            _ => unreachable!("{} is not inferred for bool", op.name()),
        }
    }

    fn binary(op: BinaryOp, a: &[bool], b: &[bool], out: &mut [bool]) -> bool {
        match op {
            BinaryOp::Add | BinaryOp::Maximum | BinaryOp::BitwiseOr => each!(out, a in a, b in b => a | b),
            BinaryOp::Mul | BinaryOp::Minimum | BinaryOp::BitwiseAnd => each!(out, a in a, b in b => a & b),
            BinaryOp::BitwiseXor => each!(out, a in a, b in b => a ^ b),
            _ => unreachable!("{} is not inferred for bool", op.name()),
        }
        true
    }

    fn compare(op: CompareOp, a: &[bool], b: &[bool], out: &mut [bool]) {
        simd::run(Ordered(op, a, b, out));
    }

    fn property(op: UnaryOp, x: &[bool], out: &mut [bool]) {
        match op {
            UnaryOp::LogicalNot => each!(out, x in x => !x),
            _ => out.fill(op == UnaryOp::IsFinite),
        }
    }
}

/// Whether a float has the property.
#[inline(always)]
fn has<T: Real>(op: UnaryOp, x: T) -> bool {
    match op {
        UnaryOp::LogicalNot => x == T::ZERO,
        UnaryOp::IsNan => x.is_nan(),
        UnaryOp::IsInf => x.abs() == T::INFINITY,
        _ => x.abs() < T::INFINITY,
    }
}

macro_rules! implement {
    ($module:ident: $($t:ty),*) => {$(
        impl Pointwise for $t {
            fn unary(op: UnaryOp, x: &[$t], out: &mut [$t]) {
                $module::unary(op, x, out);
            }
            fn binary(op: BinaryOp, a: &[$t], b: &[$t], out: &mut [$t]) -> bool {
                $module::binary(op, a, b, out)
            }
            fn compare(op: CompareOp, a: &[$t], b: &[$t], out: &mut [bool]) {
                $module::compare(op, a, b, out);
            }
            fn property(op: UnaryOp, x: &[$t], out: &mut [bool]) {
                $module::property(op, x, out);
            }
        }
    )*};
}

implement!(real: f32, f64);
implement!(integer: u8, i8, i16, i32, u32, i64);
implement!(half: f16, bf16);
implement!(complex: C64, C128);

macro_rules! with_scalar {
    ($module:ident: $($t:ty),*) => {$(
        impl WithScalar for $t {
            fn scalar(op: BinaryOp, side: Side, scalar: $t, x: &[$t], out: &mut [$t]) {
                $module::scalar(op, side, scalar, x, out);
            }
        }
    )*};
}

with_scalar!(real: f32, f64);
with_scalar!(half: f16, bf16);

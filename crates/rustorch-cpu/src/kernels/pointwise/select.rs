//! Where, clamp and gated linear units.

use super::{GRAIN, LONG_GRAIN, each};
use crate::ThreadPool;
use crate::kernels::strided::{map1, map2, map3, unreachable_memory};
use crate::math::Real;
use crate::simd::{self, Level, Task};
use rustorch_core::{Element, Fault, FromScalar, GluOp, Scalar, View, ViewMut, bf16, dispatch_dtype, f16};

/// `where`.
pub(crate) fn select(
    pool: &ThreadPool,
    [condition, a, b]: [&View<'_>; 3],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    dispatch_dtype!(a.dtype(), all, T => {
        map3(pool, out, (condition, a, b), GRAIN, &|c: &[bool], a: &[T], b: &[T], out| choose(c, a, b, out))
    }, _ => Err(unreachable_memory()))
}

/// `a` where the condition holds, else `b`, for slices of equal length.
pub(super) fn choose<T: Element>(condition: &[bool], a: &[T], b: &[T], out: &mut [T]) {
    simd::run(Select(condition, a, b, out));
}

struct Select<'a, T>(&'a [bool], &'a [T], &'a [T], &'a mut [T]);

impl<T: Element> Task for Select<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let n = self.3.len();
        let (c, a, b, out) = (&self.0[..n], &self.1[..n], &self.2[..n], self.3);
        for i in 0..n {
            let (x, y) = (a[i], b[i]);
            out[i] = if c[i] { x } else { y };
        }
    }
}

/// Keeps elements within bounds. The upper bound wins; NaN stays, and a NaN bound makes everything NaN.
pub(crate) fn clamp(
    pool: &ThreadPool,
    bounds: [Option<Scalar>; 2],
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    dispatch_dtype!(x.dtype(), real, T => {
        map1(pool, out, x, GRAIN, &|x: &[T], out| T::clamp_all(bounds, x, out))
    }, _ => Err(unreachable_memory()))
}

/// Elements with an order.
pub(super) trait Bounded: Element {
    /// [`clamp`] for slices of equal length.
    fn clamp_all(bounds: [Option<Scalar>; 2], x: &[Self], out: &mut [Self]);
}

macro_rules! bounded {
    ($($t:ty),*: $bounds:ident, $x:ident, $out:ident => $body:expr) => {$(
        impl Bounded for $t {
            fn clamp_all($bounds: [Option<Scalar>; 2], $x: &[$t], $out: &mut [$t]) {
                type T = $t;
                $body
            }
        }
    )*};
}

bounded!(u8, i8, i16, i32, u32, i64: bounds, x, out => {
    let near = |s: Scalar| T::try_from(s.to_i64()).unwrap_or(if s.to_i64() < 0 { T::MIN } else { T::MAX });
    let (low, high) = (bounds[0].map_or(T::MIN, near), bounds[1].map_or(T::MAX, near));
    simd::run(Limit([low, high], x, out));
});
bounded!(f32, f64: bounds, x, out => simd::run(Clamp(bounds.map(|bound| bound.map(T::from_scalar)), x, out)));
bounded!(f16, bf16: bounds, x, out => {
    let bounds = bounds.map(|bound| bound.map(|s| T::from_scalar(s).to_f32()));
    super::half::map(x, out, |x, out| simd::run(Clamp(bounds, x, out)));
});

struct Limit<'a, T>([T; 2], &'a [T], &'a mut [T]);

impl<T: Element + Ord> Task for Limit<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Limit([low, high], xs, out) = self;
        each!(out, x in xs => x.max(low).min(high));
    }
}

struct Clamp<'a, T>([Option<T>; 2], &'a [T], &'a mut [T]);

impl<T: Real> Task for Clamp<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Clamp([low, high], xs, out) = self;
        let (low, high) = (low.unwrap_or(T::NEG_INFINITY), high.unwrap_or(T::INFINITY));
        each!(out, x in xs => x.larger(low).smaller(high));
    }
}

/// `activation(gate) · up`.
pub(crate) fn gate(
    pool: &ThreadPool,
    op: GluOp,
    [gate, up]: [&View<'_>; 2],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    dispatch_dtype!(gate.dtype(), float, T => {
        map2(pool, out, (gate, up), LONG_GRAIN, &|g: &[T], u: &[T], out| T::gate_all(op, g, u, out))
    }, _ => Err(unreachable_memory()))
}

/// Elements that gates open for.
pub(super) trait Gated: Element {
    /// [`gate`] for slices of equal length.
    fn gate_all(op: GluOp, gates: &[Self], ups: &[Self], out: &mut [Self]);
}

macro_rules! gated {
    ($($t:ty),*: $op:ident, $gates:ident, $ups:ident, $out:ident => $body:expr) => {$(
        impl Gated for $t {
            fn gate_all($op: GluOp, $gates: &[$t], $ups: &[$t], $out: &mut [$t]) {
                $body
            }
        }
    )*};
}

gated!(f32, f64: op, gates, ups, out => simd::run(Glu(op, gates, ups, out)));
gated!(f16, bf16: op, gates, ups, out => {
    super::half::map2(gates, ups, out, |g, u, out| simd::run(Glu(op, g, u, out)));
});

struct Glu<'a, T>(GluOp, &'a [T], &'a [T], &'a mut [T]);

impl<T: Real> Task for Glu<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Glu(op, gates, ups, out) = self;
        match op {
            GluOp::Silu => each!(out, g in gates, u in ups => g.swish(l) * u),
            GluOp::Gelu => each!(out, g in gates, u in ups => g.gelu(l) * u),
            GluOp::GeluTanh => each!(out, g in gates, u in ups => g.gelu_tanh(l) * u),
            GluOp::Relu => each!(out, g in gates, u in ups => (if g < T::ZERO { T::ZERO } else { g }) * u),
        }
    }
}

//! Selection, clamping, and gated activations.

use super::half::map2;
use super::{GRAIN, LONG_GRAIN, each};
use crate::Pool;
use crate::kernels::strided::{map1, map2 as strided_map2, map3, unreachable_memory};
use crate::math::Real;
use crate::simd::{self, Level, Task};
use rustorch_core::{
    DType, Element, Fault, FromScalar, GateOp, Scalar, View, ViewMut, bf16, dispatch_dtype, f16,
};

/// `where`.
pub(crate) fn select(
    pool: &Pool,
    [condition, a, b]: [&View<'_>; 3],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    dispatch_dtype!(a.dtype(), all, T => {
        map3(pool, out, (condition, a, b), GRAIN, &|c: &[bool], a: &[T], b: &[T], out: &mut [T]| {
            simd::run(Select(c, a, b, out))
        })
    }, _ => Err(unreachable_memory()))
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
    pool: &Pool,
    [min, max]: [Option<Scalar>; 2],
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    dispatch_dtype!(x.dtype(), [U8 I8 I16 I32 U32 I64], T => {
        let low = min.map_or(T::MIN, |s| T::try_from(s.to_i64()).unwrap_or(if s.to_i64() < 0 { T::MIN } else { T::MAX }));
        let high = max.map_or(T::MAX, |s| T::try_from(s.to_i64()).unwrap_or(if s.to_i64() < 0 { T::MIN } else { T::MAX }));
        return map1(pool, out, x, GRAIN, &|x: &[T], out: &mut [T]| each!(out, x in x => x.max(low).min(high)));
    }, _ => {});
    dispatch_dtype!(x.dtype(), [F32 F64], T => {
        let bounds = [min, max].map(|bound| bound.map(T::from_scalar));
        return map1(pool, out, x, GRAIN, &|x: &[T], out: &mut [T]| simd::run(Clamp(bounds, x, out)));
    }, _ => {});
    dispatch_dtype!(x.dtype(), [F16 BF16], T => {
        let bounds = [min, max].map(|bound| bound.map(|s| T::from_scalar(s).to_f32()));
        map1(pool, out, x, GRAIN, &|x: &[T], out: &mut [T]| {
            super::half::map(x, out, |x, out| simd::run(Clamp(bounds, x, out)));
        })
    }, _ => Err(unreachable_memory()))
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
    pool: &Pool,
    op: GateOp,
    [gate, up]: [&View<'_>; 2],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    match gate.dtype() {
        DType::F32 => {
            strided_map2(pool, out, (gate, up), LONG_GRAIN, &|g: &[f32], u: &[f32], out: &mut [f32]| {
                simd::run(Gate(op, g, u, out));
            })
        }
        DType::F64 => {
            strided_map2(pool, out, (gate, up), LONG_GRAIN, &|g: &[f64], u: &[f64], out: &mut [f64]| {
                simd::run(Gate(op, g, u, out));
            })
        }
        DType::F16 => {
            strided_map2(pool, out, (gate, up), LONG_GRAIN, &|g: &[f16], u: &[f16], out: &mut [f16]| {
                map2(g, u, out, |g, u, out| simd::run(Gate(op, g, u, out)));
            })
        }
        DType::BF16 => {
            strided_map2(pool, out, (gate, up), LONG_GRAIN, &|g: &[bf16], u: &[bf16], out: &mut [bf16]| {
                map2(g, u, out, |g, u, out| simd::run(Gate(op, g, u, out)));
            })
        }
        _ => Err(unreachable_memory()),
    }
}

struct Gate<'a, T>(GateOp, &'a [T], &'a [T], &'a mut [T]);

impl<T: Real> Task for Gate<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Gate(op, gates, ups, out) = self;
        match op {
            GateOp::Silu => each!(out, g in gates, u in ups => g.swish(l) * u),
            GateOp::Gelu => each!(out, g in gates, u in ups => g.gelu(l) * u),
            GateOp::GeluTanh => each!(out, g in gates, u in ups => g.gelu_tanh(l) * u),
            GateOp::Relu => each!(out, g in gates, u in ups => (if g < T::ZERO { T::ZERO } else { g }) * u),
        }
    }
}

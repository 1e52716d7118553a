//! Fill, arange.

use super::strided::{fill_with, unreachable_memory};
use crate::ThreadPool;
use crate::simd::{self, Level, Task};
use rustorch_core::{Arange, Fault, Fill, FromScalar, Scalar, ViewMut, dispatch_dtype};

const GRAIN: usize = 1 << 15;

pub(super) fn fill(pool: &ThreadPool, fill: &Fill, out: &mut ViewMut<'_>) -> Result<(), Fault> {
    dispatch_dtype!(out.dtype(), all, T => {
        let value = T::from_scalar(fill.value);
        fill_with(pool, out, GRAIN, &|_, out: &mut [T]| out.fill(value))
    }, _ => Err(unreachable_memory()))
}

/// Element `i` is `start + i·step` in `i64` or `f64`, then cast.
pub(super) fn arange(pool: &ThreadPool, arange: &Arange, out: &mut ViewMut<'_>) -> Result<(), Fault> {
    dispatch_dtype!(out.dtype(), real, T => {
        fill_with(pool, out, GRAIN, &|first, out: &mut [T]| {
            for (i, out) in out.chunks_mut(BLOCK).enumerate() {
                simd::run(Steps { arange, first: first + i * BLOCK, out });
            }
        })
    }, _ => Err(unreachable_memory()))
}

/// Elements whose numbers are counted in 32 bits, for which there are vector instructions.
const BLOCK: usize = 1 << 16;

/// Elements of [`arange`] from one on, a block at most.
struct Steps<'a, T> {
    arange: &'a Arange,
    first: usize,
    out: &'a mut [T],
}

impl<T: FromScalar> Task for Steps<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Steps { arange: Arange { start, step, .. }, first, out } = self;
        let exact = |s: &Scalar| matches!(s, Scalar::Bool(_) | Scalar::Int(_));
        if exact(start) && exact(step) {
            let (start, step) = (start.to_i64(), step.to_i64());
            let start = start.wrapping_add(step.wrapping_mul(first as i64));
            for (i, out) in (0i64..).zip(out) {
                *out = T::from_scalar(Scalar::Int(start.wrapping_add(step.wrapping_mul(i))));
            }
        } else {
            let (start, step, first) = (start.to_f64(), step.to_f64(), first as f64);
            for (i, out) in (0i32..).zip(out) {
                *out = T::from_scalar(Scalar::Float(start + step * (first + f64::from(i))));
            }
        }
    }
}

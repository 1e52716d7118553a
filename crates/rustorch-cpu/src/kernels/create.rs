//! Fill, arange.

use super::strided::{fill_with, unreachable_memory};
use crate::ThreadPool;
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
    let exact = |s: Scalar| matches!(s, Scalar::Bool(_) | Scalar::Int(_));
    let whole = exact(arange.start) && exact(arange.step);
    let (start, step) = (arange.start.to_i64(), arange.step.to_i64());
    let (start_f, step_f) = (arange.start.to_f64(), arange.step.to_f64());
    dispatch_dtype!(out.dtype(), real, T => {
        fill_with(pool, out, GRAIN, &|first, out: &mut [T]| {
            for (i, out) in (first..).zip(out) {
                *out = T::from_scalar(if whole {
                    Scalar::Int(start.wrapping_add(step.wrapping_mul(i as i64)))
                } else {
                    Scalar::Float(start_f + step_f * i as f64)
                });
            }
        })
    }, _ => Err(unreachable_memory()))
}

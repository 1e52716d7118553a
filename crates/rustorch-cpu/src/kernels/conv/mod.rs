//! Convolutions and their gradients.
//!
//! A convolution is a matmul of the kernel with a matrix that has a column for each result: what the result sees. That
//! matrix is never stored; panels of it are packed from where the source lies, in the cache, and multiplied by the
//! GEMM kernels ([`gemm`]). The gradient with respect to the input is one such matmul, or several
//! ([`geometry`]), and so is the one with respect to the weight ([`weight`];
//! [`weight_planes`] where nothing needs packing). Where a group has few rows, packing does not pay: sums are
//! taken line by line of a padded copy ([`lines`]; [`planes`] for depthwise convolutions, whose lines share loads by [`three_by_three`]), or
//! where operands lie ([`direct`]).
//! Kernels of 3 × 3 without stride take fewer multiplications ([`winograd`]), and so do their gradients.
//!
//! Every result is one sum in an order that depends on the parameters only, not on threads.

#![allow(clippy::needless_range_loop, reason = "lanes are indexed")]

mod columns;
mod direct;
mod gemm;
mod geometry;
mod lines;
mod number;
mod padded;
mod planes;
mod three_by_three;
mod weight;
mod weight_planes;
mod winograd;

use super::strided::unreachable_memory;
use crate::ThreadPool;
use columns::Source;
use gemm::ConvOutput;
use geometry::Geometry;
use number::{Number, list};
use padded::Reader;
use rustorch_core::{
    Conv, ConvBackwardData, ConvBackwardWeight, Fault, Layout, UnaryOp, View, ViewMut, dispatch_dtype,
    packed_bytes,
};
use std::marker::PhantomData;
use weight::Gradient;

/// See [`Conv`].
pub(super) fn forward(
    pool: &ThreadPool,
    op: &Conv,
    [x, w]: [&View<'_>; 2],
    bias: Option<&View<'_>>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    finish(pool, op.activation, out, |out| {
        dispatch_dtype!(x.dtype(), float_complex, T => {
            let (x, w) = (T::lend(pool, x)?, T::lend(pool, w)?);
            let bias = bias.map(|bias| list::<T>(pool, bias)).transpose()?;
            let geometry = Geometry::forward(&op.params, &x.layout, &w.layout, out.layout());
            let results = results::<T>(out, bias.as_deref())?;
            // SAFETY: operands and output have the shapes that `Op::infer` checked.
            unsafe { sum::<T>(pool, &geometry, [Source::new(x.base()), Source::new(w.base())], &results) }
        }, _ => Err(unreachable_memory()))
    })
}

/// Writes sums by `sum`, and then applies the activation, if any.
fn finish(
    pool: &ThreadPool,
    activation: Option<UnaryOp>,
    out: &mut ViewMut<'_>,
    sum: impl FnOnce(&mut ViewMut<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let Some(activation) = activation else { return sum(out) };
    let layout = Layout::contiguous(out.layout().shape().clone());
    let mut buffer = crate::memory::alloc(packed_bytes(out.dtype(), layout.numel()))?;
    // SAFETY: the buffer was made for this layout and dtype.
    sum(&mut unsafe { ViewMut::new(&mut buffer, out.dtype(), &layout) })?;
    // SAFETY: as above, and every element was written.
    let before = unsafe { View::new(&buffer, out.dtype(), &layout) };
    super::pointwise::unary(pool, activation, &before, out)
}

/// See [`ConvBackwardData`].
pub(super) fn backward_data(
    pool: &ThreadPool,
    op: &ConvBackwardData,
    [dy, w]: [&View<'_>; 2],
    bias: Option<&View<'_>>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    dispatch_dtype!(dy.dtype(), float_complex, T => {
        let (dy, w) = (T::lend(pool, dy)?, T::lend(pool, w)?);
        let bias = bias.map(|bias| list::<T>(pool, bias)).transpose()?;
        let results = results::<T>(out, bias.as_deref())?;
        Geometry::backward(&op.params, &dy.layout, &w.layout, out.layout(), &mut |geometry| {
            // SAFETY: operands and output have the shapes that `Op::infer` checked.
            unsafe { sum::<T>(pool, geometry, [Source::new(dy.base()), Source::new(w.base())], &results) }
        })
    }, _ => Err(unreachable_memory()))
}

/// See [`ConvBackwardWeight`].
pub(super) fn backward_weight(
    pool: &ThreadPool,
    op: &ConvBackwardWeight,
    [x, dy]: [&View<'_>; 2],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    dispatch_dtype!(x.dtype(), float_complex, T => {
        let (x, dy) = (T::lend(pool, x)?, T::lend(pool, dy)?);
        let geometry = Geometry::forward(&op.params, &x.layout, out.layout(), &dy.layout);
        let base = out.address::<T>().ok_or_else(unreachable_memory)?;
        let gradient = Gradient::<T>::new(base, &geometry);
        // SAFETY: operands and output have the shapes that `Op::infer` checked.
        unsafe {
            let (x, dy) = (Source::new(x.base()), Source::new(dy.base()));
            if geometry.rows <= direct::MOST_ROWS {
                weight::run_direct::<T>(pool, &geometry, x, dy, &gradient);
            } else if !winograd::weight::suits::<T>(&geometry)
                || !winograd::weight::run::<T>(pool, &geometry, x, dy, &gradient)
            {
                let reader = match weight_planes::suits::<T>(&geometry) {
                    true => Reader::Lines { past: true },
                    false => Reader::Any,
                };
                padded::with_padding(pool, &geometry, x, reader, |geometry, x, by_planes| {
                    if by_planes {
                        return weight_planes::run::<T>(pool, geometry, x, dy, &gradient);
                    }
                    weight::run::<T>(pool, geometry, x, dy, &gradient);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }, _ => Err(unreachable_memory()))
}

/// Where the output's elements go, after adding the bias.
fn results<'a, T: Number>(
    out: &mut ViewMut<'_>,
    bias: Option<&'a [T::Sum]>,
) -> Result<ConvOutput<'a, T>, Fault> {
    let base = out.address::<T>().ok_or_else(unreachable_memory)?;
    Ok(ConvOutput { base, bias, life: PhantomData })
}

/// Computes every result of a geometry, in the way that suits it.
///
/// # Safety
/// Source and kernel have the elements that the geometry describes; the results are the caller's alone.
unsafe fn sum<T: Number>(
    pool: &ThreadPool,
    geometry: &Geometry,
    [source, kernel]: [Source<'_, T::Sum>; 2],
    results: &ConvOutput<'_, T>,
) -> Result<(), Fault> {
    // SAFETY: this function's contract.
    unsafe {
        if planes::suits(geometry) {
            planes::run(pool, geometry, source, kernel, results)
        } else if geometry.rows <= direct::MOST_ROWS {
            direct::run(pool, geometry, source, kernel, results);
            Ok(())
        } else if winograd::suits::<T>(geometry) && winograd::run(pool, geometry, source, kernel, results) {
            Ok(())
        } else {
            let reader = match lines::suits(geometry) {
                true => Reader::Lines { past: lines::reads_past(geometry) },
                false => Reader::Any,
            };
            padded::with_padding(pool, geometry, source, reader, |geometry, source, by_lines| {
                if by_lines {
                    return lines::run(pool, geometry, source, kernel, results);
                }
                gemm::run(pool, geometry, source, kernel, results);
                Ok(())
            })
        }
    }
}

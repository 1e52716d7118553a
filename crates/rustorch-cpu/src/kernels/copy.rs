//! Copies: contiguous, concatenation, padding.

use super::strided::{self, fill_with, for_rows, map1, unreachable_memory};
use crate::ThreadPool;
use rustorch_core::{
    Assert, DType, Error, Fault, FromScalar, Pad, Scalar, Tri, View, ViewMut, dispatch_dtype,
};

/// Elements that make a thread worth its while.
const GRAIN: usize = 1 << 15;

/// Copies elements of any dtype between any layouts of one shape.
pub(super) fn copy(pool: &ThreadPool, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), Fault> {
    if let DType::Quant(_) = x.dtype() {
        return copy_blocks(x, out);
    }
    if strided::copy_rows(pool, x, out)? {
        return Ok(());
    }
    dispatch_dtype!(x.dtype(), all, T => {
        map1(pool, out, x, GRAIN, &|x: &[T], out: &mut [T]| out.copy_from_slice(x))
    }, _ => Err(unreachable_memory()))
}

/// A copy of a condition that is true everywhere.
pub(super) fn assert(
    pool: &ThreadPool,
    op: &Assert,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    match strided::dense::<bool>(x)?.iter().all(|&holds| holds) {
        true => copy(pool, x, out),
        false => Err(Error::argument(Assert::NAME, &*op.message).into()),
    }
}

/// Copies rows of blocks.
fn copy_blocks(x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), Fault> {
    let layout = x.layout().collapsed();
    let Some((&run, ndim)) = layout.dims().last().map(|run| (run, layout.ndim())) else {
        return Err(Error::dtype("copy", "a block type has no single values", [x.dtype()]).into());
    };
    let starts = layout.select(ndim - 1, 0)?;
    let mut rows = starts.indices().map(|start| strided::quant_bytes(x, start, run));
    if layout.numel() == 0 {
        return Ok(());
    }
    if layout.strides()[ndim - 1] != 1 {
        return Err(Error::dtype("copy", "rows of blocks must be contiguous", [x.dtype()]).into());
    }
    let packed = rows.try_fold(Vec::new(), |mut packed, row| {
        packed.extend_from_slice(row?);
        Ok::<_, Fault>(packed)
    })?;
    if out.write_bytes(&packed) {
        Ok(())
    } else {
        Err(Error::dtype("copy", "blocks can be copied only to a contiguous output", [x.dtype()]).into())
    }
}

/// Joins tensors along an axis.
pub(super) fn concat(
    pool: &ThreadPool,
    axis: usize,
    args: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let mut start = 0;
    for x in args {
        let len = x.layout().dims()[axis];
        let place = out.layout().slice(axis, start, len, 1)?;
        copy(pool, x, &mut strided::part_mut(out, &place))?;
        start += len;
    }
    Ok(())
}

/// Surrounds a tensor with a border of one value.
pub(super) fn pad(pool: &ThreadPool, pad: &Pad, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), Fault> {
    if pad.widths.iter().any(|&(before, after)| before + after != 0) {
        dispatch_dtype!(x.dtype(), all, T => {
            let value = T::from_scalar(pad.value);
            fill_with(pool, out, GRAIN, &|_, out: &mut [T]| out.fill(value))
        }, _ => Err(unreachable_memory()))?;
    }
    let mut place = out.layout().clone();
    for (axis, &(before, _)) in pad.widths.iter().enumerate() {
        place = place.slice(axis, before, x.layout().dims()[axis], 1)?;
    }
    copy(pool, x, &mut strided::part_mut(out, &place))
}

/// Keeps one triangle of the last two dimensions.
pub(super) fn triangle(
    pool: &ThreadPool,
    triangle: &Tri,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let dims = x.layout().dims();
    let (rows, cols) = (dims[dims.len() - 2], dims[dims.len() - 1]);
    dispatch_dtype!(x.dtype(), all, T => {
        let zero = T::from_scalar(Scalar::Int(0));
        for_rows(pool, x, out, dims.len() - 1, cols, &|i, x: &[T], out: &mut [T]| {
            // The diagonal's column in this row, as if rows were endless.
            let diagonal = ((i % rows) as i64).saturating_add(triangle.diagonal);
            let column = |c: i64| c.clamp(0, cols as i64) as usize;
            let kept = if triangle.upper { column(diagonal)..cols } else { 0..column(diagonal.saturating_add(1)) };
            out[..kept.start].fill(zero);
            out[kept.clone()].copy_from_slice(&x[kept.clone()]);
            out[kept.end..].fill(zero);
        })
    }, _ => Err(unreachable_memory()))
}

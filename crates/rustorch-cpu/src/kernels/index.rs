//! Gather, index_select, embedding.

use super::pointwise::decode_run;
use super::strided::{self, Blocks, Rows, RowsMut, unreachable_memory};
use crate::ThreadPool;
use crate::simd::{self, Level, Task};
use rustorch_core::{DType, Element, Error, Fault, Layout, Shape, View, ViewMut, dispatch_dtype};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a row that ends before CPUs have noticed how it is read.
const SHORT: usize = 1 << 11;
/// Elements that make a thread worth its while.
const GRAIN: usize = 1 << 14;

/// Rows of a table.
pub(super) fn embedding(
    pool: &ThreadPool,
    table: &View<'_>,
    ids: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let layout = table.layout();
    let (rows, dim) = (layout.dims()[0], layout.dims()[1]);
    let ids = places(pool, "embedding", ids, rows)?;
    if let DType::Quant(quant) = table.dtype() {
        let stride = layout.strides()[0];
        let rows: Vec<&[u8]> = ids
            .iter()
            .map(|&id| strided::quant_bytes(table, layout.offset() + id * stride, dim))
            .collect::<Result<_, _>>()?;
        return strided::with_slice(pool, out, |out: &mut [f32]| {
            strided::par_units(pool, out, dim, 1 << 12, |first, out| {
                for (row, out) in rows[first..].iter().zip(out.chunks_exact_mut(dim)) {
                    decode_run(quant, row, out);
                }
            });
            Ok(())
        });
    }
    dispatch_dtype!(table.dtype(), all, T => copy_rows::<T>(pool, table, &ids, out), _ => Err(unreachable_memory()))
}

fn copy_rows<T: Element>(
    pool: &ThreadPool,
    table: &View<'_>,
    ids: &[usize],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let (source, target) = (Rows::<T>::new(table, 1)?, RowsMut::<T>::new(out, out_axis(out))?);
    pool.ranges(ids.len(), GRAIN / source.len().max(1), |range| {
        let (mut gathered, mut scattered) = (Vec::new(), Vec::new());
        for i in range {
            let row = source.row(ids[i], &mut gathered);
            // SAFETY: each row of the output belongs to one range, and is written whole.
            unsafe { target.with_row(i, &mut scattered, |out| out.copy_from_slice(row)) };
        }
    });
    Ok(())
}

/// The last axis.
fn out_axis(out: &ViewMut<'_>) -> usize {
    out.layout().ndim().saturating_sub(1)
}

/// Slices along an axis.
pub(super) fn index_select(
    pool: &ThreadPool,
    axis: usize,
    x: &View<'_>,
    index: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    dispatch_dtype!(x.dtype(), all, T => select::<T>(pool, axis, x, index, out), _ => Err(unreachable_memory()))
}

fn select<T: Element>(
    pool: &ThreadPool,
    axis: usize,
    x: &View<'_>,
    index: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let (ndim, len) = (x.layout().ndim(), x.layout().dims()[axis]);
    let index = places(pool, "index_select", index, len)?;
    if axis == ndim - 1 {
        // All in reverse: a flip, which becomes vector code.
        let is_flip = index.iter().rev().enumerate().all(|(i, &at)| i == at);
        if is_flip && index.len() == len {
            return strided::for_rows(pool, x, out, axis, index.len(), &|_, x: &[T], out: &mut [T]| {
                // CPUs expect no row behind a short one that is read backwards.
                if size_of_val(x) <= SHORT {
                    simd::prefetch_bytes(x.as_ptr_range().end, size_of_val(x));
                }
                simd::run(Reversed(x, out));
            });
        }
        return strided::for_row_parts(pool, x, out, axis, &|_, x: &[T], from, out: &mut [T]| {
            assert!(x.len() >= len, "a line has as many elements as the axis is long");
            // SAFETY: all indices are below `len`, and nobody writes them meanwhile.
            unsafe { pick(x, index[from..].iter(), out) };
        });
    }
    // Lines along the last axis, numbered [outer, axis, inner].
    let n = index.len();
    let inner: usize = x.layout().dims()[axis + 1..ndim - 1].iter().product();
    let (source, target) = (Rows::<T>::new(x, ndim - 1)?, RowsMut::<T>::new(out, ndim - 1)?);
    if target.count() == 0 {
        return Ok(());
    }
    pool.ranges(target.count(), GRAIN / source.len().max(1), |range| {
        let (mut gathered, mut scattered) = (Vec::new(), Vec::new());
        let (mut outer, mut at, mut rest) =
            (range.start / inner / n, range.start / inner % n, range.start % inner);
        for i in range {
            let row = source.row((outer * len + index[at]) * inner + rest, &mut gathered);
            // SAFETY: each line of the output belongs to one range, and is written whole.
            unsafe { target.with_row(i, &mut scattered, |out| out.copy_from_slice(row)) };
            rest += 1;
            if rest == inner {
                (at, rest) = (at + 1, 0);
            }
            if at == n {
                (outer, at) = (outer + 1, 0);
            }
        }
    });
    Ok(())
}

/// Elements in the reverse order.
struct Reversed<'a, T>(&'a [T], &'a mut [T]);

impl<T: Element> Task for Reversed<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        for (x, out) in self.0.iter().rev().zip(self.1) {
            *out = *x;
        }
    }
}

/// `out[.., i, ..] = x[.., index[.., i, ..], ..]`
pub(super) fn gather(
    pool: &ThreadPool,
    axis: usize,
    x: &View<'_>,
    index: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let len = x.layout().dims().get(axis).copied().unwrap_or(1);
    let chosen = places(pool, "gather", index, len)?;
    dispatch_dtype!(x.dtype(), all, T => {
        let covered = covered(x.layout(), index.layout().dims(), axis)?;
        let (starts, step) = lines(index.layout().shape(), axis)?;
        let part = strided::part(x, &covered);
        if chosen.is_empty() {
            return Ok(());
        }
        if step != 1 && gather_blocks::<T>(pool, axis, &part, (&chosen, &starts, step), out)? {
            return Ok(());
        }
        strided::for_row_parts(pool, &part, out, axis, &|i, x: &[T], from, out: &mut [T]| {
            assert!(x.len() >= len, "a line has as many elements as the axis is long");
            let chosen = chosen[starts[i]..].iter();
            // SAFETY: all indices are below `len`, as the largest is, and nobody writes them meanwhile.
            unsafe {
                if step == 1 {
                    // A loop of its own: it has no step to count.
                    pick(x, chosen.as_slice()[from..].iter(), out);
                } else {
                    pick(x, chosen.step_by(step).skip(from), out);
                }
            }
        })
    }, _ => Err(unreachable_memory()))
}

/// [`gather`] by blocks of adjacent lines, which are copied. Indices, each below the length of a line, come with where those of each line start,
/// and the distance from one of a line to the next. `false`, and nothing is done, where there are no [such blocks](Blocks::of).
fn gather_blocks<T: Element>(
    pool: &ThreadPool,
    axis: usize,
    x: &View<'_>,
    (chosen, starts, step): (&[usize], &[usize], usize),
    out: &mut ViewMut<'_>,
) -> Result<bool, Fault> {
    let (source, target) = (Rows::<T>::new(x, axis)?, RowsMut::<T>::new(out, axis)?);
    let n = target.len();
    let Some(blocks) = Blocks::of(&source, &target, source.len(), n) else { return Ok(false) };
    let (len, pitch) = (source.len(), blocks.pitch());
    pool.ranges(blocks.count(), (GRAIN / (n * blocks.width())).max(1), |range| {
        let mut block = Vec::new();
        for (i, lines) in range.map(|block| blocks.get(block)) {
            block.resize(len * pitch, source.across(i, lines, 0)[0]);
            for (k, copy) in block.chunks_exact_mut(pitch).enumerate() {
                copy[..lines].copy_from_slice(source.across(i, lines, k));
            }
            for k in 0..n {
                // Indices are packed, so that those of adjacent lines are contiguous.
                let chosen = &chosen[starts[i] + k * step..][..lines];
                // SAFETY: each line of the output belongs to one range, and is written whole.
                let out = unsafe { target.across(i, lines, k) };
                for (j, (out, &at)) in out.iter_mut().zip(chosen).enumerate() {
                    *out = block[at * pitch + j];
                }
            }
        }
    });
    Ok(true)
}

/// The largest of some indices, as unsigned numbers, of which negative ones are the largest.
struct Largest<'a, I>(&'a [I]);

impl<I: Element + Into<i64>> Task for Largest<'_, I> {
    type Output = u64;

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> u64 {
        self.0.iter().fold(0, |most, &i| (i.into() as u64).max(most))
    }
}

/// Elements by index.
///
/// # Safety
/// Every index is that of an element.
unsafe fn pick<'a, T: Element>(x: &[T], chosen: impl Iterator<Item = &'a usize>, out: &mut [T]) {
    for (&at, out) in chosen.zip(out) {
        // SAFETY: this function's contract.
        *out = unsafe { *x.get_unchecked(at) };
    }
}

/// The indices in row-major order, each of which is below `len`, or an error that has the first that is not.
pub(super) fn checked_indices<'a, I: Element + Into<i64>>(
    pool: &ThreadPool,
    op: &'static str,
    index: &View<'a>,
    len: usize,
) -> Result<Cow<'a, [I]>, Fault> {
    let chosen = strided::dense::<I>(index)?;
    let most = AtomicU64::new(0);
    pool.ranges(chosen.len(), GRAIN, |range| {
        most.fetch_max(simd::run(Largest(&chosen[range])), Ordering::Relaxed);
    });
    if most.into_inner() >= len as u64
        && let Some(&wrong) = chosen.iter().find(|&&i| i.into() as u64 >= len as u64)
    {
        return Err(Error::Index { op, index: wrong.into(), len }.into());
    }
    Ok(chosen)
}

/// Indices of an `I32` or `I64` view as [`checked_indices`] gives them, as places: where they are if their bits are the same.
pub(super) fn places<'a>(
    pool: &ThreadPool,
    op: &'static str,
    index: &View<'a>,
    len: usize,
) -> Result<Cow<'a, [usize]>, Fault> {
    match index.dtype() {
        DType::I32 => {
            let chosen = checked_indices::<i32>(pool, op, index, len)?;
            Ok(chosen.iter().map(|&i| i as usize).collect())
        }
        DType::I64 => match checked_indices::<i64>(pool, op, index, len)? {
            Cow::Borrowed(chosen) if size_of::<usize>() == size_of::<i64>() => {
                Ok(Cow::Borrowed(bytemuck::cast_slice(chosen)))
            }
            chosen => Ok(chosen.iter().map(|&i| i as usize).collect()),
        },
        other => Err(Error::dtype(op, "indices must be i32 or i64", [other]).into()),
    }
}

/// The part of a layout that an index of shape `dims` covers: cut in all dimensions but `axis`.
pub(super) fn covered(layout: &Layout, dims: &[usize], axis: usize) -> Result<Layout, Fault> {
    let mut covered = layout.clone();
    for (i, &dim) in dims.iter().enumerate() {
        if i != axis {
            covered = covered.slice(i, 0, dim, 1)?;
        }
    }
    Ok(covered)
}

/// Where the lines along an axis start in a packed tensor, and the distance of a line's elements.
pub(super) fn lines(shape: &Shape, axis: usize) -> Result<(Vec<usize>, usize), Fault> {
    let packed = Layout::contiguous(shape.clone());
    let step = packed.strides().get(axis).copied().unwrap_or(1);
    let starts = if axis < packed.ndim() && packed.numel() != 0 { packed.select(axis, 0)? } else { packed };
    Ok((starts.indices().collect(), step))
}

//! Slices of two views across an axis.

use super::map::{InPlace, Loop};
use super::outer::Outer;
use crate::ThreadPool;
use rustorch_core::{Element, Fault, View, ViewMut};
use std::ops::Range;

/// The fewest elements of a row for which this is worth its while.
const SHORT: usize = 16;
/// From so many slices for each thread on, threads divide the slices among them, and not the elements of a slice.
const FEWEST: usize = 16;
/// Elements that make a thread worth its while.
const GRAIN: usize = 1 << 14;

/// Calls `each` with the elements of slice `k` of `x` and those of slice `chosen[k]` of `out`, for all `k` in order, row by row. The
/// slices have one shape. `false`, and nothing is done, where rows are short or scattered.
pub(crate) fn for_slices<T: Element>(
    pool: &ThreadPool,
    axis: usize,
    chosen: &[usize],
    x: &View<'_>,
    out: &mut ViewMut<'_>,
    each: &(dyn Fn(&[T], &mut [T]) + Sync),
) -> Result<bool, Fault> {
    let typed = x.dtype() == T::DTYPE && out.dtype() == T::DTYPE;
    if !typed || x.is_aliased() || chosen.is_empty() {
        return Ok(false);
    }
    let steps = [out.layout().strides()[axis], x.layout().strides()[axis]];
    let (ours, theirs) = (out.layout().select(axis, 0)?, x.layout().select(axis, 0)?);
    assert!(chosen.len() <= x.layout().dims()[axis], "more slices than there are");
    let len = out.layout().dims()[axis];
    let mut first = super::part_mut(out, &ours);
    let joint = Loop::new(&mut first, &[super::part(x, &theirs)], InPlace::Direct)?;
    let (last, [to, from]) = (joint.dims.len() - 1, [0, 1].map(|i: usize| &joint.operands[i]));
    let row = joint.dims[last];
    if to.strides[last] != 1 || from.strides[last] != 1 || row < SHORT {
        return Ok(false);
    }
    assert!(chosen.iter().all(|&k| k < len), "slice outside the view");
    let outer = Outer::new(&joint, &[last]);
    let run = |places: Range<usize>, rows: Range<usize>, columns: Range<usize>| {
        for (k, &chosen) in chosen.iter().enumerate().filter(|(_, chosen)| places.contains(chosen)) {
            outer.each(rows.clone(), |[to_index, from_index]| {
                let to = to.at_index(to_index + chosen * steps[0] + columns.start);
                let from = from.at_index(from_index + k * steps[1] + columns.start);
                // SAFETY: part of a row of a slice of each view, `T`s of different memory, of which a thread has its own.
                let (x, out) = unsafe {
                    let x = std::slice::from_raw_parts(from.cast_const().cast::<T>(), columns.len());
                    (x, std::slice::from_raw_parts_mut(to.cast::<T>(), columns.len()))
                };
                each(x, out);
            });
        }
    };
    // Slices may be written more than once: a thread has the same part of all, or all of the same slices.
    let count = outer.count();
    if count == 1 && len >= FEWEST * pool.threads() {
        let grain = (GRAIN * len).div_ceil(chosen.len() * row);
        pool.ranges(len, grain.max(1), |places| run(places, 0..1, 0..row));
    } else if count == 1 {
        pool.ranges(row, (GRAIN / chosen.len()).max(SHORT), |columns| run(0..len, 0..1, columns));
    } else {
        pool.ranges(count, (GRAIN / (chosen.len() * row)).max(1), |rows| run(0..len, rows, 0..row));
    }
    Ok(true)
}

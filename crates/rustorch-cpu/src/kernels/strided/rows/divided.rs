//! Loops over lines of which several are taken together, or which are divided.

use super::{Rows, RowsMut, for_rows};
use crate::ThreadPool;
use rustorch_core::{Element, Fault, View, ViewMut};

/// Lines that are taken together, of operations whose steps wait for each other.
pub(crate) const GROUP: usize = 4;
/// Elements of a part of a line at least, where lines are divided.
const PART: usize = 1 << 13;

/// A function of [`GROUP`] lines and those of the output.
type EachGroup<'f, T, U> = dyn Fn([&[T]; GROUP], [&mut [U]; GROUP]) + Sync + 'f;
/// A function of a line's number, its elements, and, from an element on, those of the output's line.
type EachPart<'f, T> = dyn Fn(usize, &[T], usize, &mut [T]) + Sync + 'f;

/// As [`for_rows`], with functions for [`GROUP`] lines together and for one: contiguous lines are taken together.
pub(crate) fn for_row_groups<T: Element, U: Element>(
    pool: &ThreadPool,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
    axis: usize,
    cost: usize,
    group: &EachGroup<'_, T, U>,
    one: &(dyn Fn(&[T], &mut [U]) + Sync),
) -> Result<(), Fault> {
    let (xs, outs) = (Rows::<T>::new(x, axis)?, RowsMut::<U>::new(out, axis)?);
    let (count, len) = (xs.count().min(outs.count()), outs.len());
    if count < GROUP || !xs.is_contiguous() || !outs.is_contiguous() {
        return for_rows(pool, x, out, axis, cost, &|_, x: &[T], out: &mut [U]| one(x, out));
    }
    let groups = count.div_ceil(GROUP);
    pool.ranges(groups, (1 << 13) / cost.max(1) / GROUP, |range| {
        for first in range.map(|group| group * GROUP) {
            // SAFETY: each line belongs to one group, each group to one range, and kernels write before they read.
            let out = |i: usize| unsafe { outs.part(i, 0..len) };
            if first + GROUP <= count {
                let lines = std::array::from_fn(|i| xs.contiguous(first + i));
                group(lines, std::array::from_fn(|i| out(first + i)));
                continue;
            }
            (first..count).for_each(|i| one(xs.contiguous(i), out(i)));
        }
    });
    Ok(())
}

/// As [`for_rows`], where an element of the output needs its place and the whole line of `x`, so that long lines are divided, too: `each`
/// gets the number of the line, that of `x`, and from which element on the part of the output's line goes.
pub(crate) fn for_row_parts<T: Element>(
    pool: &ThreadPool,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
    axis: usize,
    each: &EachPart<'_, T>,
) -> Result<(), Fault> {
    let (count, len) = {
        let outs = RowsMut::<T>::new(out, axis)?;
        (outs.count(), outs.len())
    };
    let is_divided = pool.threads() > 1 && count < 4 * pool.threads() && len >= 2 * PART;
    if !is_divided || out.layout().strides().get(axis) != Some(&1) {
        return for_rows(pool, x, out, axis, len, &|i, x: &[T], out: &mut [T]| each(i, x, 0, out));
    }
    let (xs, outs) = (Rows::<T>::new(x, axis)?, RowsMut::<T>::new(out, axis)?);
    let mut gathered = Vec::new();
    for i in 0..count.min(xs.count()) {
        let row = xs.row(i, &mut gathered);
        pool.ranges(len, PART, |part| {
            // SAFETY: each part of a line belongs to one range, and kernels write before they read.
            unsafe { each(i, row, part.start, outs.part(i, part.clone())) };
        });
    }
    Ok(())
}

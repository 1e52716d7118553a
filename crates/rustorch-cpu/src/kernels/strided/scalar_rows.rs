//! Rows of one operand with a scalar of another.

use super::map::{InPlace, Loop};
use super::outer::Outer;
use crate::ThreadPool;
use rustorch_core::{Element, Fault, View, ViewMut};

/// The fewest elements of a row, and of the output, for which this is worth its while.
const SHORT: usize = 16;
const FEW: usize = 512;

/// Which operand of two has one element for each row.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// A function of the side of a scalar, the scalar, and rows of the other operand and of the output.
type Each<'f, T> = dyn Fn(Side, T, &[T], &mut [T]) + Sync + 'f;

/// Calls `each` with the side of the operand of `args` that has one element for each row of the output, that element, and the rows of the other
/// operand and of the output. `grain` elements at least go to a thread. `false`, and nothing is done, where there is no such operand, or rows
/// are short or scattered.
pub(crate) fn for_scalar_rows<T: Element>(
    pool: &ThreadPool,
    out: &mut ViewMut<'_>,
    args: [&View<'_>; 2],
    grain: usize,
    each: &Each<'_, T>,
) -> Result<bool, Fault> {
    let typed = args.iter().all(|x| x.dtype() == T::DTYPE && !x.is_aliased()) && out.dtype() == T::DTYPE;
    // What costs less than making the loop, of which there is nothing to gain for most operands.
    let row = out.layout().dims().last().copied().unwrap_or(1);
    let repeats = |x: &View<'_>| {
        let layout = x.layout();
        layout.dims().last().is_none_or(|&len| len == 1) || layout.strides().last() == Some(&0)
    };
    if !typed
        || row < SHORT
        || out.layout().numel() < FEW
        || args.into_iter().filter(|x| repeats(x)).count() != 1
    {
        return Ok(false);
    }
    let joint = Loop::new(out, &args.map(|x| *x), InPlace::Direct)?;
    let last = joint.dims.len() - 1;
    let len = joint.dims[last];
    let [to, a, b] = [0, 1, 2].map(|i: usize| &joint.operands[i]);
    let (side, one, row) = match [to, a, b].map(|x| x.strides[last]) {
        [1, 0, 1] => (Side::Left, a, b),
        [1, 1, 0] => (Side::Right, b, a),
        _ => return Ok(false),
    };
    if len < SHORT {
        return Ok(false);
    }
    let outer = Outer::<3>::new(&joint, &[last]);
    pool.ranges(joint.numel(), grain, |range| {
        let mut first = range.start / len * len;
        outer.each(range.start / len..range.end.div_ceil(len), |[to_index, a_index, b_index]| {
            let columns = range.start.saturating_sub(first)..len.min(range.end - first);
            let (one_index, row_index) = match side {
                Side::Left => (a_index, b_index),
                Side::Right => (b_index, a_index),
            };
            // SAFETY: an element of one view, and part of a row of each of the others, `T`s, of which the output's overlap no other and have
            // one thread each.
            let (scalar, x, out) = unsafe {
                let x = row.at_index(row_index + columns.start).cast_const().cast::<T>();
                let out = to.at_index(to_index + columns.start).cast::<T>();
                (
                    one.at_index(one_index).cast_const().cast::<T>().read(),
                    std::slice::from_raw_parts(x, columns.len()),
                    std::slice::from_raw_parts_mut(out, columns.len()),
                )
            };
            each(side, scalar, x, out);
            first += len;
        });
    });
    Ok(true)
}

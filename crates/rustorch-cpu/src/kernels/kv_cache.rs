//! Writing to caches of keys and values, and attention over them, where how far they are filled is data.

use super::copy::copy;
use super::pointwise::cast;
use super::{attention, strided};
use crate::ThreadPool;
use rustorch_core::{CachedAttention, DType, Fault, View, ViewMut};

/// `x` with `update` from an index of an axis on. Over `x` itself, nothing but those elements is touched.
pub(super) fn slice_update(
    pool: &ThreadPool,
    axis: usize,
    [x, update, start]: [&View<'_>; 3],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    if !x.is_aliased() {
        copy(pool, x, out)?;
    }
    let n = update.layout().dims()[axis];
    let most = out.layout().dims()[axis] - n;
    let start = usize::try_from(integer(start)?.max(0)).map_or(most, |start| start.min(most));
    let place = out.layout().slice(axis, start, n, 1)?;
    cast(pool, update, &mut strided::part_mut(out, &place))
}

/// Attention whose first query is at a position.
pub(super) fn cached_attention(
    pool: &ThreadPool,
    op: &CachedAttention,
    [q, k, v, position]: [&View<'_>; 4],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    attention::run(pool, &op.at(integer(position)?), [q, k, v], None, outs)
}

/// The value of an `I32` or `I64` of no dimensions.
fn integer(x: &View<'_>) -> Result<i64, Fault> {
    let value = match x.dtype() {
        DType::I32 => strided::dense::<i32>(x)?.first().map(|&x| x.into()),
        _ => strided::dense::<i64>(x)?.first().copied(),
    };
    value.ok_or_else(strided::unreachable_memory)
}

//! Sums of many integers at few places of a vector, as in a histogram: the threads have tables of their own, which are added. Sums of
//! integers wrap, so that their order does not matter.

use super::super::copy::copy;
use super::super::index::{checked_indices, covered};
use super::super::strided::{self, RowsMut, unreachable_memory};
use super::{GRAIN, Plus};
use crate::ThreadPool;
use rustorch_core::{DType, Element, Fault, ScatterMode, View, ViewMut, dispatch_dtype};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Places of a table at most: those of all lanes stay in a first-level cache, or nearly.
const MOST: usize = 1 << 12;
/// Sources for each place at least.
const LEAST: usize = 8;
/// Tables of a thread, taken in turn: an addition does not wait for the one before to the same place.
const LANES: usize = 4;

/// `x` with `src` added at `index`. `false`, and nothing is done, where the dtype, the shapes or the numbers are not those of a histogram.
pub(super) fn run(pool: &ThreadPool, args: [&View<'_>; 3], out: &mut ViewMut<'_>) -> Result<bool, Fault> {
    match args[1].dtype() {
        DType::I32 => run_by::<i32>(pool, args, out),
        _ => run_by::<i64>(pool, args, out),
    }
}

fn run_by<I: Element + Into<i64>>(
    pool: &ThreadPool,
    [x, index, src]: [&View<'_>; 3],
    out: &mut ViewMut<'_>,
) -> Result<bool, Fault> {
    let (&[len], &[n]) = (x.layout().dims(), index.layout().dims()) else { return Ok(false) };
    if !x.dtype().is_int() || len > MOST || n < GRAIN || n < LEAST * len {
        return Ok(false);
    }
    dispatch_dtype!(x.dtype(), [U8 I8 I16 I32 U32 I64], T => {
        let mut layout = covered(src.layout(), &[n], 0)?.slice(0, 0, n, 1)?;
        if let [0] = layout.strides() {
            // One number that is expanded is not written out.
            layout = layout.slice(0, 0, 1, 1)?;
        }
        let (chosen, src) = (strided::dense::<I>(index)?, strided::part(src, &layout));
        let sources = strided::dense::<T>(&src)?;
        let Some(sums) = sums(pool, &chosen, &sources, len) else {
            checked_indices::<I>(pool, ScatterMode::Add.name(), index, len)?;
            return Err(unreachable_memory());
        };
        if !x.is_aliased() {
            copy(pool, x, out)?;
        }
        // SAFETY: nobody else uses the output, which holds the elements of `x`.
        unsafe { RowsMut::<T>::new(out, 0)?.update(0, sums.into_iter().enumerate(), T::plus) };
        Ok(true)
    }, _ => Ok(false))
}

/// The sums at every place; none if an index is out of range. One source alone is that of all indices.
fn sums<T: Plus + Default, I: Element + Into<i64>>(
    pool: &ThreadPool,
    chosen: &[I],
    sources: &[T],
    len: usize,
) -> Option<Vec<T>> {
    let (sums, failed) = (Mutex::new(vec![T::default(); len]), AtomicBool::new(false));
    pool.ranges(chosen.len(), GRAIN, |range| {
        let sources = if sources.len() == 1 { sources } else { &sources[range.clone()] };
        let Some(table) = table(&chosen[range], sources, len) else {
            return failed.store(true, Ordering::Relaxed);
        };
        let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
        for (sum, lanes) in sums.iter_mut().zip(table) {
            *sum = lanes.into_iter().fold(*sum, T::plus);
        }
    });
    if failed.into_inner() { None } else { Some(sums.into_inner().unwrap_or_else(PoisonError::into_inner)) }
}

/// The sums of each lane at every place; none if an index is out of range.
fn table<T: Plus + Default, I: Element + Into<i64>>(
    chosen: &[I],
    sources: &[T],
    len: usize,
) -> Option<Vec<[T; LANES]>> {
    let mut table = vec![[T::default(); LANES]; len];
    let mut add = |lane: usize, place: I, source: T| {
        let sum = &mut table.get_mut(place.into() as usize)?[lane];
        *sum = sum.plus(source);
        Some(())
    };
    let (chunks, tail) = chosen.as_chunks::<LANES>();
    if let &[source] = sources {
        for chunk in chunks {
            for (lane, &place) in chunk.iter().enumerate() {
                add(lane, place, source)?;
            }
        }
        tail.iter().try_for_each(|&place| add(0, place, source))?;
        return Some(table);
    }
    let (values, rest) = sources.as_chunks::<LANES>();
    for (chunk, values) in chunks.iter().zip(values) {
        for (lane, (&place, &value)) in chunk.iter().zip(values).enumerate() {
            add(lane, place, value)?;
        }
    }
    tail.iter().zip(rest).try_for_each(|(&place, &value)| add(0, place, value))?;
    Some(table)
}

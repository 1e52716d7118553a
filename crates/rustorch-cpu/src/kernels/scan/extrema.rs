//! Running extrema and where they are.

use crate::ThreadPool;
use crate::kernels::strided::{Rows, RowsMut, for_rows2, unreachable_memory};
use crate::simd::{self, Level, Task};
use rustorch_core::{Element, Fault, View, ViewMut, dispatch_dtype};

/// Elements of a line that are compared with the extreme so far at once.
const CHUNK: usize = 32;
/// The fewest columns that are scanned together: a cache line of them.
const FEWEST: usize = 16;
/// Columns that are scanned together at most: their extrema stay in the first-level cache.
const COLUMNS: usize = 512;
/// Elements that make a thread worth its while.
const GRAIN: usize = 1 << 13;

pub(super) fn run(
    pool: &ThreadPool,
    largest: bool,
    axis: usize,
    x: &View<'_>,
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let len = x.layout().dims().get(axis).copied().unwrap_or(1);
    dispatch_dtype!(x.dtype(), [Bool U8 I8 I16 I32 U32 I64 F16 BF16 F32 F64], T => {
        if columns::<T>(pool, largest, axis, x, outs)? {
            return Ok(());
        }
        for_rows2(pool, x, outs, axis, len, &|x: &[T], values: &mut [T], places: &mut [i64]| {
            simd::run(Line { x, values, places, largest });
        })
    }, _ => Err(unreachable_memory()))
}

/// Scans along a dimension that is not the last: many neighbouring columns at once. `false`, and nothing is done, where the scan is along the
/// last dimension, or rows are short or scattered.
fn columns<T: Element + PartialOrd>(
    pool: &ThreadPool,
    largest: bool,
    axis: usize,
    x: &View<'_>,
    outs: &mut [ViewMut<'_>],
) -> Result<bool, Fault> {
    let dims = x.layout().dims();
    let [values, places] = outs else { return Err(unreachable_memory()) };
    if axis + 1 >= dims.len() || dims[dims.len() - 1] < FEWEST || x.layout().numel() == 0 {
        return Ok(false);
    }
    let last = dims.len() - 1;
    let (len, width) = (dims[axis], dims[last]);
    let inner: usize = dims[axis + 1..last].iter().product();
    // Lines along the last dimension, numbered [outer, axis, inner].
    let xs = Rows::<T>::new(x, last)?;
    let (values, places) = (RowsMut::<T>::new(values, last)?, RowsMut::<i64>::new(places, last)?);
    let contiguous = xs.is_contiguous() && values.is_contiguous() && places.is_contiguous();
    if !contiguous || u32::try_from(len).is_err() {
        return Ok(false);
    }
    let most = width.div_ceil(pool.threads()).next_multiple_of(FEWEST).min(COLUMNS);
    let blocks = width.div_ceil(most);
    pool.ranges(xs.count() / len * blocks, (GRAIN / (len * most.min(width))).max(1), |range| {
        let (mut best, mut place) = (Vec::new(), Vec::new());
        for block in range {
            let (at, from) = (block / blocks, block % blocks * most);
            let (outer, rest) = (at / inner, at % inner);
            let columns = from..width.min(from + most);
            for i in 0..len {
                let line = (outer * len + i) * inner + rest;
                let mut gathered = Vec::new();
                let x = &xs.row(line, &mut gathered)[columns.clone()];
                if i == 0 {
                    best.clear();
                    best.extend_from_slice(x);
                    place.clear();
                    place.resize(x.len(), 0);
                }
                // SAFETY: each part of a line belongs to one block, and is written whole.
                let (values, places) =
                    unsafe { (values.part(line, columns.clone()), places.part(line, columns.clone())) };
                let step = i as u32;
                simd::run(Step { x, step, best: &mut best, place: &mut place, values, places, largest });
            }
        }
    });
    Ok(true)
}

/// Whether an element takes the place of the extreme so far: of equals the last, as in PyTorch (zeros differ in their signs). A NaN always does,
/// and no number replaces a NaN.
#[inline(always)]
#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
fn replaces<T: PartialOrd + Copy, const LARGEST: bool>(x: T, best: T) -> bool {
    (if LARGEST { x >= best } else { x <= best }) | (x != x)
}

/// A line. Most chunks of a line without an order have no new extreme, and are filled.
struct Line<'a, T> {
    x: &'a [T],
    values: &'a mut [T],
    places: &'a mut [i64],
    largest: bool,
}

impl<T: Element + PartialOrd> Task for Line<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        if self.largest { self.scan::<true>() } else { self.scan::<false>() }
    }
}

impl<T: Element + PartialOrd> Line<'_, T> {
    #[inline(always)]
    fn scan<const LARGEST: bool>(self) {
        let Some(&(mut best)) = self.x.first() else { return };
        let (mut place, mut index) = (0, 0);
        let outs = self.values.chunks_mut(CHUNK).zip(self.places.chunks_mut(CHUNK));
        for (x, (values, places)) in self.x.chunks(CHUNK).zip(outs) {
            if !x.iter().fold(false, |any, &x| any | replaces::<T, LARGEST>(x, best)) {
                values.fill(best);
                places.fill(place);
                index += x.len() as i64;
                continue;
            }
            for (&x, (value, at)) in x.iter().zip(values.iter_mut().zip(places)) {
                if replaces::<T, LARGEST>(x, best) {
                    (best, place) = (x, index);
                }
                (*value, *at) = (best, place);
                index += 1;
            }
        }
    }
}

/// A row of neighbouring columns, with the extrema so far.
struct Step<'a, T> {
    x: &'a [T],
    /// The row's number.
    step: u32,
    best: &'a mut [T],
    place: &'a mut [u32],
    values: &'a mut [T],
    places: &'a mut [i64],
    largest: bool,
}

impl<T: Element + PartialOrd> Task for Step<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        if self.largest { self.scan::<true>() } else { self.scan::<false>() }
    }
}

impl<T: Element + PartialOrd> Step<'_, T> {
    #[inline(always)]
    fn scan<const LARGEST: bool>(self) {
        let Step { x, step, best, place, values, places, .. } = self;
        let best = best.iter_mut().zip(place);
        let outs = values.iter_mut().zip(places);
        for ((&x, (best, place)), (value, at)) in x.iter().zip(best).zip(outs) {
            let replaced = replaces::<T, LARGEST>(x, *best);
            *best = if replaced { x } else { *best };
            *place = if replaced { step } else { *place };
            *value = *best;
            *at = i64::from(*place);
        }
    }
}

//! Scatter, scatter_add and scatter_reduce.

mod counts;

use super::copy::copy;
use super::index::{covered, lines, places};
use super::strided::{self, Blocks, Rows, RowsMut, for_slices, unreachable_memory};
use crate::ThreadPool;
use crate::math::Real;
use rustorch_core::{
    C64, C128, Element, Fault, Layout, ScatterMode, ScatterReduce, ScatterReduction, View, ViewMut, bf16,
    dispatch_dtype, f16,
};
use std::borrow::Cow;
use std::iter::{StepBy, Zip};
use std::ops::Mul;
use std::slice::Iter;

/// Elements that make a thread worth its while.
const GRAIN: usize = 1 << 14;

/// Changes of one line that are worth dividing among threads, each of which goes through all of them, and among how many.
const LONG: usize = 1 << 15;
const MOST_PARTS: usize = 8;

/// `x` with `src` written or added at `index`. Lines along the axis are independent; inside one, sources go in order. Over `x`
/// itself, nothing but the chosen elements is touched; where lines are strided, nothing but their lines.
pub(super) fn run(
    pool: &ThreadPool,
    axis: usize,
    mode: ScatterMode,
    [x, index, src]: [&View<'_>; 3],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    if mode == ScatterMode::Add && counts::run(pool, [x, index, src], out)? {
        return Ok(());
    }
    let own = own_lines(index.layout(), axis)?;
    let own = strided::part(index, &own);
    let Some(lines) = Lines::of(pool, mode.name(), axis, [x, index, src], &own, out)? else {
        return Ok(());
    };
    dispatch_dtype!(x.dtype(), all, T => {
        if lines.starts.len() == 1 && axis < lines.to.ndim() && lines.from.numel() > lines.n {
            // Every one of several lines has the same indices: whole slices go to their places.
            let (from, mut to) = (strided::part(src, &lines.from), strided::part_mut(out, &lines.to));
            let done = for_slices(pool, axis, &lines.chosen, &from, &mut to, &|x: &[T], out: &mut [T]| match mode {
                ScatterMode::Replace => out.copy_from_slice(x),
                ScatterMode::Add => out.iter_mut().zip(x).for_each(|(out, &x)| *out = out.plus(x)),
            })?;
            if done {
                return Ok(());
            }
        }
        match mode {
            ScatterMode::Replace => lines.change::<T>(pool, axis, src, out, |_, value| value),
            ScatterMode::Add => lines.change::<T>(pool, axis, src, out, T::plus),
        }
    }, _ => Err(unreachable_memory()))
}

/// `x` with elements of `src` combined at `index`, as [`run`] goes about it.
pub(super) fn reduce(
    pool: &ThreadPool,
    op: &ScatterReduce,
    [x, index, src]: [&View<'_>; 3],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let args = [x, index, src];
    let own = own_lines(index.layout(), op.axis)?;
    let own = strided::part(index, &own);
    let Some(lines) = Lines::of(pool, ScatterReduce::NAME, op.axis, args, &own, out)? else {
        return Ok(());
    };
    let len = x.layout().dims().get(op.axis).copied().unwrap_or(1);
    dispatch_dtype!(x.dtype(), real, T => {
        type Wide = <T as Reduced>::Wide;
        // Of each place in a line what was combined so far, and of how many.
        let fresh = || vec![(Wide::default(), 0u32); len];
        lines.each(pool, op.axis, src, out, fresh, |target: &RowsMut<'_, T>, i, changes, places| {
            places.fill((Wide::default(), 0));
            let combine = |a: Wide, b: Wide| match op.reduction {
                ScatterReduction::Sum | ScatterReduction::Mean => a.plus(b),
                ScatterReduction::Prod => a.times(b),
                ScatterReduction::Max => Combined::larger(a, b),
                ScatterReduction::Min => Combined::smaller(a, b),
            };
            let changes = changes.map(|(&place, &value)| (place, (place, value.widened())));
            // SAFETY: each line belongs to one range, and holds the elements of `x`.
            unsafe {
                target.update(i, changes, |old, (place, value)| {
                    let (sum, count) = &mut places[place];
                    (*sum, *count) = match (*count, op.include_self) {
                        (0, true) => (combine(old.widened(), value), 2),
                        (0, false) => (value, 1),
                        (count, _) => (combine(*sum, value), count + 1),
                    };
                    old
                });
                let touched = places.iter().enumerate().filter(|(_, (_, count))| *count != 0);
                target.update(i, touched, |_, &(sum, count)| {
                    let mean = op.reduction == ScatterReduction::Mean;
                    T::narrowed(if mean { sum.over(count) } else { sum })
                });
            }
        })
    }, _ => Err(unreachable_memory()))
}

/// Where the sources of a line go in the target's line, and they themselves.
type Changes<'a, T> = Zip<StepBy<Iter<'a, usize>>, Iter<'a, T>>;

/// The lines along the axis of a source and of what it changes.
struct Lines<'a> {
    /// Where each source goes, in its line: no index is outside of it.
    chosen: Cow<'a, [usize]>,
    /// Where the lines' indices start in `chosen`: one, where all are the same.
    starts: Vec<usize>,
    /// From one of a line's indices to the next.
    step: usize,
    /// Indices of a line.
    n: usize,
    from: Layout,
    to: Layout,
}

impl<'a> Lines<'a> {
    /// With `x` copied to `out`, unless they are one; none if there are no sources. `own` are the indices that may differ.
    fn of(
        pool: &ThreadPool,
        name: &'static str,
        axis: usize,
        [x, index, src]: [&View<'_>; 3],
        own: &View<'a>,
        out: &mut ViewMut<'_>,
    ) -> Result<Option<Lines<'a>>, Fault> {
        let len = x.layout().dims().get(axis).copied().unwrap_or(1);
        let chosen = places(pool, name, own, len)?;
        if !x.is_aliased() {
            copy(pool, x, out)?;
        }
        let dims = index.layout().dims();
        if index.layout().numel() == 0 {
            return Ok(None);
        }
        let n = dims.get(axis).copied().unwrap_or(1);
        let (starts, step) = lines(own.layout().shape(), axis)?;
        let (mut from, to) = (covered(src.layout(), dims, axis)?, covered(out.layout(), dims, axis)?);
        if axis < from.ndim() {
            from = from.slice(axis, 0, n, 1)?;
        }
        Ok(Some(Lines { chosen, starts, step, n, from, to }))
    }

    /// Where the indices of a line start.
    fn start(&self, line: usize) -> usize {
        if self.starts.len() == 1 { self.starts[0] } else { self.starts[line] }
    }

    /// Puts `f(old, source)` in the places of the sources.
    fn change<T: Element>(
        &self,
        pool: &ThreadPool,
        axis: usize,
        src: &View<'_>,
        out: &mut ViewMut<'_>,
        f: impl Fn(T, T) -> T + Copy + Sync,
    ) -> Result<(), Fault> {
        let (source, mut place) = (strided::part(src, &self.from), strided::part_mut(out, &self.to));
        let (source, target) = (Rows::<T>::new(&source, axis)?, RowsMut::<T>::new(&mut place, axis)?);
        let is_long = source.count() == 1 && self.n >= LONG && source.repeated(0).is_none();
        if self.step == 1 && is_long && pool.threads() > 1 {
            // Each thread goes through all changes of the only line, for its part of the places: the order of those of a place stays.
            let mut gathered = Vec::new();
            let (chosen, values) = (&self.chosen[self.start(0)..], source.row(0, &mut gathered));
            let (len, parts) = (target.len(), pool.threads().min(MOST_PARTS));
            pool.run(parts, |i| {
                let changes = chosen.iter().zip(values).map(|(&place, &value)| (place, value));
                // SAFETY: each part belongs to one thread, and the line holds the elements of `x`.
                unsafe {
                    let part = len * i / parts..len * (i + 1) / parts;
                    target.update_part(0, part, values[0], changes, f);
                }
            });
            return Ok(());
        }
        if self.step == 1 {
            // A loop of its own: it has no step to count.
            pool.ranges(source.count(), (GRAIN / self.n).max(1), |range| {
                let mut gathered = Vec::new();
                for i in range {
                    if let Some(value) = source.repeated(i) {
                        let chosen = &self.chosen[self.start(i)..][..self.n];
                        let changes = chosen.iter().map(|&place| (place, value));
                        // SAFETY: as below.
                        unsafe { target.update(i, changes, f) };
                        continue;
                    }
                    let changes = self.chosen[self.start(i)..].iter().zip(source.row(i, &mut gathered));
                    let changes = changes.map(|(&place, &value)| (place, value));
                    // SAFETY: each line belongs to one range, and holds the elements of `x`.
                    unsafe { target.update(i, changes, f) };
                }
            });
            return Ok(());
        }
        if self.starts.len() != 1
            && let Some(blocks) = Blocks::of(&source, &target, target.len(), self.n)
        {
            self.change_blocks(pool, &blocks, &source, &target, f);
            return Ok(());
        }
        self.each(
            pool,
            axis,
            src,
            out,
            || (),
            |target: &RowsMut<'_, T>, i, changes, ()| {
                let changes = changes.map(|(&place, &value)| (place, value));
                // SAFETY: each line belongs to one range, and holds the elements of `x`.
                unsafe { target.update(i, changes, f) }
            },
        )
    }

    /// [`change`](Self::change) by blocks of adjacent lines, which are copied.
    fn change_blocks<T: Element>(
        &self,
        pool: &ThreadPool,
        blocks: &Blocks,
        source: &Rows<'_, T>,
        target: &RowsMut<'_, T>,
        f: impl Fn(T, T) -> T + Copy + Sync,
    ) {
        let (len, pitch) = (target.len(), blocks.pitch());
        pool.ranges(blocks.count(), (GRAIN / (self.n * blocks.width())).max(1), |range| {
            let mut block = Vec::new();
            for (i, lines) in range.map(|block| blocks.get(block)) {
                // SAFETY: each line belongs to one range, and holds the elements of `x`.
                let row = |k: usize| unsafe { target.across(i, lines, k) };
                block.resize(len * pitch, row(0)[0]);
                for (k, old) in block.chunks_exact_mut(pitch).enumerate() {
                    old[..lines].copy_from_slice(row(k));
                }
                for k in 0..self.n {
                    // Indices are packed, so that those of adjacent lines are contiguous.
                    let places = &self.chosen[self.starts[i] + k * self.step..][..lines];
                    let changes = places.iter().zip(source.across(i, lines, k)).enumerate();
                    for (j, (&place, &value)) in changes {
                        let old = &mut block[place * pitch + j];
                        *old = f(*old, value);
                    }
                }
                for (k, new) in block.chunks_exact(pitch).enumerate() {
                    row(k).copy_from_slice(&new[..lines]);
                }
            }
        });
    }

    /// Calls a function for every line of the target, with its number and the sources by the places to which they go; and
    /// what `fresh` made for the thread.
    fn each<T: Element, S>(
        &self,
        pool: &ThreadPool,
        axis: usize,
        src: &View<'_>,
        out: &mut ViewMut<'_>,
        fresh: impl Fn() -> S + Sync,
        change: impl Fn(&RowsMut<'_, T>, usize, Changes<'_, T>, &mut S) + Sync,
    ) -> Result<(), Fault> {
        let source = Rows::<T>::new(&strided::part(src, &self.from), axis)?;
        let mut place = strided::part_mut(out, &self.to);
        let target = RowsMut::<T>::new(&mut place, axis)?;
        pool.ranges(source.count(), (GRAIN / self.n).max(1), |range| {
            let (mut gathered, mut state) = (Vec::new(), fresh());
            for i in range {
                let places = self.chosen[self.start(i)..].iter().step_by(self.step.max(1));
                change(&target, i, places.zip(source.row(i, &mut gathered)), &mut state);
            }
        });
        Ok(())
    }
}

/// The lines of an index that may differ: one, where it is the same along all other axes.
fn own_lines(index: &Layout, axis: usize) -> Result<Layout, Fault> {
    let repeated =
        |i: usize| i == axis || index.dims()[i] == 1 || (index.dims()[i] != 0 && index.strides()[i] == 0);
    let mut own = index.clone();
    if (0..index.ndim()).all(repeated) {
        for i in (0..index.ndim()).filter(|&i| i != axis) {
            own = own.slice(i, 0, 1, 1)?;
        }
    }
    Ok(own)
}

/// Elements that can be added; booleans by "or".
trait Plus: Element {
    fn plus(self, b: Self) -> Self;
}

macro_rules! plus {
    ($($a:ident, $b:ident: $($t:ty),* => $sum:expr;)*) => {$($(
        impl Plus for $t {
            #[inline(always)]
            fn plus(self, $b: $t) -> $t {
                let $a = self;
                $sum
            }
        }
    )*)*};
}

plus! {
    a, b: bool => a | b;
    a, b: u8, i8, i16, i32, u32, i64 => a.wrapping_add(b);
    a, b: f16, bf16, f32, f64, C64, C128 => a + b;
}

/// Elements that can be reduced.
trait Reduced: Element {
    /// What they accumulate in.
    type Wide: Combined;

    fn widened(self) -> Self::Wide;
    fn narrowed(wide: Self::Wide) -> Self;
}

/// What elements accumulate in. Integers wrap.
trait Combined: Plus + Default {
    fn times(self, b: Self) -> Self;
    /// The larger; NaN if either is.
    fn larger(self, b: Self) -> Self;
    /// The smaller; NaN if either is.
    fn smaller(self, b: Self) -> Self;
    /// The quotient; of integers rounded down.
    fn over(self, count: u32) -> Self;
}

macro_rules! combined {
    ($($ty:ty: $times:ident, $larger:path, $smaller:path, |$a:ident, $n:ident| $over:expr;)*) => {$(
        impl Combined for $ty {
            fn times(self, b: $ty) -> $ty {
                self.$times(b)
            }
            fn larger(self, b: $ty) -> $ty {
                $larger(self, b)
            }
            fn smaller(self, b: $ty) -> $ty {
                $smaller(self, b)
            }
            fn over(self, $n: u32) -> $ty {
                let $a = self;
                $over
            }
        }
    )*};
}

combined! {
    u8: wrapping_mul, Ord::max, Ord::min, |a, n| (u32::from(a) / n) as u8;
    i8: wrapping_mul, Ord::max, Ord::min, |a, n| i64::from(a).div_euclid(n.into()) as i8;
    i16: wrapping_mul, Ord::max, Ord::min, |a, n| i64::from(a).div_euclid(n.into()) as i16;
    i32: wrapping_mul, Ord::max, Ord::min, |a, n| i64::from(a).div_euclid(n.into()) as i32;
    u32: wrapping_mul, Ord::max, Ord::min, |a, n| a / n;
    i64: wrapping_mul, Ord::max, Ord::min, |a, n| a.div_euclid(n.into());
    f32: mul, Real::larger, Real::smaller, |a, n| a / n as f32;
    f64: mul, Real::larger, Real::smaller, |a, n| a / f64::from(n);
}

macro_rules! reduced {
    ($($ty:ty => $wide:ty, $narrow:expr;)*) => {$(
        impl Reduced for $ty {
            type Wide = $wide;
            fn widened(self) -> $wide {
                self.into()
            }
            fn narrowed(wide: $wide) -> $ty {
                $narrow(wide)
            }
        }
    )*};
}

reduced! {
    u8 => u8, u8::from;
    i8 => i8, i8::from;
    i16 => i16, i16::from;
    i32 => i32, i32::from;
    u32 => u32, u32::from;
    i64 => i64, i64::from;
    f16 => f32, f16::from_f32;
    bf16 => f32, bf16::from_f32;
    f32 => f32, f32::from;
    f64 => f64, f64::from;
}

//! Weighted sums of elements at indices, and their gradients.
//!
//! Rows of [`LANES`] channels are interleaved in panels, `[n + 1][LANES]`: a term is then one vector for all of them, wherever its element
//! is. The element behind the last one is zero; it is where indices of −1 lead, whose weights count as zeros.

use super::strided::{self, Disjoint, Rows, unreachable_memory};
use crate::ThreadPool;
use crate::math::Real;
use crate::simd::{self, Level, Task};
use rustorch_core::{DType, Element, Error, Fault, GatherSum, GatherSumBackward, View, ViewMut};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Channels of a panel.
const LANES: usize = 8;

/// Elements of a panel, and points, that one thread takes at once.
const BLOCK: usize = 1 << 12;
const POINTS: usize = 512;

/// Indices that make a thread worth its while, and elements of panels that are made before any is used.
const GRAIN: usize = 1 << 14;
const TOGETHER: usize = 1 << 19;

/// Panels for each thread from which on every one is made and used by one thread, whose cache it stays in, and the most elements of such.
const SHARE: usize = 4;
const OWN: usize = 1 << 17;

/// Calls a function for all elements, [`LANES`] at a time, and for the last ones, which are fewer, by itself: with a length that is not
/// known, [`load`] and [`store`] would be calls of `memcpy`.
macro_rules! by_lanes {
    ($len:expr, $this:ident.$part:ident($($arg:expr),*)) => {{
        let len = $len;
        let (mut this, whole) = ($this, len - len % LANES);
        for first in (0..whole).step_by(LANES) {
            this.$part::<true>($($arg,)* first);
        }
        if whole < len {
            this.$part::<false>($($arg,)* whole);
        }
    }};
}

/// See [`GatherSum`].
pub(super) fn forward(pool: &ThreadPool, args: [&View<'_>; 3], out: &mut ViewMut<'_>) -> Result<(), Fault> {
    match args[0].dtype() {
        DType::F32 => sums::<f32>(pool, args, out),
        DType::F64 => sums::<f64>(pool, args, out),
        _ => Err(unreachable_memory()),
    }
}

/// See [`GatherSumBackward`].
pub(super) fn backward(
    pool: &ThreadPool,
    op: &GatherSumBackward,
    args: [&View<'_>; 4],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    match args[0].dtype() {
        DType::F32 => gradients::<f32>(pool, op, args, outs),
        DType::F64 => gradients::<f64>(pool, op, args, outs),
        _ => Err(unreachable_memory()),
    }
}

/// Indices and weights, `[batch, terms, points]`.
struct Terms<'a, T: Clone> {
    /// Every one that of an element of a row, or −1.
    index: Cow<'a, [i32]>,
    weight: Cow<'a, [T]>,
    dims: [usize; 3],
}

impl<'a, T: Real> Terms<'a, T> {
    fn new(
        pool: &ThreadPool,
        op: &'static str,
        index: &View<'a>,
        weight: &View<'a>,
        len: usize,
    ) -> Result<Terms<'a, T>, Fault> {
        let &[batch, terms, points] = index.layout().dims() else { return Err(unreachable_memory()) };
        let index = match index.dtype() {
            DType::I32 => {
                let index = strided::dense::<i32>(index)?;
                check(pool, op, &index, len)?;
                index
            }
            _ => {
                let index = strided::dense::<i64>(index)?;
                check(pool, op, &index, len)?;
                // They are below a length that is an `i32`.
                index.iter().map(|&i| i as i32).collect()
            }
        };
        Ok(Terms { index, weight: strided::dense::<T>(weight)?, dims: [batch, terms, points] })
    }

    /// The indices and weights of each term, of some points.
    fn of(&self, batch: usize, points: &Range<usize>) -> SmallVec<[(&[i32], &[T]); 16]> {
        let [_, terms, all] = self.dims;
        let range = |term| {
            let first = (batch * terms + term) * all;
            first + points.start..first + points.end
        };
        (0..terms).map(|term| (&self.index[range(term)], &self.weight[range(term)])).collect()
    }
}

/// An error for indices that are neither of an element nor −1.
fn check<I: Element + Into<i64>>(
    pool: &ThreadPool,
    op: &'static str,
    index: &[I],
    len: usize,
) -> Result<(), Fault> {
    let wrong = AtomicBool::new(false);
    pool.ranges(index.len(), GRAIN, |range| {
        let [least, most] = simd::run(Bounds(&index[range]));
        wrong.fetch_or(least < -1 || most >= len as i64, Ordering::Relaxed);
    });
    if wrong.into_inner() {
        let fits = |&i: &i64| i >= -1 && i < len as i64;
        let index = index.iter().map(|&i| i.into()).find(|i| !fits(i)).unwrap_or_default();
        return Err(Error::Index { op, index, len }.into());
    }
    Ok(())
}

/// The least of some indices and 0, and the largest of them and −1.
struct Bounds<'a, I>(&'a [I]);

impl<I: Element + Into<i64>> Task for Bounds<'_, I> {
    type Output = [i64; 2];

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> [i64; 2] {
        self.0.iter().fold([0, -1], |[least, most], &i| [least.min(i.into()), most.max(i.into())])
    }
}

/// The rows of channels of a batch, and `none` for those that a panel has beyond them.
struct Channels<'a, T: Element> {
    rows: &'a Rows<'a, T>,
    channels: usize,
    none: Vec<T>,
}

impl<'a, T: Real> Channels<'a, T> {
    fn new(rows: &'a Rows<'a, T>, channels: usize) -> Channels<'a, T> {
        let none = if channels.is_multiple_of(LANES) { Vec::new() } else { vec![T::ZERO; rows.len()] };
        Channels { rows, channels, none }
    }

    /// How many panels a batch has.
    fn groups(&self) -> usize {
        self.channels.div_ceil(LANES)
    }

    /// How many of a panel's lanes are channels.
    fn count(&self, group: usize) -> usize {
        LANES.min(self.channels - group * LANES)
    }

    /// Elements of the rows of a group.
    fn of<'s>(
        &'s self,
        (batch, group): (usize, usize),
        range: &Range<usize>,
        scratch: &'s mut [Vec<T>; LANES],
    ) -> [&'s [T]; LANES] {
        let (first, count) = (batch * self.channels + group * LANES, self.count(group));
        let mut scratch = scratch.iter_mut();
        std::array::from_fn(|lane| match scratch.next() {
            Some(scratch) if lane < count => &self.rows.row(first + lane, scratch)[range.clone()],
            _ => &self.none[range.clone()],
        })
    }

    /// The panels of some batches, one behind the other.
    fn panels(&self, pool: &ThreadPool, batches: &Range<usize>, panels: &mut Vec<[T; LANES]>) {
        let (len, groups) = (self.rows.len(), self.groups());
        panels.clear();
        panels.resize(batches.len() * groups * (len + 1), [T::ZERO; LANES]);
        let blocks = len.div_ceil(BLOCK);
        let panels = Disjoint::new(panels);
        pool.ranges(batches.len() * groups * blocks, GRAIN / (LANES * BLOCK.min(len)), |range| {
            let mut scratch: [Vec<T>; LANES] = Default::default();
            for i in range {
                let (panel, first) = (i / blocks, i % blocks * BLOCK);
                let range = first..len.min(first + BLOCK);
                let x = self.of((batches.start + panel / groups, panel % groups), &range, &mut scratch);
                // SAFETY: each block of each panel is one unit of one range.
                let out = unsafe { panels.slice(panel * (len + 1) + first, range.len()) };
                interleave(x, out);
            }
        });
    }

    /// Batches whose panels are made together.
    fn rounds(&self, batch: usize) -> impl Iterator<Item = Range<usize>> {
        let step = (TOGETHER / (self.groups() * LANES * self.rows.len()).max(1)).max(1);
        (0..batch).step_by(step).map(move |first| first..batch.min(first + step))
    }
}

/// Interleaves some elements of a panel's rows.
fn interleave<T: Real>(x: [&[T]; LANES], out: &mut [[T; LANES]]) {
    simd::run(Interleave { x, out });
}

/// Rows as a panel.
struct Interleave<'a, T> {
    x: [&'a [T]; LANES],
    out: &'a mut [[T; LANES]],
}

impl<T: Real> Task for Interleave<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        by_lanes!(self.out.len(), self.part());
    }
}

impl<T: Real> Interleave<'_, T> {
    #[inline(always)]
    fn part<const WHOLE: bool>(&mut self, first: usize) {
        store::<_, WHOLE>(load_transposed::<_, WHOLE>(&self.x, first), first, self.out);
    }
}

/// Where in a panel an index leads, and what of its weight counts.
#[inline(always)]
fn term<T: Real>(index: i32, weight: T, len: usize) -> (usize, T) {
    if index < 0 { (len, T::ZERO) } else { (index as usize, weight) }
}

/// Elements from `first` on: [`LANES`] if it is `WHOLE`, else with `none` behind the last one.
#[inline(always)]
fn load<T: Copy, const WHOLE: bool>(x: &[T], first: usize, none: T) -> [T; LANES] {
    let rest = &x[first..];
    let mut part = [none; LANES];
    if WHOLE {
        part.copy_from_slice(&rest[..LANES]);
    } else {
        part[..rest.len()].copy_from_slice(rest);
    }
    part
}

/// Writes elements from `first` on: [`LANES`] if it is `WHOLE`, else as many as there are.
#[inline(always)]
fn store<T: Copy, const WHOLE: bool>(x: [T; LANES], first: usize, out: &mut [T]) {
    let rest = &mut out[first..];
    if WHOLE {
        rest[..LANES].copy_from_slice(&x);
    } else {
        rest.copy_from_slice(&x[..rest.len()]);
    }
}

/// Elements of some rows from `first` on, as `[LANES elements][LANES rows]`.
#[inline(always)]
fn load_transposed<T: Real, const WHOLE: bool>(x: &[&[T]; LANES], first: usize) -> [[T; LANES]; LANES] {
    let mut tile = [[T::ZERO; LANES]; LANES];
    for lane in 0..LANES {
        tile[lane] = load::<_, WHOLE>(x[lane], first, T::ZERO);
    }
    transposed(tile)
}

#[inline(always)]
fn transposed<T: Copy>(tile: [[T; LANES]; LANES]) -> [[T; LANES]; LANES] {
    let mut out = tile;
    for i in 0..LANES {
        for j in 0..LANES {
            out[j][i] = tile[i][j];
        }
    }
    out
}

fn sums<T: Real>(pool: &ThreadPool, args: [&View<'_>; 3], out: &mut ViewMut<'_>) -> Result<(), Fault> {
    let [x, index, weight] = args;
    let rows = Rows::<T>::new(x, 2)?;
    let terms = Terms::<T>::new(pool, GatherSum::NAME, index, weight, rows.len())?;
    let x = Channels::new(&rows, x.layout().dims()[1]);
    let ([batch, count, points], groups) = (terms.dims, x.groups());
    strided::with_slice(pool, out, |out: &mut [T]| {
        if out.is_empty() || rows.len() == 0 || count == 0 {
            out.fill(T::ZERO);
            return Ok(());
        }
        let chunks = points.div_ceil(POINTS);
        let out = Disjoint::new(out);
        // Of a panel's points, a chunk.
        let sum = |(b, group): (usize, usize), panel: &[[T; LANES]], chunk: usize| {
            let first = chunk * POINTS;
            let at = first..points.min(first + POINTS);
            let row = b * x.channels + group * LANES;
            // SAFETY: each chunk of each panel is one unit of one range, and of each row of the result, these points belong to it.
            let part = |lane| unsafe { out.slice((row + lane) * points + at.start, at.len()) };
            let mut outs: SmallVec<[&mut [T]; LANES]> = (0..x.count(group)).map(part).collect();
            simd::run(Sums { terms: &terms.of(b, &at), panel, outs: &mut outs });
        };
        let len = rows.len();
        if batch * groups >= SHARE * pool.threads() && len * LANES <= OWN {
            pool.ranges(batch * groups, GRAIN / (LANES * len + points * count * 2), |range| {
                let mut scratch: [Vec<T>; LANES] = Default::default();
                let mut panel = vec![[T::ZERO; LANES]; len + 1];
                for at in range.map(|i| (i / groups, i % groups)) {
                    interleave(x.of(at, &(0..len), &mut scratch), &mut panel[..len]);
                    (0..chunks).for_each(|chunk| sum(at, &panel, chunk));
                }
            });
            return Ok(());
        }
        let mut panels = Vec::new();
        for batches in x.rounds(batch) {
            x.panels(pool, &batches, &mut panels);
            let all = panels.chunks_exact(len + 1).collect::<Vec<_>>();
            let grain = GRAIN / (points.min(POINTS) * count * 2);
            pool.ranges(all.len() * chunks, grain, |range| {
                for i in range {
                    let panel = i / chunks;
                    sum((batches.start + panel / groups, panel % groups), all[panel], i % chunks);
                }
            });
        }
        Ok(())
    })
}

/// The sums of some points, of a panel's channels.
struct Sums<'a, 'o, T> {
    terms: &'a [(&'a [i32], &'a [T])],
    panel: &'a [[T; LANES]],
    outs: &'a mut [&'o mut [T]],
}

impl<T: Real> Task for Sums<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        by_lanes!(self.outs[0].len(), self.part(l));
    }
}

impl<T: Real> Sums<'_, '_, T> {
    #[inline(always)]
    fn part<const WHOLE: bool>(&mut self, l: impl Level, first: usize) {
        let len = self.panel.len() - 1;
        let mut sums = [[T::ZERO; LANES]; LANES];
        for (index, weight) in self.terms {
            let index = load::<_, WHOLE>(index, first, -1);
            let weight = load::<_, WHOLE>(weight, first, T::ZERO);
            for p in 0..LANES {
                let (at, weight) = term(index[p], weight[p], len);
                let x = self.panel[at];
                for lane in 0..LANES {
                    sums[p][lane] = weight.fma(l, x[lane], sums[p][lane]);
                }
            }
        }
        let sums = transposed(sums);
        for (out, sums) in self.outs.iter_mut().zip(sums) {
            store::<_, WHOLE>(sums, first, out);
        }
    }
}

fn gradients<T: Real>(
    pool: &ThreadPool,
    op: &GatherSumBackward,
    args: [&View<'_>; 4],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let [grad, x, index, weight] = args;
    let channels = x.layout().dims()[1];
    let (rows, grads) = (Rows::<T>::new(x, 2)?, Rows::<T>::new(grad, 2)?);
    let terms = Terms::<T>::new(pool, GatherSumBackward::NAME, index, weight, rows.len())?;
    let grads = Channels::new(&grads, channels);
    let mut outs = outs.iter_mut();
    if op.x {
        let out = outs.next().ok_or_else(unreachable_memory)?;
        strided::with_slice(pool, out, |out| {
            of_elements(pool, &terms, &grads, rows.len(), out);
            Ok(())
        })?;
    }
    if op.weight {
        let out = outs.next().ok_or_else(unreachable_memory)?;
        strided::with_slice(pool, out, |out| {
            of_weights(pool, &terms, &grads, &Channels::new(&rows, channels), out);
            Ok(())
        })?;
    }
    Ok(())
}

/// The gradient of the elements: each panel is one thread's.
fn of_elements<T: Real>(
    pool: &ThreadPool,
    terms: &Terms<'_, T>,
    grads: &Channels<'_, T>,
    len: usize,
    out: &mut [T],
) {
    let [batch, count, points] = terms.dims;
    if out.is_empty() || points == 0 || count == 0 {
        return out.fill(T::ZERO);
    }
    let groups = grads.groups();
    let out = Disjoint::new(out);
    pool.ranges(batch * groups, GRAIN / (points * count * 2), |range| {
        let mut scratch: [Vec<T>; LANES] = Default::default();
        let mut sums = Vec::new();
        for i in range {
            let (b, group) = (i / groups, i % groups);
            sums.clear();
            sums.resize(len + 1, [T::ZERO; LANES]);
            let all = 0..points;
            let of_group = grads.of((b, group), &all, &mut scratch);
            simd::run(AddTerms { terms: &terms.of(b, &all), grads: of_group, sums: &mut sums });
            let first = b * grads.channels + group * LANES;
            for lane in 0..grads.count(group) {
                // SAFETY: each row belongs to one unit of one range.
                let out = unsafe { out.slice((first + lane) * len, len) };
                out.iter_mut().zip(&sums).for_each(|(out, sums)| *out = sums[lane]);
            }
        }
    });
}

/// Adds the gradients of all points to a panel.
struct AddTerms<'a, T> {
    terms: &'a [(&'a [i32], &'a [T])],
    grads: [&'a [T]; LANES],
    sums: &'a mut [[T; LANES]],
}

impl<T: Real> Task for AddTerms<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        by_lanes!(self.grads[0].len(), self.part(l));
    }
}

impl<T: Real> AddTerms<'_, T> {
    #[inline(always)]
    fn part<const WHOLE: bool>(&mut self, l: impl Level, first: usize) {
        let len = self.sums.len() - 1;
        let grads = load_transposed::<_, WHOLE>(&self.grads, first);
        for (index, weight) in self.terms {
            let index = load::<_, WHOLE>(index, first, -1);
            let weight = load::<_, WHOLE>(weight, first, T::ZERO);
            for p in 0..LANES {
                let (at, weight) = term(index[p], weight[p], len);
                let mut sums = self.sums[at];
                for lane in 0..LANES {
                    sums[lane] = weight.fma(l, grads[p][lane], sums[lane]);
                }
                self.sums[at] = sums;
            }
        }
    }
}

/// The gradient of the weights: each point is one thread's.
fn of_weights<T: Real>(
    pool: &ThreadPool,
    terms: &Terms<'_, T>,
    grads: &Channels<'_, T>,
    x: &Channels<'_, T>,
    out: &mut [T],
) {
    let ([batch, count, points], len, groups) = (terms.dims, x.rows.len(), x.groups());
    if out.is_empty() || len == 0 || groups == 0 {
        return out.fill(T::ZERO);
    }
    let chunks = points.div_ceil(POINTS);
    let out = Disjoint::new(out);
    let mut panels = Vec::new();
    for batches in x.rounds(batch) {
        x.panels(pool, &batches, &mut panels);
        let all = panels.chunks_exact(len + 1).collect::<Vec<_>>();
        let grain = GRAIN / (points.min(POINTS) * count * groups * 2);
        pool.ranges(batches.len() * chunks, grain, |range| {
            let mut scratch: [Vec<T>; LANES] = Default::default();
            for i in range {
                let (b, first) = (batches.start + i / chunks, i % chunks * POINTS);
                let at = first..points.min(first + POINTS);
                // SAFETY: of each term's weights, these points belong to one unit of one range.
                let part = |term| unsafe { out.slice((b * count + term) * points + at.start, at.len()) };
                let mut outs: SmallVec<[&mut [T]; 16]> = (0..count).map(part).collect();
                outs.iter_mut().for_each(|out| out.fill(T::ZERO));
                for (group, panel) in all[(b - batches.start) * groups..][..groups].iter().enumerate() {
                    let grads = grads.of((b, group), &at, &mut scratch);
                    simd::run(AddProducts { terms: &terms.of(b, &at), grads, panel, outs: &mut outs });
                }
            }
        });
    }
}

/// Adds the products of a panel's channels to the gradients of some points' weights.
struct AddProducts<'a, 'o, T> {
    terms: &'a [(&'a [i32], &'a [T])],
    grads: [&'a [T]; LANES],
    panel: &'a [[T; LANES]],
    outs: &'a mut [&'o mut [T]],
}

impl<T: Real> Task for AddProducts<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        by_lanes!(self.grads[0].len(), self.part());
    }
}

impl<T: Real> AddProducts<'_, '_, T> {
    #[inline(always)]
    fn part<const WHOLE: bool>(&mut self, first: usize) {
        let len = self.panel.len() - 1;
        let grads = load_transposed::<_, WHOLE>(&self.grads, first);
        for ((index, _), out) in self.terms.iter().zip(self.outs.iter_mut()) {
            let index = load::<_, WHOLE>(index, first, -1);
            let mut products = [[T::ZERO; LANES]; LANES];
            for p in 0..LANES {
                let (at, _) = term(index[p], T::ZERO, len);
                let x = self.panel[at];
                for lane in 0..LANES {
                    products[p][lane] = grads[p][lane] * x[lane];
                }
            }
            let mut sums = load::<_, WHOLE>(out, first, T::ZERO);
            for products in transposed(products) {
                for p in 0..LANES {
                    // Not even NaN, of a term without an element.
                    sums[p] = sums[p] + if index[p] < 0 { T::ZERO } else { products[p] };
                }
            }
            store::<_, WHOLE>(sums, first, out);
        }
    }
}

//! The scan of selective state space models: Mamba, with a decay for each element of a state, and Mamba 2, with one for each head.

use super::operand::{by_head, matrices};
use super::tile::Lanes;
use super::vector::{Vector, copy};
use crate::ThreadPool;
use crate::kernels::strided::{self, Disjoint, Matrices, Matrix, unreachable_memory, with_slice};
use crate::simd::{self, LANES, Level, Task};
use rustorch_core::{Fault, View, ViewMut, dispatch_dtype};
use std::borrow::Cow;
use std::ops::Range;

/// Elements of states that a task keeps, about.
const ELEMENTS: usize = 1 << 11;
/// Rows of a state that go together.
const ROWS: usize = 4;

pub(in crate::kernels) fn run(
    pool: &ThreadPool,
    args: [&View<'_>; 6],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    dispatch_dtype!(args[0].dtype(), [F32 F64], T => typed::<T>(pool, args, outs), _ => Err(unreachable_memory()))
}

fn typed<T: Vector>(
    pool: &ThreadPool,
    [x, dt, a, b, c, state]: [&View<'_>; 6],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let [out, next] = outs else { return Err(unreachable_memory()) };
    let [batch, heads, p, n] = *state.layout().dims() else { return Err(unreachable_memory()) };
    let (seq, groups) = (x.layout().dims()[1], b.layout().dims()[2]);
    if batch * heads * p == 0 {
        return Ok(());
    }
    // Rows of all heads, one after the other.
    let merged = strided::merge_last(x.layout(), 2)?;
    let in_place = merged.as_ref().map(|layout| matrices::<T>(x, layout)).transpose()?;
    let packed = if merged.is_none() { strided::dense::<T>(x)? } else { Cow::default() };
    let x = |sequence: usize| match &in_place {
        Some(x) => x.matrix(sequence),
        None => Matrix::packed(&packed[sequence * seq * heads * p..], heads * p),
    };
    let layouts = [by_head(b)?, by_head(c)?];
    let (b, c) = (matrices::<T>(b, &layouts[0])?, matrices::<T>(c, &layouts[1])?);
    let (dt, state) = (Matrices::<T>::new(dt)?, Matrices::<T>::new(state)?);
    let by_element = a.layout().ndim() == 2;
    let a = strided::dense::<T>(a)?;
    let blocks = blocks(heads / groups, p, n);
    let grain = (1 << 12) / ((seq + 1) * ELEMENTS);
    with_slice(pool, out, |out: &mut [T]| {
        with_slice(pool, next, |next: &mut [T]| {
            let (out, next) = (Disjoint::new(out), Disjoint::new(next));
            pool.ranges(batch * groups * blocks.len(), grain, |tasks| {
                for task in tasks {
                    let (unit, block) = (task / blocks.len(), &blocks[task % blocks.len()]);
                    let (sequence, group) = (unit / groups, unit % groups);
                    let first = group * (heads / groups) * p;
                    simd::run(Rows {
                        x: x(sequence),
                        dt: dt.matrix(sequence),
                        a: &a,
                        by_element,
                        b: b.matrix(unit),
                        c: c.matrix(unit),
                        state: &state,
                        out: &out,
                        next: &next,
                        sizes: Sizes { seq, heads, p, n },
                        sequence,
                        rows: first + block.start..first + block.end,
                    });
                }
            });
            Ok(())
        })
    })
}

/// Parts of the rows of a group's heads: some heads, or some rows of one.
fn blocks(heads: usize, p: usize, n: usize) -> Vec<Range<usize>> {
    let rows = (ELEMENTS / n.max(1)).max(ROWS) / ROWS * ROWS;
    let mut blocks = Vec::new();
    if p > rows {
        for head in 0..heads {
            blocks.extend((0..p).step_by(rows).map(|i| head * p + i..head * p + p.min(i + rows)));
        }
    } else {
        let together = (rows / p).max(1);
        blocks.extend((0..heads).step_by(together).map(|head| head * p..heads.min(head + together) * p));
    }
    blocks
}

#[derive(Clone, Copy)]
struct Sizes {
    seq: usize,
    heads: usize,
    p: usize,
    n: usize,
}

/// Some rows of the states of one sequence's heads, all of one group, through all positions.
struct Rows<'a, T: Vector> {
    x: Matrix<'a, T>,
    dt: Matrix<'a, T>,
    /// `[heads]` or `[heads, n]`
    a: &'a [T],
    by_element: bool,
    b: Matrix<'a, T>,
    c: Matrix<'a, T>,
    state: &'a Matrices<'a, T>,
    out: &'a Disjoint<'a, T>,
    next: &'a Disjoint<'a, T>,
    sizes: Sizes,
    sequence: usize,
    /// Counted through all heads of the sequence.
    rows: Range<usize>,
}

impl<T: Vector> Task for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        if self.by_element { self.through::<L, true>(l) } else { self.through::<L, false>(l) }
    }
}

impl<T: Vector> Rows<'_, T> {
    #[inline(always)]
    fn through<L: Level, const BY_ELEMENT: bool>(&self, l: L) {
        let Sizes { seq, heads, p, n } = self.sizes;
        let (first, count) = (self.rows.start, self.rows.len());
        let vectors = n.div_ceil(LANES);
        // Rows, and elements of them, are filled up with zeros.
        let groups = count.div_ceil(ROWS);
        let mut tile = vec![Lanes::<T, ROWS>::ZERO; groups * vectors];
        for row in 0..count {
            let (head, i) = ((first + row) / p, (first + row) % p);
            let from = self.state.matrix(self.sequence * heads + head).row(i);
            let group = &mut tile[row / ROWS * vectors..][..vectors];
            for (to, from) in group.iter_mut().zip(from.chunks(LANES)) {
                copy(l, from, &mut to.0[row % ROWS][..from.len()]);
            }
        }
        // Of each row: its decay where it is one, and dt · x.
        let (mut decays, mut steps) = (vec![[T::ZERO; ROWS]; groups], vec![[T::ZERO; ROWS]; groups]);
        let (mut b, mut c) = (vec![Lanes::<T, 1>::ZERO; vectors], vec![Lanes::<T, 1>::ZERO; vectors]);
        // Of each element, where they are many; in the order of the tile.
        let mut decay = vec![Lanes::<T, ROWS>::ZERO; if BY_ELEMENT { groups * vectors } else { 0 }];
        for t in 0..seq {
            let (x, dt) = (&self.x.row(t)[self.rows.clone()], self.dt.row(t));
            let (decays_of, steps_of) = (decays.as_flattened_mut(), steps.as_flattened_mut());
            // Head by head: the first may have begun before.
            let (mut head, mut row, mut len) = (first / p, 0, p - first % p);
            while row < count {
                let rows = row..count.min(row + len);
                let step = dt[head];
                for (to, &x) in steps_of[rows.clone()].iter_mut().zip(&x[rows.clone()]) {
                    *to = step * x;
                }
                if BY_ELEMENT {
                    let a = &self.a[head * n..][..n];
                    for row in rows.clone() {
                        let group = &mut decay[row / ROWS * vectors..][..vectors];
                        for (decay, a) in group.iter_mut().zip(a.chunks(LANES)) {
                            for (decay, &a) in decay.0[row % ROWS].iter_mut().zip(a) {
                                *decay = (step * a).exp(l);
                            }
                        }
                    }
                } else {
                    decays_of[rows.clone()].fill((step * self.a[head]).exp(l));
                }
                (head, row, len) = (head + 1, rows.end, p);
            }
            for (to, from) in b.iter_mut().zip(self.b.row(t).chunks(LANES)) {
                *to = Lanes::new(l, from);
            }
            for (to, from) in c.iter_mut().zip(self.c.row(t).chunks(LANES)) {
                *to = Lanes::new(l, from);
            }
            let start = (self.sequence * seq + t) * heads * p + first;
            // SAFETY: tasks have different rows.
            let out = unsafe { self.out.slice(start, count) };
            for (group, out) in out.chunks_mut(ROWS).enumerate() {
                let at = group * vectors;
                let rows = &mut tile[at..][..vectors];
                let mut sums = [T::splat(l, T::ZERO); ROWS];
                for v in 0..vectors {
                    let (b, c) = (T::load(l, &b[v].0[0]), T::load(l, &c[v].0[0]));
                    for r in 0..ROWS {
                        let decay = if BY_ELEMENT {
                            T::load(l, &decay[at + v].0[r])
                        } else {
                            T::splat(l, decays[group][r])
                        };
                        let s = T::times(l, T::load(l, &rows[v].0[r]), decay);
                        let s = T::mul_add(l, b, T::splat(l, steps[group][r]), s);
                        T::store(l, s, &mut rows[v].0[r]);
                        sums[r] = T::mul_add(l, s, c, sums[r]);
                    }
                }
                out.copy_from_slice(&T::sum4(l, sums)[..out.len()]);
            }
        }
        for row in 0..count {
            let start = (self.sequence * heads * p + first + row) * n;
            // SAFETY: as above.
            let out = unsafe { self.next.slice(start, n) };
            let group = &tile[row / ROWS * vectors..][..vectors];
            for (out, from) in out.chunks_mut(LANES).zip(group) {
                copy(l, &from.0[row % ROWS][..out.len()], out);
            }
        }
    }
}

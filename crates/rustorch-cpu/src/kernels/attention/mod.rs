//! Scaled dot-product attention.
//!
//! One pass over the keys in blocks of [`flash::KEYS`], counted from key 0, with a running maximum and sum (Dao et al.:
//! *FlashAttention*, 2022). Scores and sums are `f32`. Queries that share keys go together, but each one's arithmetic is
//! its own: its result does not depend on the others, on their number, or on threads.

mod backward;
mod chunks;
mod double;
mod drawn;
mod flash;
mod half;
mod tiles;

pub(super) use backward::{Args as BackwardArgs, run as run_backward};

use super::strided::{self, Matrices, Matrix, RowsMut, unreachable_memory};
use crate::ThreadPool;
#[cfg(target_arch = "x86_64")]
use crate::kernels::matmul::Bf16Tiles;
use crate::math::Half;
use crate::simd::{self, Level, Task, from_bf16};
use drawn::DrawnMasks;
use flash::{KEYS, MOST_ROWS, Rows};
use rustorch_core::{Attention, DType, Element, Fault, Layout, View, ViewMut, bf16, f16};
use std::ops::Range;

pub(super) fn run(
    pool: &ThreadPool,
    attention: &Attention,
    [q, k, v]: [&View<'_>; 3],
    mask: Option<&View<'_>>,
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let (out, lse) = outs.split_first_mut().ok_or_else(unreachable_memory)?;
    let out = Outputs { out, lse: lse.first_mut() };
    let sizes = Sizes::new(q, k, v);
    let mask_layout = mask.map(|mask| sizes.mask_layout(q, mask)).transpose()?;
    let mask = mask.zip(mask_layout.as_ref()).map(|(mask, layout)| strided::part(mask, layout));
    let views = [q, k, v];
    match (q.dtype(), k.dtype()) {
        (DType::F32, DType::F32) if tiles::fits(attention, &sizes) => {
            tiled(pool, attention, sizes, views, mask, out, tiles::Singles::<f32>::new())
        }
        (DType::F16, DType::F16) if tiles::fits(attention, &sizes) => {
            tiled(pool, attention, sizes, views, mask, out, tiles::Singles::<f16>::new())
        }
        (DType::BF16, DType::BF16) if tiles::fits(attention, &sizes) => {
            #[cfg(target_arch = "x86_64")]
            if let Some(pairs) = Bf16Tiles::get() {
                return tiled(pool, attention, sizes, views, mask, out, tiles::Pairs(pairs));
            }
            tiled(pool, attention, sizes, views, mask, out, tiles::Singles::<bf16>::new())
        }
        (DType::F32, DType::F32) => single::<f32, f32>(pool, attention, sizes, views, mask, out),
        (DType::F32, DType::F16) => single::<f32, f16>(pool, attention, sizes, views, mask, out),
        (DType::F32, DType::BF16) => single::<f32, bf16>(pool, attention, sizes, views, mask, out),
        (DType::F16, DType::F16) => single::<f16, f16>(pool, attention, sizes, views, mask, out),
        (DType::BF16, DType::BF16) => single::<bf16, bf16>(pool, attention, sizes, views, mask, out),
        (DType::F64, DType::F64) => double::run(pool, attention, sizes, views, mask, out),
        _ => Err(unreachable_memory()),
    }
}

/// The results.
struct Outputs<'a, 'v> {
    out: &'a mut ViewMut<'v>,
    /// The logarithm of the sum of each query's exponentiated scores, where it is asked for.
    lse: Option<&'a mut ViewMut<'v>>,
}

/// The lengths of a problem.
#[derive(Clone, Copy)]
struct Sizes {
    /// Key/value heads of all batches.
    kv_heads: usize,
    /// Query heads that share one of them.
    group: usize,
    /// Queries of a head.
    m: usize,
    /// Keys.
    n: usize,
    /// Width of queries and keys.
    d: usize,
    /// Width of values.
    e: usize,
}

impl Sizes {
    fn new(q: &View<'_>, k: &View<'_>, v: &View<'_>) -> Sizes {
        let (qd, kd, vd) = (q.layout().dims(), k.layout().dims(), v.layout().dims());
        let ndim = qd.len();
        Sizes {
            kv_heads: kd[..ndim - 2].iter().product(),
            group: qd[ndim - 3] / kd[ndim - 3].max(1),
            m: qd[ndim - 2],
            n: kd[ndim - 2],
            d: qd[ndim - 1],
            e: vd[ndim - 1],
        }
    }

    /// Query rows of a key/value head: all queries of its first query head, then of the next.
    fn rows(&self) -> usize {
        self.group * self.m
    }

    /// The mask broadcast to `[.., heads, m, n]`.
    fn mask_layout(&self, q: &View<'_>, mask: &View<'_>) -> Result<Layout, Fault> {
        let ndim = q.layout().ndim();
        let shape = q.layout().shape().with_dim(ndim - 1, self.n)?;
        Ok(mask.layout().broadcast_to(&shape, "attention")?)
    }

    /// The keys that query `i` sees, the mask aside.
    fn visible(&self, attention: &Attention, i: usize) -> Range<usize> {
        // One past the query's own place among the keys.
        let here = i.saturating_add(attention.causal.unwrap_or(0)).saturating_add(1);
        let end = if attention.causal.is_some() { here.min(self.n) } else { self.n };
        let start = attention.window.map_or(0, |window| here.saturating_sub(window));
        start.min(end)..end
    }
}

/// A mask of booleans, or one to add.
enum Mask<'a, T> {
    Keep(Matrices<'a, bool>),
    Add(Matrices<'a, T>),
}

impl<'a, T: Element> Mask<'a, T> {
    fn new(mask: &View<'a>) -> Result<Mask<'a, T>, Fault> {
        Ok(match mask.dtype() {
            DType::Bool => Mask::Keep(Matrices::new(mask)?),
            _ => Mask::Add(Matrices::new(mask)?),
        })
    }

    /// The row of a query.
    fn row(&self, head: usize, i: usize) -> MaskRow<'_, T> {
        match self {
            Mask::Keep(mask) => MaskRow::Keep(mask.matrix(head).row(i)),
            Mask::Add(mask) => MaskRow::Add(mask.matrix(head).row(i)),
        }
    }
}

/// The mask of one query.
enum MaskRow<'a, T> {
    Keep(&'a [bool]),
    Add(&'a [T]),
}

/// Elements that are computed in `f32`.
trait Load: Element {
    /// Converts slices of equal length.
    fn load<L: Level>(l: L, x: &[Self], out: &mut [f32]);
    /// Rounds slices of equal length.
    fn save(x: &[f32], out: &mut [Self]);
    /// The elements, if they need no conversion.
    fn as_f32(_x: &[Self]) -> Option<&[f32]> {
        None
    }
    /// As `load`, for one slice.
    fn widen(x: &[Self], out: &mut [f32]) {
        simd::run(Widen(x, out));
    }
}

impl Load for f32 {
    #[inline(always)]
    fn load<L: Level>(_: L, x: &[f32], out: &mut [f32]) {
        out.copy_from_slice(x);
    }
    fn save(x: &[f32], out: &mut [f32]) {
        out.copy_from_slice(x);
    }
    fn as_f32(x: &[f32]) -> Option<&[f32]> {
        Some(x)
    }
}

impl Load for f16 {
    #[inline(always)]
    fn load<L: Level>(l: L, x: &[f16], out: &mut [f32]) {
        l.widen(x, out);
    }
    fn save(x: &[f32], out: &mut [f16]) {
        f16::narrow_all(x, out);
    }
}

impl Load for bf16 {
    #[inline(always)]
    fn load<L: Level>(_: L, x: &[bf16], out: &mut [f32]) {
        for (x, out) in x.iter().zip(out) {
            *out = from_bf16(*x);
        }
    }
    fn save(x: &[f32], out: &mut [bf16]) {
        bf16::narrow_all(x, out);
    }
}

/// Converts one slice.
struct Widen<'a, T>(&'a [T], &'a mut [f32]);

impl<T: Load> Task for Widen<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        T::load(l, self.0, self.1);
    }
}

/// Converts consecutive rows of a matrix, to rows `stride` apart.
struct LoadRows<'a, T> {
    from: Matrix<'a, T>,
    rows: Range<usize>,
    to: &'a mut [f32],
    stride: usize,
}

impl<T: Load> Task for LoadRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        for (i, out) in self.rows.zip(self.to.chunks_mut(self.stride)) {
            let row = self.from.row(i);
            T::load(l, row, &mut out[..row.len()]);
        }
    }
}

/// Consecutive rows of a matrix where they are, if they need no conversion and nothing is between them.
fn in_place<'a, T: Load>(from: Matrix<'a, T>, rows: Range<usize>) -> Option<&'a [f32]> {
    from.contiguous(rows).and_then(T::as_f32)
}

/// Sets the scores of a query that it does not see to −∞, and adds its mask. Its scores begin with key `here.start`; behind `here` there are no keys.
fn mask_scores<Q: Load>(
    scores: &mut [f32],
    here: Range<usize>,
    seen: Range<usize>,
    mask: Option<MaskRow<'_, Q>>,
) {
    let to = seen.end.clamp(here.start, here.end) - here.start;
    let from = (seen.start.clamp(here.start, here.end) - here.start).min(to);
    scores[..from].fill(f32::NEG_INFINITY);
    scores[to..].fill(f32::NEG_INFINITY);
    match mask {
        None => {}
        Some(MaskRow::Keep(mask)) => {
            for (score, &keep) in scores.iter_mut().zip(&mask[here]) {
                if !keep {
                    *score = f32::NEG_INFINITY;
                }
            }
        }
        Some(MaskRow::Add(mask)) => {
            let mask = &mask[here.start + from..here.start + to];
            for (scores, mask) in scores[from..to].chunks_mut(KEYS).zip(mask.chunks(KEYS)) {
                let mut add = [0.0; KEYS];
                Q::widen(mask, &mut add[..mask.len()]);
                for (score, add) in scores.iter_mut().zip(add) {
                    *score += add;
                }
            }
        }
    }
}

/// Attention of many queries by tiles.
fn tiled<F: tiles::Factors>(
    pool: &ThreadPool,
    attention: &Attention,
    sizes: Sizes,
    [q, k, v]: [&View<'_>; 3],
    mask: Option<View<'_>>,
    Outputs { out, lse }: Outputs<'_, '_>,
    factors: F,
) -> Result<(), Fault> {
    let (q, k, v) = (Matrices::new(q)?, Matrices::new(k)?, Matrices::new(v)?);
    let mask = mask.as_ref().map(Mask::new).transpose()?;
    let args = tiles::AttentionArgs { factors, attention, sizes, q, k, v, mask };
    let last = out.layout().ndim() - 1;
    let results = RowsMut::<F::X>::new(out, last)?;
    strided::with_slice_if_wanted(pool, lse, |lse: Option<&mut [f32]>| {
        let shared_lse = lse.map(strided::Disjoint::new);
        args.run(pool, &|row, result, lse| {
            let mut scattered = Vec::new();
            // SAFETY: every row comes once; what is written is not read.
            unsafe {
                results.with_row(row, &mut scattered, |out| F::X::save(result, out));
                if let Some(shared) = &shared_lse {
                    shared.slice(row, 1)[0] = lse;
                }
            }
        });
        Ok(())
    })
}

/// Multiply-adds that take longer than waking a thread that sleeps.
const WORTH_A_THREAD: usize = 1 << 16;

/// Attention in `f32` over queries of type `Q`, keys and values of type `K`.
fn single<Q: Load, K: Load>(
    pool: &ThreadPool,
    attention: &Attention,
    sizes: Sizes,
    [q, k, v]: [&View<'_>; 3],
    mask: Option<View<'_>>,
    Outputs { out, lse }: Outputs<'_, '_>,
) -> Result<(), Fault> {
    let rounds_to_f16 = attention.rounds_to_f16(q.dtype(), k.dtype());
    let (q, k, v) = (Matrices::<Q>::new(q)?, Matrices::<K>::new(k)?, Matrices::<K>::new(v)?);
    let mask = mask.as_ref().map(Mask::<Q>::new).transpose()?;
    let rows = sizes.rows();
    if rows == 0 || sizes.kv_heads == 0 || sizes.e == 0 && lse.is_none() {
        return Ok(());
    }
    // Whole groups where that keeps every thread busy.
    let threads = pool.threads();
    let share = if sizes.kv_heads * rows.div_ceil(MOST_ROWS) >= threads {
        rows
    } else {
        (sizes.kv_heads * rows).div_ceil(2 * threads).max(4)
    };
    let share = share.min(MOST_ROWS).min(rows);
    let chunks = rows.div_ceil(share);
    // Rows of the result may be anywhere: those of a head in the columns of a matrix of all heads.
    let last = out.layout().ndim() - 1;
    let results = RowsMut::<Q>::new(out, last)?;
    let fill = |lse: Option<&mut [f32]>| {
        let shared_lse = lse.map(strided::Disjoint::new);
        let attend = |task: usize| {
            let (head, chunk) = (task / chunks, task % chunks);
            let range = chunk * share..rows.min((chunk + 1) * share);
            let (k, v) = (k.matrix(head), v.matrix(head));
            let mut work =
                Rows::new(range.len(), sizes.d, sizes.e, rounds_to_f16, attention.dropout.is_some());
            let mut drawn = attention.dropout.as_ref().map(|dropout| {
                DrawnMasks::new(dropout, head * rows + range.start..head * rows + range.end, sizes.n)
            });
            for (slot, row) in range.clone().enumerate() {
                let from = q.matrix(head * sizes.group + row / sizes.m);
                let i = row % sizes.m;
                let (to, stride) = work.query(slot);
                simd::run(LoadRows { from, rows: i..i + 1, to, stride });
            }
            work.settle_queries();
            let seen = range.clone().map(|row| sizes.visible(attention, row % sizes.m));
            let seen = seen.filter(|keys| !keys.is_empty());
            let (first, end) =
                seen.fold((usize::MAX, 0), |(a, b), keys| (a.min(keys.start), b.max(keys.end)));
            // Blocks are counted from key 0, whatever is visible.
            for start in (first / KEYS * KEYS..end).step_by(KEYS) {
                let count = KEYS.min(end - start);
                let here = start..start + count;
                let keys = if work.takes_keys(count) { in_place(k, here.clone()) } else { None };
                if keys.is_none() {
                    let (to, stride) = work.keys();
                    simd::run(LoadRows { from: k, rows: here.clone(), to, stride });
                }
                let values = if work.takes_values() { in_place(v, here.clone()) } else { None };
                if values.is_none() {
                    let (to, stride) = work.values();
                    simd::run(LoadRows { from: v, rows: here, to, stride });
                }
                work.scores(keys, count, attention);
                for (slot, row) in range.clone().enumerate() {
                    let (i, keys) = (row % sizes.m, sizes.visible(attention, row % sizes.m));
                    let mask = mask.as_ref().map(|mask| mask.row(head * sizes.group + row / sizes.m, i));
                    mask_scores(work.row_scores(slot), start..start + count, keys, mask);
                }
                if let Some(drawn) = &mut drawn {
                    drawn.draw(start);
                    for slot in 0..range.len() {
                        if let Some(masks) = work.row_masks(slot) {
                            masks[..count].copy_from_slice(drawn.row(slot, start, count));
                        }
                    }
                }
                work.absorb(values, count);
            }
            work.finish();
            let mut scattered = Vec::new();
            for slot in 0..range.len() {
                let row = head * rows + range.start + slot;
                // SAFETY: tasks have different heads or disjoint ranges of rows; what is written is not read.
                unsafe { results.with_row(row, &mut scattered, |out| Q::save(work.result(slot), out)) };
            }
            if let Some(shared) = &shared_lse {
                // SAFETY: as above.
                work.lse(unsafe { shared.slice(head * rows + range.start, range.len()) });
            }
        };
        let tasks = sizes.kv_heads * chunks;
        match (sizes.kv_heads * rows).saturating_mul(sizes.n * (sizes.d + sizes.e)) < WORTH_A_THREAD {
            true => (0..tasks).for_each(attend),
            false => pool.run(tasks, attend),
        }
        Ok(())
    };
    strided::with_slice_if_wanted(pool, lse, fill)
}

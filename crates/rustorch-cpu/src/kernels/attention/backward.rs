//! The gradients of attention, chunk by chunk of queries and keys, without the matrix of weights.
//!
//! Weights come again from the log-sum-exp (Dao: *FlashAttention-2*, 2023). Each element of a gradient is one chain of
//! multiply-adds over keys or over queries, in order, however the work is divided: it does not depend on threads.

use super::chunks::{self, Lines, QUERIES, Spans, Wanted, Weights, zero};
use super::{Mask, Sizes};
use crate::ThreadPool;
use crate::kernels::dropout;
use crate::kernels::matmul::{Same, Scalar};
use crate::kernels::strided::{self, Disjoint, Matrices, Matrix, unreachable_memory, with_slice_if_wanted};
use crate::math::{Real, Wide};
use rustorch_core::{AttentionBackward, DType, Fault, View, ViewMut, bf16, f16};
use std::borrow::Cow;
use std::ops::Range;

/// The views of the arguments.
pub(in crate::kernels) struct Args<'a, 'v> {
    pub(in crate::kernels) grad: &'a View<'v>,
    pub(in crate::kernels) q: &'a View<'v>,
    pub(in crate::kernels) k: &'a View<'v>,
    pub(in crate::kernels) v: &'a View<'v>,
    pub(in crate::kernels) out: &'a View<'v>,
    pub(in crate::kernels) lse: &'a View<'v>,
    pub(in crate::kernels) mask: Option<&'a View<'v>>,
}

pub(in crate::kernels) fn run(
    pool: &ThreadPool,
    op: &AttentionBackward,
    args: &Args<'_, '_>,
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    match (args.q.dtype(), args.k.dtype()) {
        (DType::F32, DType::F32) => typed::<f32, f32>(pool, op, args, outs),
        (DType::F32, DType::F16) => typed::<f32, f16>(pool, op, args, outs),
        (DType::F32, DType::BF16) => typed::<f32, bf16>(pool, op, args, outs),
        (DType::F16, DType::F16) => typed::<f16, f16>(pool, op, args, outs),
        (DType::BF16, DType::BF16) => typed::<bf16, bf16>(pool, op, args, outs),
        (DType::F64, DType::F64) => typed::<f64, f64>(pool, op, args, outs),
        _ => Err(unreachable_memory()),
    }
}

/// Elements that are multiplied in a type of their own or a wider one.
trait Operand: Wide<Acc: Sum> {
    /// Rows of a matrix in the type in which they are multiplied: as they are, or converted into `scratch`.
    fn rows<'a>(
        matrix: Matrix<'a, Self>,
        rows: Range<usize>,
        scratch: &'a mut Vec<Self::Acc>,
    ) -> Matrix<'a, Self::Acc>;
}

/// Types of sums, in which matrices are packed as they are.
pub(super) trait Sum: Real + Scalar + Wide<Acc = Self> {
    /// How columns are packed.
    type Packing: crate::kernels::matmul::Arithmetic<X = Self, W = Self, E = Self>;
}

macro_rules! sums {
    ($($ty:ty),*) => {$(
        impl Sum for $ty {
            type Packing = Same<$ty>;
        }

        impl Operand for $ty {
            fn rows<'a>(
                matrix: Matrix<'a, $ty>,
                rows: Range<usize>,
                _: &'a mut Vec<$ty>,
            ) -> Matrix<'a, $ty> {
                matrix.narrow(rows)
            }
        }
    )*};
}

macro_rules! halves {
    ($($ty:ty),*) => {$(
        impl Operand for $ty {
            fn rows<'a>(
                matrix: Matrix<'a, $ty>,
                rows: Range<usize>,
                scratch: &'a mut Vec<f32>,
            ) -> Matrix<'a, f32> {
                let cols = matrix.cols();
                scratch.clear();
                let mut wide = Vec::new();
                for row in rows {
                    scratch.extend_from_slice(<$ty>::widen(matrix.row(row), &mut wide));
                }
                Matrix::packed(scratch, cols)
            }
        }
    )*};
}

sums!(f32, f64);
halves!(f16, bf16);

/// Everything that tasks read.
struct Inputs<'a, Q: Wide, K: Wide> {
    sizes: Sizes,
    op: &'a AttentionBackward,
    q: Matrices<'a, Q>,
    k: Matrices<'a, K>,
    v: Matrices<'a, K>,
    grad: Matrices<'a, Q>,
    out: Matrices<'a, Q>,
    lse: Cow<'a, [Q::Acc]>,
    mask: Option<Mask<'a, Q>>,
}

/// Where gradients go, of those that are wanted.
struct Results<'a, Q, K> {
    q: Option<Disjoint<'a, Q>>,
    k: Option<Disjoint<'a, K>>,
    v: Option<Disjoint<'a, K>>,
}

fn typed<Q: Operand, K: Operand<Acc = Q::Acc>>(
    pool: &ThreadPool,
    op: &AttentionBackward,
    args: &Args<'_, '_>,
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let sizes = Sizes::new(args.q, args.k, args.v);
    let mask_layout = args.mask.map(|mask| sizes.mask_layout(args.q, mask)).transpose()?;
    let mask = args.mask.zip(mask_layout.as_ref()).map(|(mask, layout)| strided::part(mask, layout));
    let inputs = Inputs {
        sizes,
        op,
        q: Matrices::<Q>::new(args.q)?,
        k: Matrices::<K>::new(args.k)?,
        v: Matrices::<K>::new(args.v)?,
        grad: Matrices::<Q>::new(args.grad)?,
        out: Matrices::<Q>::new(args.out)?,
        lse: strided::dense::<Q::Acc>(args.lse)?,
        mask: mask.as_ref().map(Mask::<Q>::new).transpose()?,
    };
    let mut outs = outs.iter_mut();
    let [dq, dk, dv] = [op.q, op.k, op.v].map(|wanted| if wanted { outs.next() } else { None });
    with_slice_if_wanted(pool, dq, |q: Option<&mut [Q]>| {
        with_slice_if_wanted(pool, dk, |k: Option<&mut [K]>| {
            with_slice_if_wanted(pool, dv, |v: Option<&mut [K]>| {
                let results =
                    Results { q: q.map(Disjoint::new), k: k.map(Disjoint::new), v: v.map(Disjoint::new) };
                inputs.run(pool, &results);
                Ok(())
            })
        })
    })
}

impl<Q: Operand, K: Operand<Acc = Q::Acc>> Inputs<'_, Q, K> {
    fn run(&self, pool: &ThreadPool, results: &Results<'_, Q, K>) {
        let Sizes { kv_heads, group, m, n, .. } = self.sizes;
        let threads = pool.threads();
        let AttentionBackward { q, k, v, .. } = *self.op;
        // All gradients of a head at once take five matmuls, those of queries and those of keys apart seven: worth it where
        // heads are too few for all threads.
        let rounds = kv_heads.div_ceil(threads);
        if 5 * rounds * threads <= 7 * kv_heads || !(q && (k || v)) && kv_heads >= 2 * threads {
            let all = Wanted { q, k, v };
            pool.run(kv_heads, |head| self.task(head, 0..group, 0..m, 0..n, all, results));
            return;
        }
        // Chunks begin at multiples of the same lengths as when they are not divided, so that sums are the same.
        let share = |len: usize, heads: usize, unit: usize| {
            let parts = (4 * threads).div_ceil(heads.max(1));
            len.div_ceil(parts).next_multiple_of(unit).max(unit)
        };
        let (keys, queries) = (share(n, kv_heads, chunks::KEYS), share(m, kv_heads * group, QUERIES));
        let of_keys = if k || v { n.div_ceil(keys) } else { 0 };
        let of_queries = if q { group * m.div_ceil(queries) } else { 0 };
        let each = of_keys + of_queries;
        pool.run(kv_heads * each, |task| {
            let (head, part) = (task / each, task % each);
            if part < of_keys {
                let range = part * keys..n.min((part + 1) * keys);
                self.task(head, 0..group, 0..m, range, Wanted { q: false, k, v }, results);
            } else {
                let chunks = m.div_ceil(queries);
                let (own, part) = ((part - of_keys) / chunks, (part - of_keys) % chunks);
                let range = part * queries..m.min((part + 1) * queries);
                let wanted = Wanted { q: true, k: false, v: false };
                self.task(head, own..own + 1, range, 0..n, wanted, results);
            }
        });
    }

    /// The gradients of some keys, of some queries, or of all of both, of one head of keys and values.
    fn task(
        &self,
        head: usize,
        group: Range<usize>,
        queries: Range<usize>,
        keys: Range<usize>,
        wanted: Wanted,
        results: &Results<'_, Q, K>,
    ) {
        let Sizes { m, n, d, e, .. } = self.sizes;
        let attention = &self.op.attention;
        // The keys that some query sees, from the beginning of a chunk on; those of the others have no gradient.
        let seen = match queries.is_empty() {
            true => 0..0,
            false => {
                self.sizes.visible(attention, queries.start).start
                    ..self.sizes.visible(attention, queries.end - 1).end
            }
        };
        let first = (seen.start / chunks::KEYS * chunks::KEYS).max(keys.start).min(keys.end);
        let seen = first..seen.end.clamp(first, keys.end);
        let (mut k_wide, mut v_wide) = (Vec::new(), Vec::new());
        let k = K::rows(self.k.matrix(head), seen.clone(), &mut k_wide);
        let v = K::rows(self.v.matrix(head), seen.clone(), &mut v_wide);
        let mut narrow = Vec::new();
        let spans = Spans { d, e, keys: seen.clone(), wanted };
        chunks::with_keys(&spans, k, v, |work| {
            let mut wide = [const { Vec::new() }; 3];
            let (mut scratch, mut delta) = (Scratch::default(), Vec::new());
            for own in group {
                let q_head = head * self.sizes.group + own;
                let mut start = queries.start;
                while start < queries.end {
                    let rows = start..queries.end.min(start + chunks::STAGE);
                    start = rows.end;
                    let [q_wide, grad_wide, out_wide] = &mut wide;
                    let q = Q::rows(self.q.matrix(q_head), rows.clone(), q_wide);
                    let grad = Q::rows(self.grad.matrix(q_head), rows.clone(), grad_wide);
                    let out = Q::rows(self.out.matrix(q_head), rows.clone(), out_wide);
                    delta.clear();
                    delta.extend((0..rows.len()).map(|i| chunks::row_dot(grad.row(i), out.row(i))));
                    let lse = &self.lse[q_head * m..][rows.clone()];
                    let lines = Lines { q, grad, delta: &delta, lse };
                    work.queries(lines, |at, keys, weights| {
                        self.weigh(
                            q_head,
                            (rows.start + at.start..rows.start + at.end, keys),
                            weights,
                            &mut scratch,
                        )
                    });
                    let Some(dq) = &results.q else { continue };
                    if wanted.q {
                        // SAFETY: tasks have different heads, or different queries, or no gradient of queries.
                        let dq = unsafe { dq.slice((q_head * m + rows.start) * d, rows.len() * d) };
                        work.query_gradients(rows.len(), |i, row| {
                            let scale = Q::Acc::of(f64::from(attention.scale));
                            save(row, scale, &mut dq[i * d..][..d], &mut narrow);
                        });
                    }
                }
            }
            let mut put = |place: &Disjoint<'_, K>, width: usize, scale: f32, is_key: bool| {
                // SAFETY: tasks have different heads, or different keys, or no gradients of keys.
                let all = unsafe { place.slice((head * n + keys.start) * width, keys.len() * width) };
                // Keys that no query of this task sees.
                let (before, rest) = all.split_at_mut((seen.start - keys.start) * width);
                let (own, after) = rest.split_at_mut(seen.len() * width);
                for hidden in [before, after] {
                    K::narrow(hidden, &mut narrow, |out| out.fill(zero()));
                }
                let scale = Q::Acc::of(f64::from(scale));
                work.key_gradients(is_key, |i, row| {
                    save(row, scale, &mut own[i * width..][..width], &mut narrow);
                });
            };
            if let (Some(dk), true) = (&results.k, wanted.k) {
                put(dk, d, attention.scale, true);
            }
            if let (Some(dv), true) = (&results.v, wanted.v) {
                put(dv, e, 1.0, false);
            }
        });
    }

    /// Turns scores of queries and keys into weights and gradients of scores.
    fn weigh(
        &self,
        q_head: usize,
        (queries, keys): (Range<usize>, Range<usize>),
        weights: &mut Weights<'_, Q::Acc>,
        Scratch { gathered, masks }: &mut Scratch<Q::Acc>,
    ) -> bool {
        let attention = &self.op.attention;
        let seen = |i: usize| self.sizes.visible(attention, i);
        let (first, last) = (seen(queries.start), seen(queries.end - 1));
        // What queries see begins and ends later from one to the next.
        if last.end <= keys.start || first.start >= keys.end {
            return false;
        }
        weights.compute(attention.dropout.is_some());
        if let Some(dropout) = &attention.dropout {
            masks.resize(queries.len() * keys.len(), zero());
            for (row, i) in queries.clone().enumerate() {
                let masks = &mut masks[row * keys.len()..][..keys.len()];
                dropout::masks(dropout, (q_head * self.sizes.m + i) * self.sizes.n + keys.start, masks);
                weights.drop_gradients(row, masks);
            }
        }
        let mut factor = Q::Acc::of(f64::from(attention.scale));
        if let Some(cap) = attention.softcap {
            weights.cap(factor, Q::Acc::of(f64::from(cap)));
            factor = Q::Acc::ONE;
        }
        if let Some(mask @ Mask::Add(_)) = &self.mask {
            for i in queries.clone() {
                if let super::MaskRow::Add(row) = mask.row(q_head, i) {
                    weights.add(i - queries.start, factor, Q::widen(&row[keys.clone()], gathered));
                }
            }
            factor = Q::Acc::ONE;
        }
        weights.exponentiate(factor, attention.softcap.is_some());
        if attention.dropout.is_some() {
            for row in 0..queries.len() {
                weights.drop_weights(row, &masks[row * keys.len()..][..keys.len()]);
            }
        }
        let whole = last.start <= keys.start && first.end >= keys.end;
        let keep = self.mask.as_ref().filter(|mask| matches!(mask, Mask::Keep(_)));
        if whole && keep.is_none() {
            return true;
        }
        for i in queries.clone() {
            let own = seen(i);
            let start = own.start.clamp(keys.start, keys.end) - keys.start;
            let end = (own.end.clamp(keys.start, keys.end) - keys.start).max(start);
            weights.keep(i - queries.start, start..end);
            if let Some(super::MaskRow::Keep(row)) = keep.map(|mask| mask.row(q_head, i)) {
                weights.hide(i - queries.start, &row[keys.clone()]);
            }
        }
        true
    }
}

/// Room for rows of masks: those that are added, converted, and those of dropout for a chunk of weights.
struct Scratch<E> {
    gathered: Vec<E>,
    masks: Vec<E>,
}

impl<E> Default for Scratch<E> {
    fn default() -> Scratch<E> {
        Scratch { gathered: Vec::new(), masks: Vec::new() }
    }
}

/// Rounds a row of sums to its place.
fn save<T: Wide>(row: &[T::Acc], scale: T::Acc, out: &mut [T], scratch: &mut Vec<T::Acc>) {
    T::narrow(out, scratch, |out| {
        for (out, &x) in out.iter_mut().zip(row) {
            *out = x * scale;
        }
    });
}

//! The gated delta rule.

use super::columns::{self, Rule};
use super::operand::{by_head, matrices};
use super::tile::{Lanes, Tile};
use super::vector::Vector;
use crate::ThreadPool;
use crate::kernels::strided::{Matrices, Matrix, unreachable_memory};
use crate::simd::Level;
use rustorch_core::{Fault, GatedDeltaRule, View, ViewMut, dispatch_dtype};

pub(in crate::kernels) fn run(
    pool: &ThreadPool,
    op: &GatedDeltaRule,
    args: [&View<'_>; 6],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    dispatch_dtype!(args[0].dtype(), [F32 F64], T => typed::<T>(pool, op, args, outs), _ => Err(unreachable_memory()))
}

fn typed<T: Vector>(
    pool: &ThreadPool,
    op: &GatedDeltaRule,
    [q, k, v, g, beta, state]: [&View<'_>; 6],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let (heads, v_heads, d_k) = (q.layout().dims()[2], v.layout().dims()[2], q.layout().dims()[3]);
    let by_row = g.layout().ndim() == 4;
    let layouts = [by_head(q)?, by_head(k)?, if by_row { by_head(g)? } else { g.layout().clone() }];
    let (q, k) = (matrices::<T>(q, &layouts[0])?, matrices::<T>(k, &layouts[1])?);
    let (g, beta) = (matrices::<T>(g, &layouts[2])?, Matrices::<T>::new(beta)?);
    columns::run(pool, v, state, outs, |sequence, head| {
        let of_keys = sequence * heads + op.broadcast.head(head, heads, v_heads);
        let decay = match by_row {
            true => Decay::OfRows(g.matrix(sequence * v_heads + head)),
            false => Decay::OfHeads(g.matrix(sequence)),
        };
        DeltaRule {
            q: q.matrix(of_keys),
            k: k.matrix(of_keys),
            decay,
            beta: beta.matrix(sequence),
            head,
            scale: T::ONE / T::of(d_k as f64).sqrt(),
            decays: vec![T::ZERO; d_k],
            decayed_k: vec![T::ZERO; d_k],
        }
    })
}

/// The logarithms of decays.
enum Decay<'a, T> {
    /// `[seq, v_heads]`
    OfHeads(Matrix<'a, T>),
    /// `[seq, d_k]`
    OfRows(Matrix<'a, T>),
}

/// The rule of one head.
struct DeltaRule<'a, T> {
    q: Matrix<'a, T>,
    k: Matrix<'a, T>,
    decay: Decay<'a, T>,
    /// `[seq, v_heads]`
    beta: Matrix<'a, T>,
    head: usize,
    /// 1/√d_k
    scale: T,
    /// The decays of the position's rows.
    decays: Vec<T>,
    /// The position's keys times these.
    decayed_k: Vec<T>,
}

impl<T: Vector> Rule<T> for DeltaRule<'_, T> {
    #[inline(always)]
    fn advance<L: Level, const N: usize>(
        &mut self,
        l: L,
        t: usize,
        v: &Lanes<T, N>,
        tile: &mut Tile<T, N>,
    ) -> [T::V<L>; N] {
        let (q, k) = (self.q.row(t), self.k.row(t));
        match &self.decay {
            Decay::OfHeads(g) => self.decays.fill(g.row(t)[self.head].exp(l)),
            Decay::OfRows(g) => {
                for (decay, &g) in self.decays.iter_mut().zip(g.row(t)) {
                    *decay = g.exp(l);
                }
            }
        }
        for ((decayed, &k), &decay) in self.decayed_k.iter_mut().zip(k).zip(&self.decays) {
            *decayed = k * decay;
        }
        let beta = T::splat(l, self.beta.row(t)[self.head]);
        let minus = T::splat(l, -T::ONE);
        let mut delta = tile.gemv(l, &self.decayed_k);
        for (delta, v) in delta.iter_mut().zip(&v.0) {
            *delta = T::times(l, T::mul_add(l, *delta, minus, T::load(l, v)), beta);
        }
        let mut sums = [[T::splat(l, T::ZERO); N]; 2];
        let (rows, row) = tile.rows.as_chunks_mut::<2>();
        let ((ks, k), (qs, q)) = (k.as_chunks::<2>(), q.as_chunks::<2>());
        let (decays, decay) = self.decays.as_chunks::<2>();
        for (((rows, decays), ks), qs) in rows.iter_mut().zip(decays).zip(ks).zip(qs) {
            for i in 0..2 {
                advance_row(l, &mut rows[i], [decays[i], ks[i], qs[i]], &delta, &mut sums[i]);
            }
        }
        for (((row, &decay), &k), &q) in row.iter_mut().zip(decay).zip(k).zip(q) {
            advance_row(l, row, [decay, k, q], &delta, &mut sums[0]);
        }
        let scale = T::splat(l, self.scale);
        let [mut results, others] = sums;
        for c in 0..N {
            results[c] = T::times(l, T::plus(l, results[c], others[c]), scale);
        }
        results
    }
}

/// `S ← decay · S + k · delta` in a row of the state; `q` times the new row is added to the sums.
#[inline(always)]
fn advance_row<T: Vector, L: Level, const N: usize>(
    l: L,
    row: &mut Lanes<T, N>,
    [decay, k, q]: [T; 3],
    delta: &[T::V<L>; N],
    sums: &mut [T::V<L>; N],
) {
    let (decay, k, q) = (T::splat(l, decay), T::splat(l, k), T::splat(l, q));
    for c in 0..N {
        let s = T::mul_add(l, k, delta[c], T::times(l, T::load(l, &row.0[c]), decay));
        T::store(l, s, &mut row.0[c]);
        sums[c] = T::mul_add(l, q, s, sums[c]);
    }
}

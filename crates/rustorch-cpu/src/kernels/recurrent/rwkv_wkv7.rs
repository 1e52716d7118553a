//! The recurrence of RWKV 7.

use super::columns::{self, Rule};
use super::operand::{by_head, matrices};
use super::tile::{Lanes, Tile};
use super::vector::Vector;
use crate::ThreadPool;
use crate::kernels::strided::{Matrix, unreachable_memory};
use crate::simd::Level;
use rustorch_core::{Fault, View, ViewMut, dispatch_dtype};

pub(in crate::kernels) fn run(
    pool: &ThreadPool,
    args: [&View<'_>; 7],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    dispatch_dtype!(args[0].dtype(), [F32 F64], T => typed::<T>(pool, args, outs), _ => Err(unreachable_memory()))
}

fn typed<T: Vector>(
    pool: &ThreadPool,
    [r, w, k, v, a, b, state]: [&View<'_>; 7],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let heads = r.layout().dims()[2];
    let layouts = [by_head(r)?, by_head(w)?, by_head(k)?, by_head(a)?, by_head(b)?];
    let (r, w) = (matrices::<T>(r, &layouts[0])?, matrices::<T>(w, &layouts[1])?);
    let (k, a) = (matrices::<T>(k, &layouts[2])?, matrices::<T>(a, &layouts[3])?);
    let b = matrices::<T>(b, &layouts[4])?;
    columns::run(pool, v, state, outs, |sequence, head| {
        let [r, w, k, a, b] = [&r, &w, &k, &a, &b].map(|x| x.matrix(sequence * heads + head));
        Wkv7 { r, w, k, a, b }
    })
}

/// The rule of one head.
struct Wkv7<'a, T> {
    r: Matrix<'a, T>,
    w: Matrix<'a, T>,
    k: Matrix<'a, T>,
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
}

impl<T: Vector> Rule<T> for Wkv7<'_, T> {
    #[inline(always)]
    fn advance<L: Level, const N: usize>(
        &mut self,
        l: L,
        t: usize,
        v: &Lanes<T, N>,
        tile: &mut Tile<T, N>,
    ) -> [T::V<L>; N] {
        let along = tile.gemv(l, self.a.row(t));
        let mut sums = [[T::splat(l, T::ZERO); N]; 2];
        let (rows, row) = tile.rows.as_chunks_mut::<2>();
        let ((ws, w), (ks, k)) = (self.w.row(t).as_chunks::<2>(), self.k.row(t).as_chunks::<2>());
        let ((bs, b), (rs, r)) = (self.b.row(t).as_chunks::<2>(), self.r.row(t).as_chunks::<2>());
        for ((((rows, w), k), b), r) in rows.iter_mut().zip(ws).zip(ks).zip(bs).zip(rs) {
            for i in 0..2 {
                advance_row(l, &mut rows[i], [w[i], k[i], b[i], r[i]], v, &along, &mut sums[i]);
            }
        }
        for ((((row, &w), &k), &b), &r) in row.iter_mut().zip(w).zip(k).zip(b).zip(r) {
            advance_row(l, row, [w, k, b, r], v, &along, &mut sums[0]);
        }
        let [mut results, others] = sums;
        for c in 0..N {
            results[c] = T::plus(l, results[c], others[c]);
        }
        results
    }
}

/// `S ← w · S + k · v + b · (aᵀ S)` in a row of the state; `r` times the new row is added to the sums.
#[inline(always)]
fn advance_row<T: Vector, L: Level, const N: usize>(
    l: L,
    row: &mut Lanes<T, N>,
    [w, k, b, r]: [T; 4],
    v: &Lanes<T, N>,
    along: &[T::V<L>; N],
    sums: &mut [T::V<L>; N],
) {
    let (w, k, b, r) = (T::splat(l, w), T::splat(l, k), T::splat(l, b), T::splat(l, r));
    for c in 0..N {
        let s = T::mul_add(l, k, T::load(l, &v.0[c]), T::times(l, T::load(l, &row.0[c]), w));
        let s = T::mul_add(l, b, along[c], s);
        T::store(l, s, &mut row.0[c]);
        sums[c] = T::mul_add(l, r, s, sums[c]);
    }
}
